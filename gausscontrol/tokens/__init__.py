"""Tokens and nonlinear feed-forward parts: what the Gaussian system is a model of."""

from gausscontrol.tokens.closure import ClosureSystem, closure_system
from gausscontrol.tokens.estimate import GapEstimate, gap_estimate
from gausscontrol.tokens.feedforward import Closure, FeedForward
from gausscontrol.tokens.gap import Gap
from gausscontrol.tokens.particles import TokenTransformer
from gausscontrol.tokens.response import TokenResponse
from gausscontrol.tokens.statistics import Gaussianity, mardia

__all__ = [
    "Closure",
    "ClosureSystem",
    "FeedForward",
    "Gap",
    "GapEstimate",
    "Gaussianity",
    "TokenResponse",
    "TokenTransformer",
    "closure_system",
    "gap_estimate",
    "mardia",
]
