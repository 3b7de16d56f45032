"""Gaussian Transformer dynamics for python-control: analysis, certificates, responses."""

from gausscontrol._version import __version__
from gausscontrol.errors import *  # noqa: F403
from gausscontrol.linalg.symmetric import unvech, vech
from gausscontrol.model.moments import pack, unpack
from gausscontrol.model.transformer import GaussianTransformer
from gausscontrol.systems.iosys import MomentSystem, covariance_label, moment_system
from gausscontrol.systems.response import MomentResponse, moment_response
