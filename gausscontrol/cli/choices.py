"""What the options of the command line may be, and how their values are read from words.

    "VA" -> "AV",    "Globally-Stable" -> "globally stable",    "V=5 A=1" -> {"V": 5.0, "A": 1.0}

Nothing here needs the rest of the package, so that help is there at once. The choices repeat what
the library offers, which the tests compare.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection
from difflib import get_close_matches

__all__ = [
    "ALIKE",
    "ACTUATORS",
    "FREE",
    "KINDS",
    "MODEL_FILES",
    "PICTURES",
    "REQUIRABLE",
    "RUN_FILES",
    "bounds",
    "free",
    "nearest",
    "number",
    "numbers",
    "one_of",
    "whole_number",
]

MODEL_FILES = (".npz", ".mat", ".json")
RUN_FILES = (*MODEL_FILES, ".csv")
PICTURES = ("moments.png", "ellipses.png", "spectrum.png")
REQUIRABLE = (
    "globally stable",
    "collapse",
    "semiglobally stable",
    "locally stable",
    "blow-up",
    "bounded",
)
FREE = ("V", "B", "AV", "AB", "VB")
KINDS = ("residual", "hold")
ACTUATORS = ("feedforward", "attention", "keys")

# How alike two words must be for one to be suggested in place of the other.
ALIKE = 0.5


def nearest(word: str, words: Collection[str], alike: float = ALIKE) -> str | None:
    """Return the word that was probably meant, None if none is like it.

    Parameters
    ----------
    word : str
    words : collection of str
    alike : float, optional
        How alike they must be, from 0 to 1.

    Returns
    -------
    str or None

    Examples
    --------
    >>> nearest("analyse", ("analyze", "simulate"))
    'analyze'
    """
    return next(iter(get_close_matches(word, words, n=1, cutoff=alike)), None)


def one_of(words: Collection[str]) -> Callable[[str], str]:
    """Return a reader of one of these words, whatever their case, hyphens and spaces.

    Parameters
    ----------
    words : collection of str

    Returns
    -------
    callable
        From text to one of the words; raises `argparse.ArgumentTypeError` with a suggestion.

    Examples
    --------
    >>> one_of(REQUIRABLE)("Globally-Stable")
    'globally stable'
    """
    plain = {_plain(word): word for word in words}
    listed = ", ".join(map(repr if any(" " in word for word in words) else str, words))

    def read(text: str) -> str:
        asked = _plain(text)
        if asked in plain:
            return plain[asked]
        close = nearest(asked, plain)
        advice = "" if close is None else f"; did you mean {plain[close]!r}?"
        raise ArgumentTypeError(f"expected one of {listed}, found {text!r}{advice}")

    return read


def _plain(text: str) -> str:
    return " ".join(re.split(r"[\s_-]+", text.strip().lower()))


def free(text: str) -> str:
    """Return which matrices are free, in the order of `FREE`.

    Parameters
    ----------
    text : str
        Their letters in any order.

    Returns
    -------
    str
        One of `FREE`.

    Raises
    ------
    argparse.ArgumentTypeError
        If there is another letter, or these cannot be free together.

    Examples
    --------
    >>> free("VA"), free("B V")
    ('AV', 'VB')
    """
    letters = re.sub(r"[\s,]+", "", text)
    strange = sorted(set(letters) - set("ABV"))
    if strange:
        small = "; capitals, please: b is not B" if not set(letters.upper()) - set("ABV") else ""
        raise ArgumentTypeError(
            f"expected letters of A, B, V, found {', '.join(map(repr, strange))} in {text!r}{small}"
        )
    for names in FREE:
        if set(names) == set(letters):
            return names
    reason = "keep one of the three" if len(set(letters)) == 3 else "choose one"
    raise ArgumentTypeError(f"expected one of {', '.join(FREE)}, found {text!r}; {reason}")


def number(text: str) -> float:
    """Return a number.

    Parameters
    ----------
    text : str

    Returns
    -------
    float

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a number, found {text!r}") from None


def whole_number(text: str) -> int:
    """Return a whole number.

    Parameters
    ----------
    text : str

    Returns
    -------
    int

    Raises
    ------
    argparse.ArgumentTypeError
        If it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a whole number, found {text!r}") from None


def numbers(text: str) -> list[float]:
    """Return numbers that are separated by spaces or commas.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of float

    Raises
    ------
    argparse.ArgumentTypeError
        If there is none, or something else.

    Examples
    --------
    >>> numbers("1 -0.5"), numbers("1,2")
    ([1.0, -0.5], [1.0, 2.0])
    """
    words = _words(text)
    try:
        if words:
            return [float(word) for word in words]
    except ValueError:
        pass  # said below
    raise ArgumentTypeError(f"expected numbers such as 1 0.5, found {text!r}")


def bounds(text: str) -> float | dict[str, float]:
    """Return one bound for all, or one for each name.

    Parameters
    ----------
    text : str
        A number, or pairs such as V=5 A=1.

    Returns
    -------
    float or dict

    Raises
    ------
    argparse.ArgumentTypeError
        If it is neither.

    Examples
    --------
    >>> bounds("5"), bounds("V=5 A=1")
    (5.0, {'V': 5.0, 'A': 1.0})
    """
    words = _words(text)
    try:
        if len(words) == 1 and "=" not in words[0]:
            return float(words[0])
        pairs = {name: float(value) for name, value in (word.split("=") for word in words)}
    except ValueError:
        pairs = {}
    if not pairs or len(pairs) < len(words):
        raise ArgumentTypeError(f"expected one number, or pairs such as V=5 A=1, found {text!r}")
    return pairs


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", text) if word]
