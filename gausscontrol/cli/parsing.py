"""A parser of command lines that says what was meant, built on argparse.

    --versoin -> "did you mean --version?"     design --mean 1 0 layer.mat -> mean [1, 0], FILE

argparse takes every word after an option of several values for one of them. Here the values are
joined to the option before argparse sees them, up to the next option or the next name of a model
file, so that FILE may stand anywhere. Options may be abbreviated as long as it is clear which one
is meant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import Any, NoReturn

from gausscontrol.cli.choices import ALIKE, MODEL_FILES, nearest

__all__ = ["Parser", "UsageError"]

# How argparse begins to say that places are empty.
MISSING = "the following arguments are required: "
# How many values an option takes.
NONE, ONE, SEVERAL = 0, 1, float("inf")
# How alike an unknown option must be to one that there is, without the dashes.
STRICT = 0.6


class UsageError(Exception):
    """The command line makes no sense."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that ends in where to read more.

    Parameters
    ----------
    *args, **options
        As `argparse.ArgumentParser`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._values: dict[str, float] = {}  # how many each option takes
        self._places: list[str] = []  # what stands without an option
        self._commands: dict[str, Parser] = {}
        self._choose: Any = None
        super().__init__(*args, **options)

    def add_argument(self, *names: str, several: bool = False, **options: Any) -> argparse.Action:
        """Add an argument.

        Parameters
        ----------
        *names, **options
            As `argparse.ArgumentParser.add_argument`.
        several : bool, optional
            Whether the option takes several values; its type gets them as one text.

        Returns
        -------
        argparse.Action
        """
        action = super().add_argument(*names, **options)
        takes = NONE if action.nargs == 0 else SEVERAL if several else ONE
        self._values.update(dict.fromkeys(action.option_strings, takes))
        if not action.option_strings:
            self._places.append(action.metavar or action.dest)
        return action

    def add_command(self, name: str, **options: Any) -> Parser:
        """Add a command with options of its own.

        Parameters
        ----------
        name : str
        **options
            As for this class, and its one-line `help`.

        Returns
        -------
        Parser
        """
        if self._choose is None:
            self._choose = self.add_subparsers(
                title="commands", metavar="COMMAND", dest="command", required=True
            )
        self._commands[name] = self._choose.add_parser(name, **options)
        return self._commands[name]

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """Return the options, or raise `UsageError`."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            command = self._commands[found.command]
            places = " ".join(command._places)
            command.error(f"expected {places}, found also {', '.join(map(repr, rest))}")
        return found

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """Return the options and what is left over, or raise `UsageError`."""
        return super().parse_known_args(
            self._prepared(sys.argv[1:] if args is None else list(args)), namespace
        )

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` with a message."""
        missing = message.removeprefix(MISSING)
        if missing != message:
            empty = len(missing.split(", ")) == len(self._places)
            found = "none" if empty else f"no {missing}"
            message = f"expected {' '.join(self._places)}, found {found}"
        stop = " See" if message.endswith("?") else "; see"
        raise UsageError(f"{message.removeprefix('argument ')}{stop} {self.prog} --help")

    # -- before argparse ------------------------------------------------------------------------

    def _prepared(self, words: list[str]) -> list[str]:
        """Return the words with options in full and their values joined to them."""
        done: list[str] = []
        while words:
            word = words.pop(0)
            if word == "--":
                return [*done, word, *words]
            if not _is_option(word):
                done.append(word)
                if self._commands:
                    self._check_command(word)
                    return [*done, *words]
                continue
            name, equals, value = word.partition("=")
            name = self._in_full(name)
            values = [value] if equals else []
            takes = self._values[name]
            while words and len(values) < takes and not _is_option(words[0]):
                if takes == SEVERAL and _is_file(words[0]):
                    break
                values.append(words.pop(0))
            if takes and not values:
                self.error(f"{name}: expected a value, found {repr(words[0]) if words else 'none'}")
            done.append(f"{name}={' '.join(values)}" if values else name)
        if self._commands and not done:
            self.error(f"COMMAND: expected one of {', '.join(self._commands)}, found none")
        return done

    def _check_command(self, word: str) -> None:
        if word not in self._commands:
            listed, advice = ", ".join(self._commands), _advice(word, self._commands)
            self.error(f"COMMAND: expected one of {listed}, found {word!r}{advice}")

    def _in_full(self, name: str) -> str:
        """Return the option that a word names."""
        if name in self._values:
            return name
        candidates = [option for option in self._values if option.startswith(name)]
        if not name.startswith("--") or not candidates:
            self._refuse(name)
        if len(candidates) > 1:
            self.error(f"{name} may be {' or '.join(candidates)}; write more of it")
        return candidates[0]

    def _refuse(self, name: str) -> NoReturn:
        owners = [word for word, command in self._commands.items() if name in command._values]
        if owners:
            self.error(f"{name} is an option of {', '.join(owners)}; write it after the command")
        self.error(f"unknown option {name}{_advice(name, self._values, STRICT)}")


def _advice(word: str, words: Collection[str], alike: float = ALIKE) -> str:
    # The dashes that options share say nothing of what was meant.
    plain = {other.lstrip("-"): other for other in words}
    close = nearest(word.lstrip("-"), plain, alike)
    return "" if close is None else f"; did you mean {plain[close]}?"


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word.rstrip(","))
    except ValueError:
        return False
    return True


def _is_file(word: str) -> bool:
    return PurePath(word).suffix.lower() in MODEL_FILES
