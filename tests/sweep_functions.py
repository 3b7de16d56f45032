"""What the tests of sweeps share: functions to sweep over, and what runs them or reads their files.

The functions are importable by name, so that other processes can run them.
"""

import json
import multiprocessing
import os
import signal
import sys
import zlib
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gausscontrol as gct

METHODS = multiprocessing.get_all_start_methods()
GIVEN = {"value": None}


# -- functions ------------------------------------------------------------------------------------


class Unreturnable(Exception):
    """An exception that cannot be made again from what it stored."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def square(x):
    return x * x


def affine(a, b, offset=0.0):
    return 2.0 * a + b + offset


def draw(x, rng):
    return rng.standard_normal(2) + 0.0 * x


def draw_seed(x, seed):
    return seed


def fail_at_odd(x):
    if x % 2:
        raise Unreturnable("this", x)
    return float(x)


def misbehave(kind):
    if kind == "exit":
        sys.exit(3)
    if kind == "unprintable":
        raise Unprintable
    if kind == "certificate":
        gct.certify_boundedness(gct.GaussianTransformer(1, 1, 1))
    if kind == "lines":
        raise ValueError("first line\nsecond line")
    return kind


def logged(x, folder):
    """Note every call in a file of the folder."""
    with open(Path(folder) / "calls", "a", encoding="ascii") as log:
        log.write(f"{x}\n")
    return x * x


def dying(x, folder, at):
    """Kill this process at one item, the first time it is asked for."""
    flag = Path(folder) / "killed"
    if x == at and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return logged(x, folder)


def changing(x, with_what):
    with_what.append(x)
    return len(with_what)


def deadly(x):
    """Kill this process at one item, whenever it is asked for."""
    if x == 1:
        os._exit(1)
    return x * x


@dataclass(frozen=True)
class Scaled:
    factor: float

    def __call__(self, x):
        return self.factor * x

    def call(self, x):
        return self.factor * x


class Opaque:
    def __call__(self, x):
        return x

    def call(self, x):
        return x


def unpicklable(x):
    return (lambda: x) if x == 1 else x


def regime(a, v):
    return gct.classify(gct.GaussianTransformer(a, 1, v), sdp=False)


def table(x):
    return {"half": x / 2, "row": np.arange(3) * x, "name": f"n{x}"}


def give(x):
    """Return what a test wants to be returned: it holds nothing itself."""
    return 1.0 if x == 2 else GIVEN["value"]


def pick(x):
    return GIVEN["value"][x]


# -- executors ------------------------------------------------------------------------------------


def processes(workers=2):
    # A process with threads must not be forked; the server forks one that has none.
    context = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
    if "forkserver" in METHODS:
        context.set_forkserver_preload(["gausscontrol"])
    return ProcessPoolExecutor(workers, mp_context=context)


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


# -- files ----------------------------------------------------------------------------------------


def calls(folder):
    path = Path(folder) / "calls"
    return Counter(int(line) for line in path.read_text().split()) if path.exists() else Counter()


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def checked(line):
    """Return a line with the checksum that it would have in a file."""
    content = line.removesuffix(b"\n")
    return content[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(content)
