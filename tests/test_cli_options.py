"""The help of the command line: it teaches, fits a terminal, and its examples are commands."""

import shlex

import pytest

from gausscontrol.cli import main, options
from gausscontrol.cli.options import PICTURES, REQUIRABLE, UsageError, parser

COMMANDS = ("analyze", "simulate", "design", "steer")
EPILOGS = (
    options.EPILOG,
    options.ANALYZE_EPILOG,
    options.SIMULATE_EPILOG,
    options.DESIGN_EPILOG,
    options.STEER_EPILOG,
)


def examples():
    for epilog in EPILOGS:
        for line in epilog.splitlines():
            if line.startswith("  gausscontrol "):
                yield shlex.split(line.split(" > ")[0])[1:]


@pytest.fixture(name="help_of")
def _help_of(capsys):
    def help_of(*command):
        assert main([*command, "--help"]) == 0
        return capsys.readouterr().out

    return help_of


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_a_command(help_of, command):
    text = help_of(command)
    assert max(map(len, text.splitlines())) <= 80
    assert f"  gausscontrol {command} " in text.partition("examples:")[2]
    codes = text.partition("exit codes:")[2]
    assert "  0  done" in codes
    assert "  2  bad input" in codes
    assert "--json" in text
    assert "--plots DIR" in text
    assert "[1/t]" in text or "[t]" in text


def test_help_names_what_is_written_and_what_can_be_required(help_of):
    words = " ".join(help_of("analyze").split())
    for word in (*PICTURES, *map(repr, REQUIRABLE), "--require REGIME"):
        assert word in words
    for command in COMMANDS[1:]:
        assert "--force" in help_of(command)


def test_general_help_shows_the_system_its_units_and_every_command(help_of):
    text = help_of()
    assert max(map(len, text.splitlines())) <= 80
    assert "Sigma' = A Sigma" in text
    assert "B [1/x^2]" in text
    assert "130  interrupted" in text
    for command in COMMANDS:
        assert f"\n    {command} " in text
        assert f"\n  gausscontrol {command} " in text


@pytest.mark.parametrize("example", list(examples()), ids=" ".join)
def test_the_examples_are_commands(example):
    assert parser().parse_args(example).command == example[0]


def test_there_are_examples_of_every_command():
    assert {example[0] for example in examples()} == set(COMMANDS)


def test_a_command_line_without_sense_names_its_help():
    with pytest.raises(UsageError, match="see gausscontrol steer --help"):
        parser().parse_args(["steer", "start.npz"])
