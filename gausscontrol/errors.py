"""The exception tree: one root, one class for each way a request can fail.

Every message is one line that names the argument, what was expected, what was found and what to
do next. `ShapeError`, `ParameterError` and `UnreachableError` are also `ValueError`, so code that
knows nothing of this package still catches them.
"""

__all__ = [
    "BlowUpWarning",
    "EquilibriumNotFound",
    "GausscontrolError",
    "InfeasibleDesign",
    "IntegrationError",
    "MatrixEquationError",
    "NotCertified",
    "ParameterError",
    "ShapeError",
    "SolverError",
    "UnreachableError",
]


class GausscontrolError(Exception):
    """Root of all exceptions raised by gausscontrol."""


class ShapeError(GausscontrolError, ValueError):
    """An array has the wrong shape."""


class ParameterError(GausscontrolError, ValueError):
    """An argument has a value that makes no sense for this call."""


class EquilibriumNotFound(GausscontrolError):
    """No equilibrium of the kind asked for was found."""


class NotCertified(GausscontrolError):
    """A certificate does not hold; `margin` says by how much.

    Parameters
    ----------
    message : str
        What was tried and why it failed.
    margin : float, optional
        The margin that was reached; a certificate needs a positive one.
    """

    def __init__(self, message: str, margin: float | None = None) -> None:
        super().__init__(message)
        self.margin = margin


class SolverError(GausscontrolError):
    """A semidefinite programme gave no point that can be used.

    Parameters
    ----------
    message : str
        Size and scaling of the problem, and what the solver said.
    status : str
        "infeasible", "unbounded", "refused" (a point that fails its own inequalities) or "failed".
    """

    def __init__(self, message: str, status: str = "failed") -> None:
        super().__init__(message)
        self.status = status


class InfeasibleDesign(GausscontrolError):
    """No parameters meet the requirements of a design."""


class UnreachableError(GausscontrolError, ValueError):
    """No parameters steer the start to the goal."""


class MatrixEquationError(GausscontrolError):
    """A matrix equation has no unique solution.

    Or it has none with the property that was promised, or none to working precision.
    """


class IntegrationError(GausscontrolError):
    """A trajectory could not be integrated to the end of its grid."""


class BlowUpWarning(UserWarning):
    """A trajectory escapes to infinity at a finite depth.

    The response ends before that depth, and every number in it is finite.
    """
