"""What a classification says, without what it rests on: small, and storable in a file."""

from __future__ import annotations

from dataclasses import dataclass

from gausscontrol.certificates.classify import Classification
from gausscontrol.display import Report
from gausscontrol.model.transformer import GaussianTransformer

__all__ = ["Verdict"]


@dataclass(frozen=True)
class Verdict(Report):
    """The regime of a layer, as a sweep's file keeps it.

    A `Classification` holds certificates that can be verified again; this is what they said. To
    have them back, classify `model` again.

    Attributes
    ----------
    model : GaussianTransformer
    regime : str
        As in `Classification`.
    scope : str or None
        "covariance and mean" or "covariance"; None without a certificate.
    margin : float or None
        That of the certificate behind the regime.
    statement : str or None
        What that certificate says.
    """

    model: GaussianTransformer
    regime: str
    scope: str | None = None
    margin: float | None = None
    statement: str | None = None

    @classmethod
    def of(cls, found: Classification) -> Verdict:
        """Return what a classification says.

        Parameters
        ----------
        found : Classification

        Returns
        -------
        Verdict
        """
        behind = found.certificate
        if behind is None:
            return cls(found.model, found.regime)
        return cls(found.model, found.regime, behind.scope, float(behind.margin), behind.statement)

    @property
    def certified(self) -> bool:
        """Whether a certificate was behind the regime."""
        return self.statement is not None

    def __str__(self) -> str:
        return f"{self.regime.capitalize()}: {self.statement or 'not certified'}"
