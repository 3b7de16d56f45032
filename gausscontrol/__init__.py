"""Gaussian Transformer dynamics for python-control: analysis, certificates, responses."""

from gausscontrol import tokens
from gausscontrol._version import __version__
from gausscontrol.analysis.equilibrium import Equilibrium, existence_bounds, place_mean
from gausscontrol.analysis.feedback import covariance_lqr
from gausscontrol.analysis.finding import find_equilibria, find_equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis, LyapunovSolution, analyze
from gausscontrol.certificates.base import Certificate
from gausscontrol.certificates.blow_up import BlowUp, certify_blow_up
from gausscontrol.certificates.classify import Classification, classify
from gausscontrol.certificates.discrete import SemiglobalStability, certify_semiglobal_stability
from gausscontrol.certificates.local import LocalStability, certify_local_stability
from gausscontrol.certificates.regime import (
    Boundedness,
    Collapse,
    certify_boundedness,
    certify_collapse,
)
from gausscontrol.certificates.region import RegionOfAttraction, certify_region_of_attraction
from gausscontrol.certificates.robustness import Robustness, robustness_radius
from gausscontrol.certificates.scalar import ScalarRegime, scalar_regime
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
    SolverError,
    UnreachableError,
)
from gausscontrol.linalg.bures import bures_wasserstein, optimal_transport_map
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
from gausscontrol.plots import (
    design_plot,
    ellipse_plot,
    moment_plot,
    phase_plot,
    regime_map,
    region_plot,
    spectrum_plot,
    steering_plot,
    token_plot,
)
from gausscontrol.sweeps.classify import BatchClassification, classify_batch
from gausscontrol.sweeps.equilibria import BatchEquilibria, find_equilibria_batch
from gausscontrol.sweeps.items import ItemError
from gausscontrol.sweeps.responses import BatchResponse, moment_response_batch
from gausscontrol.sweeps.result import SweepResult
from gausscontrol.sweeps.sweep import sweep
from gausscontrol.sweeps.verdict import Verdict
from gausscontrol.synthesis.design import design
from gausscontrol.synthesis.design_result import Design
from gausscontrol.synthesis.plan import SteeringPlan
from gausscontrol.synthesis.reach import is_reachable
from gausscontrol.synthesis.steering import steer
from gausscontrol.systems.interconnection import differenced_subsystems, exact_linearize
from gausscontrol.systems.iosys import MomentSystem, covariance_label, moment_system
from gausscontrol.systems.response import MomentResponse, moment_response

__all__ = [
    "BatchClassification",
    "BatchEquilibria",
    "BatchResponse",
    "BlowUp",
    "BlowUpWarning",
    "Boundedness",
    "Certificate",
    "Classification",
    "Collapse",
    "Design",
    "Equilibrium",
    "EquilibriumAnalysis",
    "EquilibriumNotFound",
    "GausscontrolError",
    "GaussianTransformer",
    "GlobalStability",
    "InfeasibleDesign",
    "IntegrationError",
    "ItemError",
    "LayerStack",
    "LocalStability",
    "LyapunovSolution",
    "MatrixEquationError",
    "MatrixEquationSolution",
    "MomentResponse",
    "MomentSystem",
    "NotCertified",
    "ParameterError",
    "RegionOfAttraction",
    "RiccatiSolution",
    "Robustness",
    "ScalarRegime",
    "SemiglobalStability",
    "ShapeError",
    "SolverError",
    "SteeringPlan",
    "SweepResult",
    "UnreachableError",
    "Verdict",
    "__version__",
    "analyze",
    "bernoulli",
    "bures_wasserstein",
    "certify_blow_up",
    "certify_boundedness",
    "certify_collapse",
    "certify_global_stability",
    "certify_local_stability",
    "certify_region_of_attraction",
    "certify_semiglobal_stability",
    "classify",
    "classify_batch",
    "covariance_label",
    "covariance_lqr",
    "design",
    "design_plot",
    "differenced_subsystems",
    "ellipse_plot",
    "exact_linearize",
    "existence_bounds",
    "find_equilibria",
    "find_equilibria_batch",
    "find_equilibrium",
    "generalized_lyapunov",
    "is_reachable",
    "load_model",
    "lyapunov",
    "moment_plot",
    "moment_response",
    "moment_response_batch",
    "moment_system",
    "optimal_transport_map",
    "pack",
    "phase_plot",
    "place_mean",
    "regime_map",
    "region_plot",
    "riccati",
    "robustness_radius",
    "save_model",
    "scalar_regime",
    "spectrum_plot",
    "steer",
    "steering_plot",
    "sweep",
    "token_plot",
    "tokens",
    "unpack",
    "unvech",
    "vech",
]
