"""Gaussian Transformer dynamics for python-control: analysis, certificates, responses."""

from gausscontrol._version import __version__
from gausscontrol.analysis.equilibrium import Equilibrium, existence_bounds, place_mean
from gausscontrol.analysis.feedback import covariance_lqr
from gausscontrol.analysis.finding import find_equilibria, find_equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis, LyapunovSolution, analyze
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.discrete import SemiglobalStability, certify_semiglobal_stability
from gausscontrol.certificates.local import LocalStability, certify_local_stability
from gausscontrol.certificates.stability import GlobalStability, certify_global_stability
from gausscontrol.errors import (
    BlowUpWarning,
    EquilibriumNotFound,
    GausscontrolError,
    InfeasibleDesign,
    IntegrationError,
    MatrixEquationError,
    NotCertified,
    ParameterError,
    ShapeError,
    UnreachableError,
)
from gausscontrol.linalg.equations import (
    MatrixEquationSolution,
    bernoulli,
    generalized_lyapunov,
    lyapunov,
)
from gausscontrol.linalg.riccati import RiccatiSolution, riccati
from gausscontrol.linalg.symmetric import unvech, vech
from gausscontrol.model.files import load_model, save_model
from gausscontrol.model.moments import pack, unpack
from gausscontrol.model.stack import LayerStack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.plots import ellipse_plot, moment_plot, phase_plot, spectrum_plot
from gausscontrol.systems.iosys import MomentSystem, covariance_label, moment_system
from gausscontrol.systems.response import MomentResponse, moment_response

__all__ = [
    "BlowUpWarning",
    "Certificate",
    "Equilibrium",
    "EquilibriumAnalysis",
    "EquilibriumNotFound",
    "GausscontrolError",
    "GaussianTransformer",
    "GlobalStability",
    "InfeasibleDesign",
    "IntegrationError",
    "LayerStack",
    "LocalStability",
    "LyapunovSolution",
    "MatrixEquationError",
    "MatrixEquationSolution",
    "MomentResponse",
    "MomentSystem",
    "NotCertified",
    "ParameterError",
    "RiccatiSolution",
    "SemiglobalStability",
    "ShapeError",
    "UnreachableError",
    "__version__",
    "analyze",
    "bernoulli",
    "certify_global_stability",
    "certify_local_stability",
    "certify_semiglobal_stability",
    "covariance_label",
    "covariance_lqr",
    "ellipse_plot",
    "existence_bounds",
    "find_equilibria",
    "find_equilibrium",
    "generalized_lyapunov",
    "load_model",
    "lyapunov",
    "moment_plot",
    "moment_response",
    "moment_system",
    "pack",
    "phase_plot",
    "place_mean",
    "riccati",
    "save_model",
    "spectrum_plot",
    "unpack",
    "unvech",
    "vech",
]
