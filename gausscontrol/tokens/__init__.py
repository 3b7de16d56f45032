"""Tokens and nonlinear feed-forward parts: what the Gaussian system is a model of."""

from gausscontrol.tokens.closure import ClosureSystem, closure_system
from gausscontrol.tokens.estimate import GapEstimate, gap_estimate
from gausscontrol.tokens.feedforward import Closure, FeedForward
from gausscontrol.tokens.gap import Gap

__all__ = [
    "Closure",
    "ClosureSystem",
    "FeedForward",
    "Gap",
    "GapEstimate",
    "closure_system",
    "gap_estimate",
]
