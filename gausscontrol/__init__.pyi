"""The public names of gausscontrol and where each of them lives: the one list of them.

Type checkers and editors read it, and `__init__.py` finds the names here when they are asked for.
"""

from gausscontrol import tokens as tokens
from gausscontrol._version import __version__ as __version__
from gausscontrol.analysis.equilibrium import Equilibrium as Equilibrium
from gausscontrol.analysis.equilibrium import existence_bounds as existence_bounds
from gausscontrol.analysis.equilibrium import place_mean as place_mean
from gausscontrol.analysis.feedback import covariance_lqr as covariance_lqr
from gausscontrol.analysis.finding import find_equilibria as find_equilibria
from gausscontrol.analysis.finding import find_equilibrium as find_equilibrium
from gausscontrol.analysis.linear import EquilibriumAnalysis as EquilibriumAnalysis
from gausscontrol.analysis.linear import analyze as analyze
from gausscontrol.analysis.lyapunov import LyapunovSolution as LyapunovSolution
from gausscontrol.certificates.base import Certificate as Certificate
from gausscontrol.certificates.blow_up import BlowUp as BlowUp
from gausscontrol.certificates.blow_up import certify_blow_up as certify_blow_up
from gausscontrol.certificates.classify import Classification as Classification
from gausscontrol.certificates.classify import classify as classify
from gausscontrol.certificates.discrete import SemiglobalStability as SemiglobalStability
from gausscontrol.certificates.discrete import (
    certify_semiglobal_stability as certify_semiglobal_stability,
)
from gausscontrol.certificates.local import LocalStability as LocalStability
from gausscontrol.certificates.local import certify_local_stability as certify_local_stability
from gausscontrol.certificates.regime import Boundedness as Boundedness
from gausscontrol.certificates.regime import Collapse as Collapse
from gausscontrol.certificates.regime import certify_boundedness as certify_boundedness
from gausscontrol.certificates.regime import certify_collapse as certify_collapse
from gausscontrol.certificates.region import RegionOfAttraction as RegionOfAttraction
from gausscontrol.certificates.region import (
    certify_region_of_attraction as certify_region_of_attraction,
)
from gausscontrol.certificates.robustness import Robustness as Robustness
from gausscontrol.certificates.robustness import robustness_radius as robustness_radius
from gausscontrol.certificates.scalar import ScalarRegime as ScalarRegime
from gausscontrol.certificates.scalar import scalar_regime as scalar_regime
from gausscontrol.certificates.stability import GlobalStability as GlobalStability
from gausscontrol.certificates.stability import certify_global_stability as certify_global_stability
from gausscontrol.errors import BlowUpWarning as BlowUpWarning
from gausscontrol.errors import EquilibriumNotFound as EquilibriumNotFound
from gausscontrol.errors import GausscontrolError as GausscontrolError
from gausscontrol.errors import InfeasibleDesign as InfeasibleDesign
from gausscontrol.errors import IntegrationError as IntegrationError
from gausscontrol.errors import MatrixEquationError as MatrixEquationError
from gausscontrol.errors import NotCertified as NotCertified
from gausscontrol.errors import ParameterError as ParameterError
from gausscontrol.errors import ShapeError as ShapeError
from gausscontrol.errors import SolverError as SolverError
from gausscontrol.errors import UnreachableError as UnreachableError
from gausscontrol.linalg.bures import bures_wasserstein as bures_wasserstein
from gausscontrol.linalg.bures import optimal_transport_map as optimal_transport_map
from gausscontrol.linalg.equations import MatrixEquationSolution as MatrixEquationSolution
from gausscontrol.linalg.equations import bernoulli as bernoulli
from gausscontrol.linalg.equations import generalized_lyapunov as generalized_lyapunov
from gausscontrol.linalg.equations import lyapunov as lyapunov
from gausscontrol.linalg.riccati import RiccatiSolution as RiccatiSolution
from gausscontrol.linalg.riccati import riccati as riccati
from gausscontrol.linalg.symmetric import unvech as unvech
from gausscontrol.linalg.symmetric import vech as vech
from gausscontrol.model.files import load_model as load_model
from gausscontrol.model.files import save_model as save_model
from gausscontrol.model.packing import pack as pack
from gausscontrol.model.packing import unpack as unpack
from gausscontrol.model.stack import LayerStack as LayerStack
from gausscontrol.model.transformer import GaussianTransformer as GaussianTransformer
from gausscontrol.plots import design_plot as design_plot
from gausscontrol.plots import ellipse_plot as ellipse_plot
from gausscontrol.plots import moment_plot as moment_plot
from gausscontrol.plots import phase_plot as phase_plot
from gausscontrol.plots import regime_map as regime_map
from gausscontrol.plots import region_plot as region_plot
from gausscontrol.plots import spectrum_plot as spectrum_plot
from gausscontrol.plots import steering_plot as steering_plot
from gausscontrol.plots import token_plot as token_plot
from gausscontrol.sweeps.classify import BatchClassification as BatchClassification
from gausscontrol.sweeps.classify import classify_batch as classify_batch
from gausscontrol.sweeps.equilibria import BatchEquilibria as BatchEquilibria
from gausscontrol.sweeps.equilibria import find_equilibria_batch as find_equilibria_batch
from gausscontrol.sweeps.items import ItemError as ItemError
from gausscontrol.sweeps.responses import BatchResponse as BatchResponse
from gausscontrol.sweeps.responses import moment_response_batch as moment_response_batch
from gausscontrol.sweeps.result import SweepResult as SweepResult
from gausscontrol.sweeps.sweep import sweep as sweep
from gausscontrol.sweeps.verdict import Verdict as Verdict
from gausscontrol.synthesis.design import design as design
from gausscontrol.synthesis.design_result import Design as Design
from gausscontrol.synthesis.plan import SteeringPlan as SteeringPlan
from gausscontrol.synthesis.reach import is_reachable as is_reachable
from gausscontrol.synthesis.steering import steer as steer
from gausscontrol.systems.interconnection import exact_linearize as exact_linearize
from gausscontrol.systems.iosys import MomentSystem as MomentSystem
from gausscontrol.systems.iosys import moment_system as moment_system
from gausscontrol.systems.labels import covariance_label as covariance_label
from gausscontrol.systems.response import MomentResponse as MomentResponse
from gausscontrol.systems.response import moment_response as moment_response
from gausscontrol.systems.subsystems import differenced_subsystems as differenced_subsystems
