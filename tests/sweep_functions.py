"""What the tests sweep over: importable by name, so that other processes can run it."""

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import gausscontrol as gct


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
