"""What a classification shows in a notebook: a table of regimes, and one of equilibria.

    regime, certified or not, scope, margin, statement or reason
    rank, stable or not, abscissae and spectrum

What it says is what `print` says, cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gausscontrol.display import html_columns, html_text

if TYPE_CHECKING:
    from gausscontrol.analysis.equilibrium import Equilibrium
    from gausscontrol.certificates.classify import Classification

__all__ = ["SEE_FOR_YOURSELF", "classification_html"]

REGIMES = ("regime", "certified", "scope", "margin", "statement, or why not")
EQUILIBRIA = ("rank", "covariance", "abscissa [1/t]", "spectrum [x]^2", "mean", "abscissa [1/t]")
# What to do where no certificate for residual layers decides.
SEE_FOR_YOURSELF = (
    "moment_response follows these layers from a start of yours, and says where it ends or escapes"
)
# More equilibria than this are counted, not shown.
SHOWN = 8


def classification_html(found: Classification) -> str:
    """Return a classification as HTML.

    Parameters
    ----------
    found : Classification

    Returns
    -------
    str
    """
    heading = str(found).partition("\n")[0]
    parts = [f"<strong>{html_text(heading)}</strong>", html_columns(REGIMES, _regimes(found))]
    if found.equilibria:
        rows = [_equilibrium(e) for e in found.equilibria[:SHOWN]]
        parts += ["<strong>Equilibria</strong>", html_columns(EQUILIBRIA, rows)]
    more = len(found.equilibria) - SHOWN
    notes = [f"and {more} more equilibria"] if more > 0 else []
    notes += [found.no_equilibrium] if found.no_equilibrium else []
    notes += [SEE_FOR_YOURSELF] if found.regime == "undecided" and found.model.dt else []
    parts += [f"<div>{html_text(note)}</div>" for note in notes]
    return f"<div>{''.join(parts)}</div>"


def _regimes(found: Classification) -> Iterator[tuple[str, ...]]:
    for regime, certificate in found.certificates.items():
        word = "proved" if certificate.proved else "yes"
        margin = f"{certificate.margin:.3g}"
        yield regime, word, certificate.scope, margin, certificate.statement
    if found.regime not in found.certificates:
        words = {
            "singular limit": "an estimate: covariances tend to a singular matrix",
            "undecided": "no regime is certified",
        }
        yield found.regime, "no", "", "", words.get(found.regime, "")
    for regime, error in found.refused.items():
        yield regime, "no", "", "", str(error)


def _equilibrium(equilibrium: Equilibrium) -> tuple[str, ...]:
    values = np.maximum(np.linalg.eigvalsh(equilibrium.covariance), 0.0)
    values[: len(values) - equilibrium.rank] = 0.0
    mean = "none" if equilibrium.mean is None else _word(equilibrium.mean_is_stable)
    return (
        f"{equilibrium.rank}",
        _word(equilibrium.covariance_is_stable),
        f"{equilibrium.covariance_abscissa:.4g}",
        f"{values[0]:.4g} to {values[-1]:.4g}",
        mean,
        f"{equilibrium.mean_abscissa:.4g}",
    )


def _word(stable: bool) -> str:
    return "stable" if stable else "not stable"
