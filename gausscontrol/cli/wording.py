"""Errors of the library in the words of the command line.

    n_heads: expected nothing; use free=('V', 'B')  ->  --heads: expected nothing; use --free VB

The library names its arguments, the command line its options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["by_option"]

# Letters in a tuple, then a text or a number, given to an argument.
TUPLE = r"\(([^()]*)\)"
GIVEN = re.compile(rf"\b([a-z_]+)=(?:{TUPLE}|'([^']*)'|([\w.]+)|(?=\W|$))")
# One entry of an argument that is a dict.
ENTRY = re.compile(r"\b([a-z_]+)\['(\w+)'\]")
NAME = re.compile(r"(?<![\w-])[a-z]+(?:_[a-z]+)+\b")


def by_option(message: str, options: Mapping[str, str]) -> str:
    """Return a message with the options of a command in place of the arguments of a function.

    Parameters
    ----------
    message : str
        It begins with the name of an argument and a colon, or with neither.
    options : mapping
        Option by argument.

    Returns
    -------
    str
        What it has of names that stand at its head, that are given a value as in name=value, or
        that have an underscore, and so are no words, by option.

    Examples
    --------
    >>> by_option("rank: expected 2, found 3; pass rank=2", {"rank": "--rank"})
    '--rank: expected 2, found 3; pass --rank 2'
    """

    def given(match: re.Match) -> str:
        if match[1] not in options:
            return match[0]
        letters, text, plain = match[2], match[3], match[4]
        value = "".join(re.findall(r"\w+", letters)) if letters is not None else text or plain
        return f"{options[match[1]]} {value}" if value else options[match[1]]

    def entry(match: re.Match) -> str:
        return f"{options[match[1]]} {match[2]}" if match[1] in options else match[0]

    message = GIVEN.sub(given, message)
    message = ENTRY.sub(entry, message)
    message = NAME.sub(lambda match: options.get(match[0], match[0]), message)
    head, colon, rest = message.partition(":")
    return f"{options.get(head, head)}{colon}{rest}"
