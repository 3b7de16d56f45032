"""A steering plan in words (Theory 6a to 6e)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gausscontrol.synthesis.paths import Geodesic
from gausscontrol.synthesis.reach import rank_note, read_ends

if TYPE_CHECKING:
    from gausscontrol.synthesis.plan import SteeringPlan

__all__ = ["plan_report"]

# Up to this dimension the amplification is computed for the report.
REPORTED = 16
# Amplification beyond which the open loop is advised against.
AMPLE = 1e6
UNITS = {"b": "x/t", "A": "1/t", "V": "1/t", "B": "1/x^2"}
KINDS = {"Geodesic": "geodesic", "PiecewiseGeodesic": "geodesics through waypoints"}


def plan_report(plan: SteeringPlan) -> str:
    """Return what str() of a plan says."""
    ends = read_ends(plan.start, plan.goal, plan.rank)
    least = Geodesic(ends, plan.duration).energy
    path = KINDS.get(type(plan.path).__name__, "given by the user")
    peaks = ", ".join(
        f"|{key}| {value:.4g} [{UNITS[key]}]" for key, value in plan.peak_norms.items()
    )
    how = f"by {plan.actuators}, depth {plan.duration:.6g} [t]"
    lines = [
        f"Steering plan, d = {plan.dim}, rank {plan.rank}, {how}",
        f"  path           {path}",
        f"  energy         {plan.energy:.6g} [x^2/t], least possible {least:.6g}",
        f"  peak norms     {peaks}",
        f"  residual       {plan.residual:.1e} relative",
    ]
    if plan.dim <= REPORTED or "amplification" in plan.__dict__:
        advice = ", use the closed loop" if plan.amplification > AMPLE else ""
        lines.append(f"  amplification  {plan.amplification:.3g} in open loop{advice}")
    for name, (_, covariance) in (("start", plan.start), ("goal", plan.goal)):
        if note := rank_note(covariance, name):
            lines.append(f"  near the limit {note}")
    return "\n".join(lines)
