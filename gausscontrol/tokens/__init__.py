"""Tokens and nonlinear feed-forward parts: what the Gaussian system is a model of."""

from gausscontrol.tokens.closure import ClosureSystem, closure_system
from gausscontrol.tokens.distance import GaussianDistance, gaussian_distance
from gausscontrol.tokens.estimate import GapEstimate, gap_estimate
from gausscontrol.tokens.feedforward import Closure, FeedForward
from gausscontrol.tokens.gap import Gap
from gausscontrol.tokens.particles import TokenTransformer
from gausscontrol.tokens.response import TokenResponse
from gausscontrol.tokens.signs import MimeticSigns, mimetic_signs
from gausscontrol.tokens.statistics import Gaussianity, mardia
from gausscontrol.tokens.tensors import read_tensors
from gausscontrol.tokens.weights import PretrainedLayer, read_layers

__all__ = [
    "Closure",
    "ClosureSystem",
    "FeedForward",
    "Gap",
    "GapEstimate",
    "GaussianDistance",
    "Gaussianity",
    "MimeticSigns",
    "PretrainedLayer",
    "TokenResponse",
    "TokenTransformer",
    "closure_system",
    "gap_estimate",
    "gaussian_distance",
    "mardia",
    "mimetic_signs",
    "read_layers",
    "read_tensors",
]
