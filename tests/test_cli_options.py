"""The help of the command line: it teaches, fits a terminal, and its examples are commands."""

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import gausscontrol as gct
from gausscontrol.cli import choices, main
from gausscontrol.cli.choices import PICTURES, REQUIRABLE
from gausscontrol.cli.manual import ABOUT, MANUAL
from gausscontrol.cli.options import parser
from gausscontrol.cli.parsing import UsageError
from gausscontrol.synthesis import actuators, design_request

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = tuple(MANUAL)
EPILOGS = (ABOUT[1], *(epilog for _, epilog in MANUAL.values()))
HEAVY = ("control", "cvxpy", "flint", "matplotlib", "numpy", "scipy", "slycot")


def examples():
    for epilog in EPILOGS:
        for line in epilog.splitlines():
            if re.match(r" {2,4}gausscontrol [a-z]", line):
                yield shlex.split(line.split(" > ")[0])[1:]


@pytest.fixture(name="help_of")
def _help_of(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def help_of(*command):
        assert main([*command, "--help"]) == 0
        return capsys.readouterr().out

    return help_of


# -- what help says -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_a_command(help_of, command):
    text = help_of(command)
    assert max(map(len, text.splitlines())) <= 80
    assert f"  gausscontrol {command} " in text.partition("examples:")[2]
    codes = text.partition("exit codes:")[2]
    assert "  0    done" in codes
    assert "  2    bad input" in codes
    assert "  130  interrupted" in codes
    assert "--json" in text
    assert "--plots DIR" in text
    assert "[1/t]" in text or "[t]" in text


def test_help_names_what_is_written_and_what_can_be_required(help_of):
    text = help_of("analyze")
    words = " ".join(text.split())
    for word in (*PICTURES, *map(repr, REQUIRABLE), "--require REGIME"):
        assert word in words
    explained = text.partition("regimes, ")[2]
    for regime in REQUIRABLE:
        assert re.search(rf"^  {regime}  +\w", explained, re.MULTILINE)
    for command in COMMANDS[1:]:
        assert "--force" in help_of(command)


def test_general_help_shows_the_system_its_units_and_every_command(help_of):
    text = help_of()
    assert max(map(len, text.splitlines())) <= 80
    assert "Sigma' = A Sigma" in text
    assert "[1/x^2]" in text
    assert "130  interrupted" in text
    for command in COMMANDS:
        assert f"\n    {command} " in text
        assert re.search(rf"^ +gausscontrol {command} ", text, re.MULTILINE)


@pytest.mark.parametrize("text", EPILOGS, ids=["all", *COMMANDS])
def test_what_help_names_to_read_more_is_there(text):
    more = text.partition("read more:")[2]
    pages = re.findall(r"docs/[\w/]+\.rst", more)
    assert "docs/guide/commandline.rst" in pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []
    [name] = re.findall(r'python -c "import gausscontrol; help\(gausscontrol\.(\w+)\)"', more)
    assert inspect.getdoc(getattr(gct, name))


def test_the_first_run_is_one(help_of, tmp_path, monkeypatch, capsys):
    text = help_of().partition("a first run:")[2].partition("examples:")[0]
    program, model = re.search(r'python -c "(.*)"\n.*\n +gausscontrol analyze (\S+)', text).groups()
    monkeypatch.chdir(tmp_path)
    exec(program)
    assert main(["analyze", model, "--require", "globally stable"]) == 0
    assert "Globally stable, certified" in capsys.readouterr().out


@pytest.mark.parametrize("example", list(examples()), ids=" ".join)
def test_the_examples_are_commands(example):
    assert parser().parse_args(example).command == example[0]


def test_there_are_examples_of_every_command():
    assert {example[0] for example in examples()} == set(COMMANDS)


def test_the_choices_are_those_of_the_library():
    assert {frozenset(names) for names in choices.FREE} == {
        frozenset(names) for names in design_request.FREE
    }
    assert set(choices.ACTUATORS) == set(actuators.ACTUATORS)
    assert parser().parse_args(["design", "a.npz"]).free == "V"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["--schema"], ["steer", "-h"]])
def test_help_needs_nothing_heavy(arguments):
    program = (
        "import sys; from gausscontrol.cli import main; "
        f"main({arguments}); print(sorted(set({HEAVY}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "[]")


def test_a_command_line_without_sense_needs_nothing_heavy():
    program = (
        "import sys; from gausscontrol.cli import main; "
        f"print(main(['analyse', 'x']), sorted(set({HEAVY}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "2 []\n"


# -- names that are nearly right ------------------------------------------------------------------


def refusal(*words):
    with pytest.raises(UsageError) as caught:
        parser().parse_args(list(words))
    return str(caught.value)


def test_a_command_line_without_sense_names_its_help():
    assert refusal("steer", "start.npz").endswith("GOAL; see gausscontrol steer --help")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--versoin", "unknown option --versoin; did you mean --version? See gausscontrol --help"),
        ("analyze x.mat --verbose", "unknown option --verbose; see gausscontrol analyze --help"),
        ("-version", "unknown option -version; did you mean --version? See"),
        ("analyse x.mat", "design, steer, found 'analyse'; did you mean analyze? See"),
        ("", "COMMAND: expected one of analyze, simulate, design, steer, found none; see"),
        ("xyz", "found 'xyz'; see gausscontrol --help"),
        ("--json analyze x.mat", "--json is an option of analyze, simulate, design, steer; write"),
        ("analyze x.mat --plot-all", "did you mean --plots? See gausscontrol analyze --help"),
        ("analyze x.mat --qqq", "unknown option --qqq; see gausscontrol analyze --help"),
        ("design x.mat --me 1", "--me may be --mean or --mean-decay-rate; write more of it; see"),
    ],
)
def test_a_wrong_name_is_answered_by_the_close_one(words, message):
    assert message in refusal(*words.split())


def test_options_may_be_abbreviated():
    options = parser().parse_args(["design", "--cov", "2", "1", "x.mat", "--dec=0.5"])
    assert (options.covariance, options.decay_rate) == ([2.0, 1.0], 0.5)


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["globally stable", "Globally Stable", "GLOBALLY-stable"])
def test_a_regime_is_required_in_any_case(text):
    options = parser().parse_args(["analyze", "x.mat", "--require", text])
    assert options.require == "globally stable"
    assert parser().parse_args(["analyze", "x.mat", "--require", "Blow up"]).require == "blow-up"


def test_a_misspelt_regime_is_answered_by_the_closest():
    message = refusal("analyze", "x.mat", "--require", "globaly stable")
    assert "found 'globaly stable'; did you mean 'globally stable'? See" in message
    message = refusal("analyze", "x.mat", "--require", "xyz")
    assert message.startswith("--require: expected one of 'globally stable', 'collapse', ")
    assert "found 'xyz'; see gausscontrol analyze --help" in message


@pytest.mark.parametrize(
    ("words", "names"),
    [("V", "V"), ("AV", "AV"), ("VA", "AV"), ("BA", "AB"), ("BV", "VB"), ("A,V", "AV"),
     ("V A", "AV"), ("V V", "V")],
)  # fmt: skip
def test_free_takes_letters_in_any_order(words, names):
    options = parser().parse_args(["design", "--free", *words.split(), "x.mat"])
    assert (options.free, options.file) == (names, Path("x.mat"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VX", "--free: expected letters of A, B, V, found 'X' in 'VX'; see"),
        ("vb", "found 'b', 'v' in 'vb'; capitals, please: b is not B; see"),
        ("A", "--free: expected one of V, B, AV, AB, VB, found 'A'; choose one; see"),
        ("ABV", "found 'ABV'; keep one of the three; see gausscontrol design --help"),
    ],
)
def test_free_refuses_other_letters(text, message):
    assert message in refusal("design", "x.mat", "--free", text)


@pytest.mark.parametrize(
    "words",
    [
        "--mean 1 -0.5 --covariance 2 1e-1 x.mat --norm-bound V=5 A=1",
        "--mean 1 -0.5 x.mat --covariance 2 1e-1 --norm-bound V=5 A=1",
        "--norm-bound V=5 A=1 x.mat --mean=1 -0.5 --covariance 2,0.1",
        "x.mat --norm-bound V=5,A=1 --mean 1, -0.5 --covariance=2 0.1",
        "--norm-bound V=5 A=1 --mean 1 -5e-1 --covariance 2 0.1 -- x.mat",
    ],
)
def test_a_file_may_follow_an_option_of_several_values(words):
    options = parser().parse_args(["design", *words.split()])
    assert (options.file, options.mean, options.covariance) == (
        Path("x.mat"), [1.0, -0.5], [2.0, 0.1],
    )  # fmt: skip
    assert options.norm_bound == {"V": 5.0, "A": 1.0}
    assert parser().parse_args(["design", "x.mat", "--norm-bound", "5"]).norm_bound == 5.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("design --mean 1 y x.mat", "--mean: expected numbers such as 1 0.5, found '1 y'; see"),
        ("design --mean x.mat", "--mean: expected a value, found 'x.mat'; see"),
        ("design x.mat --mean", "--mean: expected a value, found none; see"),
        ("design x.mat --mean=", "--mean: expected numbers such as 1 0.5, found ''; see"),
        ("design x.mat --norm-bound V=x", "expected one number, or pairs such as V=5 A=1, found "),
        ("design x.mat --norm-bound V=1 V=2", "or pairs such as V=5 A=1, found 'V=1 V=2'; see"),
        ("design x.mat --norm-bound 1 2", "or pairs such as V=5 A=1, found '1 2'; see"),
        ("design x.mat y.mat", "expected FILE, found also 'y.mat'; see gausscontrol design --help"),
        ("design x.mat --heads 2.5", "--heads: expected a whole number, found '2.5'; see"),
        ("simulate x.mat --depth deep", "--depth: expected a number, found 'deep'; see"),
        ("analyze --plots --json x.mat", "--plots: expected a value, found '--json'; see"),
        ("steer a.npz b.npz c.npz d.npz", "expected START GOAL, found also 'c.npz', 'd.npz'; see"),
        ("steer a.npz b.npz --kind holds", "found 'holds'; did you mean 'hold'? See"),
        ("analyze x.mat --json=yes", "--json: ignored explicit argument 'yes'; see"),
    ],
)
def test_values_that_make_no_sense(words, message):
    assert message in refusal(*words.split())
