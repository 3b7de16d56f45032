"""Sweeps: every executor, nothing lost, seeds of their own, results with labels."""

import errno
import gc
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sweep_functions as functions
from hypothesis import given, settings
from hypothesis import strategies as st

import gausscontrol as gct
from gausscontrol.sweeps import journal
from gausscontrol.sweeps.result import SweepResult
from gausscontrol.sweeps.sweep import sweep
from gausscontrol.sweeps.verdict import Verdict

METHODS = multiprocessing.get_all_start_methods()
LIGHT = settings(derandomize=True, deadline=None, max_examples=25)


def processes(workers=2):
    # A process with threads must not be forked; the server forks one that has none.
    context = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
    if "forkserver" in METHODS:
        context.set_forkserver_preload(["gausscontrol"])
    return ProcessPoolExecutor(workers, mp_context=context)


@pytest.fixture(name="pools", scope="module")
def _pools():
    with processes() as pool, ThreadPoolExecutor(2) as threads:
        yield {"here": None, "threads": threads, "processes": pool}


@pytest.fixture(name="cluster", scope="module")
def _cluster():
    """Two worker processes of a real Dask cluster, and their client."""
    with warnings.catch_warnings():
        # What the machine's own network and ports make of it is not tested here.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        from dask.distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
            silence_logs=50,
        )  # fmt: skip
        client = Client(cluster)
        gc.collect()  # sockets that its start leaves to the collector
    yield client
    client.close()
    cluster.close()


def calls(folder):
    path = Path(folder) / "calls"
    return Counter(int(line) for line in path.read_text().split()) if path.exists() else Counter()


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def checked(line):
    """Return a line with the checksum that it would have in a file."""
    content = line.removesuffix(b"\n")
    return content[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(content)


GIVEN = {"value": None}


def give(x):
    """Return what a test wants to be returned: it holds nothing itself."""
    return 1.0 if x == 2 else GIVEN["value"]


class Immediate:
    """An executor that does its work at once and counts what it holds."""

    def __init__(self, order=1):
        self.waiting, self.order, self.most = [], order, 0

    def submit(self, function, *args):
        future = Future()
        self.waiting.append((future, function, args))
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) >= self.order:
            for late, call, given_args in reversed(self.waiting):
                late.set_result(call(*given_args))
            self.waiting = []
        return future


def pick(x):
    return GIVEN["value"][x]


# -- grids ----------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_last_fastest():
    result = sweep(functions.affine, {"a": [1, 2], "b": np.array([0.0, 0.5, 1.0])})
    assert result.shape == (2, 3)
    assert result.points[:2] == ({"a": 1, "b": 0.0}, {"a": 1, "b": 0.5})
    assert result.values == (2.0, 2.5, 3.0, 4.0, 4.5, 5.0)
    assert result.grid == {"a": (1, 2), "b": (0.0, 0.5, 1.0)}
    np.testing.assert_array_equal(result.array(), [[2.0, 2.5, 3.0], [4.0, 4.5, 5.0]])
    assert not result.failed.any()
    assert len(result) == 6


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([{"a": 1, "b": 2}, {"b": 0, "a": 3}], (4.0, 6.0)),
        ([(1, 2), (3, 0)], (4.0, 6.0)),
        (iter([(1, 2)]), (4.0,)),
    ],
)
def test_points_by_name_and_by_position(points, expected):
    result = sweep(functions.affine, points)
    assert result.values == expected
    assert result.grid is None
    assert result.shape == (len(expected),)


def test_single_arguments_may_be_anything():
    models = [gct.GaussianTransformer(1, 1, -1), gct.GaussianTransformer(-1, 1, -1)]
    result = sweep(partial(gct.classify, sdp=False), models)
    assert result.array("regime").tolist() == ["globally stable", "collapse"]
    rows = sweep(np.sum, np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert rows.values == (3.0, 7.0)


def test_nothing_that_is_passed_in_changes():
    axis = np.array([1.0, 2.0])
    grid = {"a": axis, "b": [1]}
    result = sweep(functions.affine, grid)
    axis[0] = 9.0
    grid["c"] = [1]
    assert result.points[0] == {"a": 1.0, "b": 1}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "grid: expected at least one parameter"),
        ([], "grid: expected at least one point"),
        ("abc", "grid: expected a mapping of names to values or a list of points, found str"),
        (3.0, "grid: expected a mapping .* found float"),
        (np.array(3.0), "grid: expected a mapping .* found ndarray"),
        ({"x": 1.0}, r"grid\['x'\]: expected a list of values, found float"),
        ({"x": "abc"}, r"grid\['x'\]: expected a list of values, found str"),
        ({"x": []}, r"grid\['x'\]: expected at least one value"),
        ({1: [2]}, "grid: expected names of parameters, found the key 1"),
        ([{"x": 1}, {"y": 1}], r"grid\[1\]: expected a mapping with the names of the first"),
        ([{"x": 1}, 2], r"grid\[1\]: expected a mapping .* found int"),
        ([(1,), (1, 2)], "grid: expected points of one kind"),
        ([(1,), 2], "grid: expected points of one kind"),
        ([{1: 2}], "grid: expected names of parameters"),
        ({"y": [1]}, r"function: expected one that takes the parameters of the grid \(y\)"),
        ([(1, 2)], r"function: expected one .* \(2 by position\), found too many"),
    ],
)
def test_bad_grids(grid, message):
    with pytest.raises(gct.ParameterError, match=message):
        sweep(functions.square, grid)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed: expected an integer of at least 0, found -1"),
        ({"seed": 0.5}, "seed: expected an integer of at least 0, found 0.5"),
        ({"seed": None}, "seed: expected an integer"),
        ({"seed": True}, "seed: expected an integer"),
        ({"in_flight": 0}, "in_flight: expected an integer of at least 1, found 0"),
        ({"executor": 4}, "executor: expected one with the submit of concurrent.futures, found 4"),
        ({"executor": ThreadPoolExecutor}, "executor: expected one with the submit"),
    ],
)
def test_bad_options(arguments, message):
    with pytest.raises(gct.ParameterError, match=message):
        sweep(functions.square, [1], **arguments)
    with pytest.raises(gct.ParameterError, match="function: expected a callable, found int"):
        sweep(3, [1])


# -- executors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_executors_agree(pools, where):
    result = sweep(functions.affine, {"a": range(8), "b": [0.5, 1.5]}, executor=pools[where])
    assert result.values == tuple(2.0 * a + b for a in range(8) for b in (0.5, 1.5))


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_failures_are_recorded_and_the_rest_goes_on(pools, where):
    result = sweep(functions.fail_at_odd, {"x": range(6)}, executor=pools[where])
    assert result.values == (0.0, None, 2.0, None, 4.0, None)
    assert result.failed.tolist() == [False, True] * 3
    assert [error.index for error in result.errors] == [1, 3, 5]
    first = result.errors[0]
    assert (first.point, first.type, first.message) == ({"x": 1}, "Unreturnable", "this and 1")
    assert "fail_at_odd" in first.traceback
    assert "run_item" not in first.traceback
    assert "item 1 (x = 1): Unreturnable: this and 1" in str(result)
    np.testing.assert_array_equal(result.array(), [0, np.nan, 2, np.nan, 4, np.nan])


def test_exceptions_of_every_kind():
    kinds = ["exit", "unprintable", "certificate", "lines", "fine"]
    result = sweep(functions.misbehave, kinds)
    assert [error.type for error in result.errors] == [
        "SystemExit", "Unprintable", "NotCertified", "ValueError",
    ]  # fmt: skip
    assert result.errors[1].message == "(its message cannot be printed)"
    assert str(result.errors[3]) == "item 3 ('lines'): ValueError: first line"
    assert result.values[4] == "fine"
    assert str(result).splitlines()[-2] == "    and 1 more in errors"


def test_interrupt_is_no_failure_and_cancels_the_rest():
    def interrupt(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(interrupt, [1, 2])

    class Interrupted:
        futures = []  # noqa: RUF012

        def submit(self, function, item):
            future = Future()
            self.futures.append(future)
            if len(self.futures) == 3:
                self.futures[1].set_exception(KeyboardInterrupt())
            return future

    with pytest.raises(KeyboardInterrupt):
        sweep(functions.square, range(9), executor=Interrupted(), in_flight=3)
    assert [future.cancelled() for future in Interrupted.futures] == [True, False, True]


def test_a_bounded_number_is_in_flight():
    executor = Immediate(order=4)
    result = sweep(functions.square, range(40), executor=executor, in_flight=4)
    assert executor.most == 4
    assert result.values == tuple(x * x for x in range(40))


def test_what_cannot_travel_is_a_failed_item(pools):
    result = sweep(functions.unpicklable, range(3), executor=pools["processes"])
    assert (result.values[0], result.values[2]) == (0, 2)
    assert "no result came back: " in result.errors[0].message

    class Picky(Immediate):
        def submit(self, function, item):
            if item.args == (1,):
                raise RecursionError("cannot be sent")
            return super().submit(function, item)

    result = sweep(functions.square, range(3), executor=Picky())
    assert result.values == (0, None, 4)
    assert result.errors[0].message == "not sent to the executor: cannot be sent"


def test_a_closed_executor_is_refused_at_once():
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(gct.ParameterError, match="executor: expected one that takes work, found"):
        sweep(functions.square, [1, 2], executor=pool)


def test_cancelled_items_are_recorded():
    class Cancelling(Immediate):
        def submit(self, function, item):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future if item.index == 1 else super().submit(function, item)

    result = sweep(functions.square, range(3), executor=Cancelling())
    assert result.values == (0, None, 4)
    assert result.errors[0].type == "CancelledError"


# -- a killed worker ------------------------------------------------------------------------------


def test_a_killed_worker_loses_no_finished_item(tmp_path):
    grid = {"x": range(9), "folder": [str(tmp_path)], "at": [4]}
    file = tmp_path / "sweep.jsonl"
    with processes() as pool:
        broken = sweep(functions.dying, grid, executor=pool, in_flight=1, resume=file)
    assert broken.array().ravel().tolist()[:4] == [0, 1, 4, 9]
    assert [error.index for error in broken.errors] == [4, 5, 6, 7, 8]
    assert {error.type for error in broken.errors} == {"BrokenProcessPool"}
    assert "not finished, since the executor broke" in broken.errors[0].message
    assert "run the sweep again with a new executor" in broken.errors[4].message
    assert [line["item"] for line in lines_of(file)[1:]] == [0, 1, 2, 3, 4]
    assert lines_of(file)[5]["lost"] is True
    with processes() as pool:
        whole = sweep(functions.dying, grid, executor=pool, resume=file)
    assert whole.resumed == 4
    assert whole.values == tuple(x * x for x in range(9))
    assert calls(tmp_path) == Counter(range(9))  # none twice


def test_a_pool_that_breaks_with_much_in_flight(tmp_path):
    grid = {"x": range(40), "folder": [str(tmp_path)], "at": [20]}
    with processes() as pool:
        result = sweep(functions.dying, grid, executor=pool)
    lost = {error.index for error in result.errors}
    assert 20 in lost
    assert all(result.values[x] == x * x for x in range(40) if x not in lost)
    with pytest.raises(gct.ParameterError, match="executor: expected one that takes work"):
        sweep(functions.square, [1], executor=pool)


def test_an_executor_that_breaks_between_two_items():
    class Breaking(Immediate):
        def submit(self, function, item):
            if item.index >= 2:
                raise BrokenExecutor("gone")
            return super().submit(function, item)

    result = sweep(functions.square, range(5), executor=Breaking())
    assert result.values == (0, 1, None, None, None)
    assert [error.index for error in result.errors] == [2, 3, 4]


# -- Dask -----------------------------------------------------------------------------------------


def test_dask(cluster, pools):
    executor = cluster.get_executor()
    assert len(cluster.scheduler_info()["workers"]) == 2
    points = {"x": range(12)}
    result = sweep(functions.draw, points, executor=executor, seed=3, in_flight=5)
    expected = sweep(functions.draw, points, seed=3)
    np.testing.assert_array_equal(result.array(), expected.array())
    failing = sweep(functions.fail_at_odd, points, executor=executor)
    assert failing.failed.tolist() == [False, True] * 6
    assert failing.errors[0].type == "Unreturnable"
    closure = 3
    assert sweep(lambda x: x + closure, [1, 2], executor=executor).values == (4, 5)
    with pytest.raises(gct.ParameterError, match=r"a Dask Client; pass client.get_executor\(\)"):
        sweep(functions.square, [1], executor=cluster)


def test_dask_does_not_answer_from_memory(cluster, tmp_path):
    grid = {"x": [1, 2], "folder": [str(tmp_path)]}
    for _ in range(2):
        sweep(functions.logged, grid, executor=cluster.get_executor())
    assert calls(tmp_path) == Counter({1: 2, 2: 2})


def test_a_killed_dask_worker_loses_nothing(cluster, tmp_path):
    grid = {"x": range(10), "folder": [str(tmp_path)], "at": [6]}
    result = sweep(functions.dying, grid, executor=cluster.get_executor())
    assert (tmp_path / "killed").exists()
    assert result.values == tuple(x * x for x in range(10))


# -- seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_seeds_are_those_of_the_item(pools, where):
    here = sweep(functions.draw, {"x": range(10)}, seed=7)
    there = sweep(functions.draw, {"x": range(10)}, seed=7, executor=pools[where])
    np.testing.assert_array_equal(here.array(), there.array())
    other = sweep(functions.draw, {"x": range(10)}, seed=8)
    assert not np.isin(other.array(), here.array()).any()
    children = np.random.SeedSequence(7).spawn(10)
    expected = [np.random.default_rng(child).standard_normal(2) for child in children]
    np.testing.assert_array_equal(here.array(), expected)


def test_seeds_do_not_depend_on_the_order_or_on_what_is_done(tmp_path):
    backwards = sweep(functions.draw_seed, range(9), executor=Immediate(order=9))
    here = sweep(functions.draw_seed, range(9))
    assert backwards.values == here.values
    assert len(set(here.values)) == 9
    assert all(0 <= seed < 2**64 for seed in here.values)
    file = tmp_path / "file"
    sweep(functions.draw_seed, range(9), resume=file)
    kept = file.read_text().splitlines(keepends=True)
    file.write_text("".join(kept[:1] + kept[3:4] + kept[8:9]))
    assert sweep(functions.draw_seed, range(9), resume=file).values == here.values


def test_seeds_go_where_they_are_asked_for():
    def both(x, *, rng, seed=5):
        return rng.random(), seed

    def any_keyword(**given):
        return sorted(given)

    assert sweep(both, [1]).values[0][1] != 5
    assert sweep(both, [{"x": 1, "seed": 2}]).values[0][1] == 2
    assert sweep(partial(both, seed=3), [1]).values[0][1] == 3
    assert sweep(any_keyword, {"x": [1]}).values == (["x"],)
    assert sweep(lambda seed: seed, [11, 12]).values == (11, 12)
    assert sweep(max, [[1, 2]]).values == (2,)  # no signature to read


# -- the file -------------------------------------------------------------------------------------


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


def test_an_item_that_kills_its_worker_does_not_stop_the_others(tmp_path):
    file = tmp_path / "file"
    runs = []
    while not runs or len(runs[-1].errors) > 1:
        with processes(1) as pool:
            runs.append(sweep(functions.deadly, range(5), executor=pool, resume=file))
        assert len(runs) < 4
    assert runs[-1].values == (0, None, 4, 9, 16)


def test_suspects_come_last_and_alone(tmp_path):
    file = tmp_path / "file"
    sweep(functions.fail_at_odd, [1, 3, 5, 7], resume=file)
    with file.open("ab") as stream:
        for index in (0, 0, 2):
            stream.write(checked(b'{"item":%d,"lost":true}\n' % index))
    sent = []

    class Watching(Immediate):
        def submit(self, function, item):
            sent.append((item.index, len(self.waiting)))
            return super().submit(function, item)

    sweep(functions.fail_at_odd, [1, 3, 5, 7], executor=Watching(), resume=file)
    assert [index for index, _ in sent] == [1, 3, 2, 0]


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


def test_functions_of_one_name_that_hold_other_things(tmp_path):
    def shifted(by, *, also=0.0):
        def shift(x, factor=by):
            return x + by

        return shift

    twice = [lambda x: 2 * x, lambda x: 3 * x]
    pairs = [
        [shifted(1.0), shifted(2.0)],
        twice,
        [functions.Scaled(1.0).call, functions.Scaled(2.0).call],
        [functions.Scaled(1.0), functions.Scaled(2.0)],
        [partial(functions.Scaled(1.0).call), partial(functions.Scaled(2.0).call)],
    ]
    for k, (one, other) in enumerate(pairs):
        file = tmp_path / f"file{k}"
        first = sweep(one, [1.0, 2.0], resume=file)
        assert sweep(one, [1.0, 2.0], resume=file).resumed == 2
        with pytest.raises(gct.ParameterError, match=r"is of another sweep: fixed: expected"):
            sweep(other, [1.0, 2.0], resume=file)
        assert first.values != sweep(other, [1.0, 2.0]).values


@pytest.mark.parametrize("name", ["opaque", "method", "closure"])
def test_functions_without_identity(tmp_path, name):
    opaque = functions.Opaque()
    given = {"opaque": opaque, "method": opaque.call, "closure": lambda x: opaque(x)}[name]
    with pytest.raises(gct.ParameterError, match=r"resume: expected .*use a function of a module"):
        sweep(given, [1], resume=tmp_path / "file")
    assert sweep(given, [1]).values == (1,)


@pytest.mark.parametrize("resume", [3, b"x", "", "a\0b"])
def test_names_that_are_none(resume):
    with pytest.raises(gct.ParameterError, match="resume: expected the name of a file, found"):
        sweep(functions.square, [1], resume=resume)


def test_a_file_that_cannot_be_synced():
    assert sweep(functions.square, [1, 2], resume=os.devnull).values == (1, 4)


def test_where_the_file_cannot_be(tmp_path):
    with pytest.raises(FileNotFoundError):
        sweep(functions.square, [1], resume=tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError):
        sweep(functions.square, [1], resume=tmp_path)


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


# -- what a file holds ----------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=5)
)
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


def identical(x, y):
    """Whether two values are the same to the last bit and type; NaN equals itself."""
    if type(x) is not type(y):
        return False
    if isinstance(x, dict):
        return list(x) == list(y) and all(identical(x[key], y[key]) for key in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(identical, x, y))
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return repr(x) == repr(y)


@LIGHT
@given(VALUES)
def test_values_come_back_as_they_were(tmp_path_factory, value):
    file = tmp_path_factory.mktemp("stored") / "file"

    def give(x):
        return value

    computed, read = (sweep(give, [0], resume=file) for _ in range(2))
    assert (computed.resumed, read.resumed) == (0, 1)
    assert identical(computed.values[0], value)
    assert identical(read.values[0], value)


ARRAYS = [
    np.linspace(0, 1, 7)[::2],
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([[1e-310, -0.0], [np.inf, np.nan]]),
    np.arange(3, dtype=np.int8),
    np.array([2**63], dtype=np.uint64),
    np.array([True, False]),
    np.array(["collapse", "x"]),
    np.array([1 + 2j]),
    np.zeros((0, 2)),
    np.array(3.0, dtype=">f4"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=str)
def test_arrays_come_back_as_they_were(tmp_path, array):
    file = tmp_path / "file"

    def give(x):
        return {"array": array, "again": (array, [array])}

    sweep(give, [0], resume=file)
    (value,) = sweep(give, [0], resume=file).values
    native = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    assert identical(value["array"], native)
    assert identical(value["again"][1][0], native)
    value["array"][...] = array  # not read-only


def test_results_of_this_package_come_back(tmp_path):
    file = tmp_path / "file"
    grid = {"a": [0.5, 0.25], "v": [-1.0, 0.0]}
    computed = sweep(functions.regime, grid, resume=file)
    read = sweep(functions.regime, grid, resume=file)
    assert read.resumed == 4
    assert read.values == computed.values
    verdict, undecided = read.values[:2]
    assert isinstance(verdict, Verdict)
    assert verdict.model == gct.GaussianTransformer(0.5, 1, -1)
    assert (verdict.regime, verdict.certified) == ("globally stable", True)
    assert (undecided.regime, undecided.certified, undecided.margin) == ("undecided", False, None)
    assert str(verdict).startswith("Globally stable: every Gaussian")
    assert str(undecided) == "Undecided: not certified"
    plain = sweep(functions.regime, grid)
    assert isinstance(plain.values[0], gct.Classification)
    for field in plain.fields:
        np.testing.assert_array_equal(plain.array(field), read.array(field))

    stack = gct.LayerStack([gct.GaussianTransformer(np.eye(2), np.eye(2), np.eye(2), dt=0.1)] * 2)
    factors = np.random.default_rng(0).standard_normal((4, 2, 1, 3))
    factored = gct.GaussianTransformer.from_weights(
        *factors[:3], factors[3].transpose(0, 2, 1), name="factored"
    )
    point = gct.find_equilibrium(gct.GaussianTransformer(1, 1, -1))
    results = [stack, factored, point]
    GIVEN["value"] = results
    models = sweep(pick, range(3), resume=tmp_path / "models")
    assert models.values[:2] == (stack, factored)
    assert type(models.values[1].heads) is type(factored.heads)
    assert isinstance(models.values[2], dict)
    assert models.values[2]["model"] == point.model
    np.testing.assert_array_equal(models.values[2]["covariance"], point.covariance)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({1, 2}, "set"),
        (b"raw", "bytes"),
        (np.array([None]), "object"),
        (np.ma.array([1.0], mask=[True]), "MaskedArray"),
        (np.longdouble(1), "longdouble"),
        ({"x": [0, {"y": object()}]}, r"object at x\[1\].y"),
        (1 << 20000, "int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_results_that_a_file_does_not_hold(tmp_path, value, named):
    GIVEN["value"] = value
    with pytest.raises(gct.ParameterError, match=f"function: at item 0, .*{named}.*resume out"):
        sweep(give, [0, 1], resume=tmp_path / "first")
    # After one that it does hold, it is that item's failure.
    result = sweep(give, [2, 1], resume=tmp_path / "second")
    assert result.values == (1.0, None)
    assert result.errors[0].type == "ParameterError"
    assert sweep(lambda x: value, [0, 1]).values[0] is value


def test_a_value_without_end_is_refused(tmp_path):
    endless = []
    endless.append(endless)
    GIVEN["value"] = endless
    with pytest.raises(gct.ParameterError, match=r"at item 0, .* nestings"):
        sweep(give, [0], resume=tmp_path / "file")
    with pytest.raises(gct.ParameterError, match=r"function: expected .* nestings"):
        sweep(lambda x: endless, [0], resume=tmp_path / "file")


def test_points_that_a_file_cannot_tell_apart(tmp_path):
    with pytest.raises(gct.ParameterError, match="grid: cannot be told from others"):
        sweep(functions.square, [object()], resume=tmp_path / "file")
    with pytest.raises(gct.ParameterError, match="function: what it holds is unknown"):
        sweep(partial(functions.affine, offset=object()), [(1, 2)], resume=tmp_path / "file")


# -- results --------------------------------------------------------------------------------------


def test_arrays_of_results():
    result = sweep(functions.table, {"x": [1, 2]})
    assert result.fields == ("half", "row", "name")
    np.testing.assert_array_equal(result.array("half"), [0.5, 1.0])
    np.testing.assert_array_equal(result.array("row"), [[0, 1, 2], [0, 2, 4]])
    assert result.array("name").tolist() == ["n1", "n2"]
    assert result.array(lambda value: value["half"] > 0.7).tolist() == [False, True]
    assert result.array().dtype == object
    with pytest.raises(gct.ParameterError, match="found 'colour' at item 0, a dict; its parts are"):
        result.array("colour")
    with pytest.raises(gct.ParameterError, match="a float; it has no parts"):
        sweep(functions.affine, [(1, 2)]).array("colour")
    assert sweep(functions.affine, [(1, 2)]).array("real").tolist() == [4.0]


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (1, np.array([1.0, np.nan])),
        (True, np.array([True, None])),
        ("a", np.array(["a", None])),
        (np.ones(2), np.array([[1, 1], [np.nan, np.nan]])),
        ([1], None),
    ],
)
def test_missing_entries(present, expected):
    def half(x):
        if x:
            raise ValueError
        return present

    array = sweep(half, [0, 1]).array()
    if expected is None:
        assert array.tolist() == [[1], None]
    else:
        np.testing.assert_array_equal(array, expected)
        assert array.dtype.kind == expected.dtype.kind


def test_a_sweep_in_which_all_fails():
    result = sweep(functions.fail_at_odd, [1, 3])
    assert result.array().tolist() == [None, None]
    assert result.fields == ()
    assert result.failed.all()
    assert repr(result) == "<SweepResult: Sweep of sweep_functions.fail_at_odd over 2 points>"


def test_failed_is_read_only():
    result = sweep(functions.square, [1])
    with pytest.raises(ValueError, match="read-only"):
        result.failed[0] = True


def test_xarray():
    result = sweep(functions.affine, {"a": [1, 2], "b": [0.0, 0.5]})
    array = result.to_xarray()
    assert (array.dims, array.name) == (("a", "b"), "affine")
    assert float(array.sel(a=2, b=0.5)) == 4.5
    table = sweep(functions.table, {"x": [1, 2]}).to_xarray()
    assert set(table.data_vars) == {"half", "row", "name"}
    assert table["row"].dims == ("x", "dim_0")
    assert not table["failed"].any()
    failing = sweep(functions.fail_at_odd, {"x": range(4)}).to_xarray()
    assert failing["failed"].values.tolist() == [False, True] * 2
    listed = sweep(functions.affine, [(1, 2), (3, 4)]).to_xarray()
    assert listed.dims == ("item",)

    def clash(x, failed):
        return {"x": np.ones(2), "y": np.ones(3), "failed": failed}

    mixed = sweep(clash, {"x": [object()], "failed": [1, 2]}).to_xarray()
    assert mixed["y"].dims == ("x", "failed", "y_dim_0")
    assert mixed["failed_"].dims == ("x", "failed")
    assert set(mixed.data_vars) == {"x_", "y", "failed__"}


def test_pandas():
    frame = sweep(functions.table, {"x": [1, 2]}).to_pandas()
    assert list(frame.columns) == ["x", "half", "row", "name", "error"]
    assert frame["half"].tolist() == [0.5, 1.0]
    np.testing.assert_array_equal(frame["row"][1], [0, 2, 4])
    failing = sweep(functions.fail_at_odd, range(2)).to_pandas()
    assert list(failing.columns) == ["point", "value", "error"]
    assert failing["error"].tolist() == [None, "Unreturnable: this and 1"]
    tuples = sweep(functions.affine, [(1, 2)]).to_pandas()
    assert list(tuples.columns) == ["point_0", "point_1", "value", "error"]
    same = sweep(lambda value, error: value, {"value": [1], "error": [2]}).to_pandas()
    assert list(same.columns) == ["value", "error", "value_", "error_"]


def test_labels_by_what_is_installed(monkeypatch):
    grid = sweep(functions.affine, {"a": [1, 2], "b": [0.0, 0.5]})
    points = sweep(functions.affine, [(1, 2)])
    assert type(grid.labelled).__name__ == "DataArray"
    assert type(points.labelled).__name__ == "DataFrame"
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert type(points.labelled).__name__ == "DataArray"
    monkeypatch.setitem(sys.modules, "xarray", None)
    np.testing.assert_array_equal(grid.labelled, grid.array())
    assert isinstance(points.labelled, np.ndarray)
    with pytest.raises(gct.ParameterError, match="expected xarray to be installed"):
        grid.to_xarray()
    with pytest.raises(gct.ParameterError, match="expected pandas to be installed"):
        grid.to_pandas()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "xarray", None)
    assert type(grid.labelled).__name__ == "DataFrame"


def test_report(tmp_path):
    grid = {"a": [1, 2], "b": [0.0, 0.5, 1.0]}
    sweep(functions.affine, grid, resume=tmp_path / "file")
    result = sweep(functions.affine, grid, resume=tmp_path / "file")
    assert str(result) == (
        "Sweep of sweep_functions.affine over a (2) x b (3)\n"
        "  finished  6 of 6, of which 6 read from the file\n"
        "  seed      0"
    )
    assert isinstance(result, SweepResult)
    assert str(sweep(functions.square, [1, 2])).startswith(
        "Sweep of sweep_functions.square over 2 points"
    )
    assert "<th" in result._repr_html_()
    long = sweep(functions.fail_at_odd, [{"x": 10**80 + 1}])
    assert "..." in str(long)


# -- progress -------------------------------------------------------------------------------------


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_is_silent_where_nobody_looks(capsys):
    sweep(functions.square, range(3))
    assert capsys.readouterr() == ("", "")


def test_progress_by_tqdm(monkeypatch, tmp_path):
    sweep(functions.square, range(2), resume=tmp_path / "file", progress=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    sweep(functions.fail_at_odd, range(2))
    assert "2/2" in terminal.text
    assert "failed 1" in terminal.text
    terminal.text = ""
    sweep(functions.square, range(3), progress=False)
    assert terminal.text == ""


def test_progress_without_tqdm(monkeypatch):
    for name in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, name, None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    sweep(functions.fail_at_odd, range(2))
    assert terminal.text.endswith("\rsweep: 2 of 2, failed 1\n")
    terminal.text = ""
    sweep(functions.square, range(3), progress=False)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    sweep(functions.square, range(3))
    assert terminal.text == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert len(sweep(functions.square, range(3))) == 3


# -- what comes out is what went in ---------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_a_function_that_changes_its_argument(pools, where):
    shared = [0]
    result = sweep(
        functions.changing, {"x": [1, 2, 3], "with_what": [shared]}, executor=pools[where]
    )
    assert result.values == (2, 2, 2)
    assert result.points[2] == {"x": 3, "with_what": [0]}
    assert shared == [0]
    # What has no copy is passed as it is.
    assert sweep(lambda module: module.maxsize, [sys]).values == (sys.maxsize,)


def test_masked_values_are_missing():
    GIVEN["value"] = np.ma.array([1, 2], mask=[False, True])
    np.testing.assert_array_equal(sweep(give, [0, 1]).array(), [[1, np.nan]] * 2)
    GIVEN["value"] = np.ma.array(["a", "b"], mask=[False, True])
    assert sweep(lambda x: GIVEN["value"], [0]).array()[0].tolist() == ["a", None]
    GIVEN["value"] = np.ma.masked
    assert np.isnan(sweep(give, [0, 2]).array()[0])


@pytest.mark.parametrize(
    "values", [[2**53 + 1, 0.5], [2**63 + 1, -1], [2**53 + 1, None], [2**64, 1], [2**53 + 1, 1j]]
)
def test_integers_that_no_float_equals_stay(values):
    GIVEN["value"] = values
    array = sweep(pick, [0, 1]).array()
    assert array.tolist() == values
    assert array.dtype == object


def test_integers_beside_floats_that_equal_them():
    GIVEN["value"] = [2**60, 0.5, None]
    array = sweep(pick, range(3)).array()
    assert array.dtype == float
    np.testing.assert_array_equal(array, [2.0**60, 0.5, np.nan])


def test_xarray_names_that_are_taken():
    def row(dim_0):
        return np.arange(3)

    assert sweep(row, {"dim_0": [1, 2]}).to_xarray().dims == ("dim_0", "dim_0_")

    def fields(x):
        return {"dim_0": np.ones(2), "": 1.0, "dim_0_": 2.0}

    table = sweep(fields, {"x": [1, "a"]}).to_xarray()
    assert set(table.data_vars) == {"dim_0_", "", "dim_0__"}
    assert table["dim_0_"].dims == ("x", "dim_0")
    assert table["x"].values.tolist() == [1, "a"]
    assert float(table[""].sel(x=1)) == 1.0


def test_points_that_cannot_be_printed():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no text")

    assert "item 0 (<" in str(sweep(functions.square, [Silent()]))
