"""The file that a sweep resumes from: nothing lost, nothing foreign read, one user at a time."""

import errno
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sweep_functions as functions
from sweep_functions import GIVEN, METHODS, calls, checked, lines_of

import gausscontrol as gct
from gausscontrol.sweeps import journal
from gausscontrol.sweeps.sweep import sweep

# -- what is on file counts -----------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["None", "concurrent.futures.ThreadPoolExecutor(2)"])
def test_a_sweep_that_is_killed_goes_on_where_it_stopped(tmp_path, executor):
    file = tmp_path / "sweep.jsonl"
    script = (
        "import concurrent.futures, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import sweep_functions\n"
        "from gausscontrol.sweeps.sweep import sweep\n"
        f"grid = {{'x': range(12), 'folder': [{str(tmp_path)!r}], 'at': [7]}}\n"
        f"sweep(sweep_functions.dying, grid, executor={executor}, resume={str(file)!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=600)
    assert done.returncode == -9
    on_disk = [line["item"] for line in lines_of(file)[1:]]
    before = calls(tmp_path)
    if executor == "None":
        assert on_disk == list(range(7))
    grid = {"x": range(12), "folder": [str(tmp_path)], "at": [7]}
    result = sweep(functions.dying, grid, resume=file)
    assert result.values == tuple(x * x for x in range(12))
    assert result.resumed == len(on_disk)
    assert calls(tmp_path) - before == Counter(x for x in range(12) if x not in on_disk)


def test_failed_items_are_tried_again(tmp_path):
    file = tmp_path / "file"
    assert len(sweep(functions.fail_at_odd, range(4), resume=file).errors) == 2
    assert lines_of(file)[2]["error"]["type"] == "Unreturnable"
    again = sweep(functions.fail_at_odd, range(4), resume=file)
    assert (again.resumed, len(again.errors)) == (2, 2)
    # Once it succeeds, that counts.
    with file.open("ab") as stream:
        stream.write(checked(b'{"item":1,"value":1.5}\n'))
    assert sweep(functions.fail_at_odd, range(4), resume=file).values[:2] == (0.0, 1.5)


def test_a_file_cut_anywhere_loses_only_what_was_cut(tmp_path):
    grid = {"x": range(4), "folder": [str(tmp_path)]}
    file = tmp_path / "file"
    sweep(functions.logged, grid, resume=file)
    whole = file.read_bytes()
    ends = np.cumsum([len(line) for line in whole.splitlines(keepends=True)])
    for cut in [0, *range(30, len(whole) + 1, 3)]:
        file.write_bytes(whole[:cut])
        before = calls(tmp_path)
        result = sweep(functions.logged, grid, resume=file)
        assert result.values == (0, 1, 4, 9)
        kept = max(int((ends <= cut).sum()) - 1, 0)
        assert result.resumed == kept
        assert calls(tmp_path) - before == Counter(range(kept, 4))
        assert file.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"\0" * 40, b'{"item":3,"val', b'{"item":3,"value":9}'])
def test_a_torn_tail_is_dropped(tmp_path, tail):
    file = tmp_path / "file"
    sweep(functions.square, range(3), resume=file)
    whole = file.read_bytes()
    file.write_bytes(whole + tail)
    assert sweep(functions.square, range(3), resume=file).resumed == 3
    assert file.read_bytes() == whole


def test_every_item_reaches_the_file_before_the_next_is_run(tmp_path):
    file = tmp_path / "file"
    seen = sweep(lambda x: len(file.read_bytes().splitlines()), range(4), resume=file)
    assert seen.values == (1, 2, 3, 4)


def test_the_disk_is_reached_every_second(tmp_path, monkeypatch):
    synced, clock = [], iter(np.arange(0.0, 50.0, 0.4))
    monkeypatch.setattr(journal.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(journal.os, "fsync", lambda number: synced.append(number))
    sweep(functions.square, range(9), progress=False, resume=tmp_path / "file")
    assert 3 <= len(synced) <= 9


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{torn\n", "line 3 .* is damaged"),
        (b'{"item":1,"value":1,"error":2}\n', "line 3 .* is damaged"),
        (b'{"item":1,"value":NaN}\n', "NaN is no number"),
        (b'{"item":1,"value":%s}\n' % (b"[" * 50000 + b"]" * 50000), "line 3 .* is damaged"),
        (b"[1]\n", "line 3 .* is damaged"),
        (b'{"item":3,"value":1}\n', "line 3 .* is damaged .item 3 of 3"),
        (b'{"item":true,"value":1}\n', "line 3 .* is damaged"),
        (b'{"item":1}\n', "line 3 .* is damaged"),
        (b'{"item":1,"value":{"$pickle":"gA=="}}\n', r"expected one of .* found \$pickle"),
        (b'{"item":1,"value":{"$array":["|O",[1],""]}}\n', "dtype |O"),
        (b'{"item":1,"value":{"$array":["<f8",[2],"AAAAAAAAAAA="]}}\n', "is damaged"),
        (b'{"item":1,"value":{"$tuple":[],"x":1}}\n', "is damaged"),
        (b'{"item":1,"value":{"$model":{"A":[[1.0]]}}}\n', "is damaged"),
        (b'{"item":1,"value":{"$verdict":{"colour":"red"}}}\n', "is damaged"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, message):
    file = tmp_path / "file"
    sweep(functions.square, range(3), resume=file)
    kept = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*kept[:2], checked(line), *kept[2:]]))
    with pytest.raises(gct.ParameterError, match=message):
        sweep(functions.square, range(3), resume=file)


def test_every_byte_of_a_line_counts(tmp_path):
    file = tmp_path / "file"
    sweep(functions.square, [3], resume=file)
    whole = file.read_bytes()
    start = whole.index(b"\n") + 1
    for place in range(start, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        with pytest.raises(gct.ParameterError, match=r"line [23] .* is damaged"):
            sweep(functions.square, [3], resume=file)


# -- files of others ------------------------------------------------------------------------------


def test_a_file_of_another_sweep_is_refused(tmp_path):
    file = tmp_path / "file"
    sweep(functions.affine, {"a": [1, 2], "b": [3]}, resume=file)
    whole = file.read_bytes()
    others = {
        "points": (functions.affine, {"a": [1, 2.5], "b": [3]}, 0),
        "shape": (functions.affine, {"a": [1, 2, 3], "b": [3]}, 0),
        "parameters": (functions.affine, {"b": [1, 2], "a": [3]}, 0),
        "seed": (functions.affine, {"a": [1, 2], "b": [3]}, 1),
        "function": (lambda a, b: 0, {"a": [1, 2], "b": [3]}, 0),
    }
    for key, (function, grid, seed) in others.items():
        with pytest.raises(gct.ParameterError, match=f"is of another sweep: {key}: expected"):
            sweep(function, grid, seed=seed, resume=file)
    assert file.read_bytes() == whole
    fixed = tmp_path / "fixed"
    sweep(partial(functions.affine, offset=1.0), [(1, 2)], resume=fixed)
    with pytest.raises(gct.ParameterError, match="fixed: expected the arguments"):
        sweep(partial(functions.affine, offset=2.0), [(1, 2)], resume=fixed)


@pytest.mark.parametrize(
    "content",
    [b"my notes", b"my notes\n", b'{"format": "other"}\n', b"\xff\n", b"{", b"[" * 50000 + b"\n"],
    ids=lambda content: repr(content[:9]),
)
def test_a_file_of_something_else_is_left_alone(tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(gct.ParameterError, match="expected a file that a sweep wrote"):
        sweep(functions.square, range(3), resume=file)
    assert file.read_bytes() == content


@pytest.mark.parametrize("resume", [3, b"x", "", "a\0b"])
def test_names_that_are_none(resume):
    with pytest.raises(gct.ParameterError, match="resume: expected the name of a file, found"):
        sweep(functions.square, [1], resume=resume)


def test_where_the_file_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError):
        sweep(functions.square, [1], resume=tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError):
        sweep(functions.square, [1], resume=tmp_path)


def test_a_file_that_cannot_be_synced():
    assert sweep(functions.square, [1, 2], resume=os.devnull).values == (1, 4)


# -- one user at a time ---------------------------------------------------------------------------


def test_a_file_in_use_is_refused(tmp_path):
    pytest.importorskip("fcntl", reason="files are locked on POSIX systems only")
    file = tmp_path / "file"
    sweep(functions.square, range(3), resume=file)
    script = (
        "import fcntl, sys\n"
        f"file = open({str(file)!r}, 'r+b')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(gct.ParameterError, match="in use by another sweep"):
            sweep(functions.square, range(3), resume=file)
        holder.stdin.close()
        holder.wait()
    assert sweep(functions.square, range(3), resume=file).resumed == 3


@pytest.mark.parametrize(("code", "works"), [("ENOLCK", True), ("EIO", False)])
def test_file_systems_without_locks(tmp_path, monkeypatch, code, works):
    fcntl = pytest.importorskip("fcntl", reason="files are locked on POSIX systems only")

    def refuse(*_):
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(fcntl, "flock", refuse)
    file = tmp_path / "file"
    if works:
        assert sweep(functions.square, [2], resume=file).values == (4,)
    else:
        with pytest.raises(OSError, match=code):
            sweep(functions.square, [2], resume=file)


def test_two_sweeps_of_one_process_on_one_file(tmp_path):
    file = tmp_path / "file"
    GIVEN["value"] = file
    result = sweep(nested, range(3), resume=file)
    assert result.values == ("in use",) * 3
    assert sweep(nested, range(3), resume=file).resumed == 3
    assert len(lines_of(file)) == 4
    assert journal.IN_USE == {}


def nested(x):
    try:
        sweep(functions.square, range(3), resume=GIVEN["value"])
    except gct.ParameterError as error:
        return "in use" if "in use by another sweep" in str(error) else str(error)


@pytest.mark.skipif("fork" not in METHODS, reason="processes are not forked here")
def test_a_forked_process_does_not_hold_the_file():
    read, write = os.pipe()
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "file", "w+b", 0) as held:
        journal.IN_USE[0, 0] = held
        child = os.fork()
        if child == 0:
            os.write(write, b"closed" if held.closed and not journal.IN_USE else b"open")
            os._exit(0)
        del journal.IN_USE[0, 0]
        os.waitpid(child, 0)
        assert os.read(read, 9) == b"closed"
        assert not held.closed
    os.close(read)
    os.close(write)
