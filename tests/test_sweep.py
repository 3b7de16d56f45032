"""Sweeps: every executor, and nothing lost when one breaks."""

import gc
import sys
import warnings
from collections import Counter
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

import numpy as np
import pytest
import sweep_functions as functions
from sweep_functions import Immediate, calls, checked, lines_of, processes

import gausscontrol as gct
from gausscontrol.sweeps.sweep import sweep


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
