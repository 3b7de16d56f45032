"""Steering Gaussians: plans, layers, feedback, and what no parameters can do.

1.  A Gaussian is turned into another of the same rank by feed-forward parameters, along the path
    of least energy, and the finite layers that do it end at the goal exactly.
2.  The same by attention alone. In open loop it amplifies rounding, and parameters recomputed from
    the current state do not.
3.  A plan replayed by python-control, with its error against the spacing of the input grid.
4.  A rank that cannot change.
"""

import argparse
from pathlib import Path

import control as ct
import numpy as np

import gausscontrol as gct


def rotated(angle: float, *variances: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    R = np.array([[c, -s], [s, c]])
    return R @ np.diag(variances) @ R.T


START = np.array([-3.0, 0.0]), rotated(0.4, 2.0, 0.1)
GOAL = np.array([3.0, 1.0]), rotated(2.0, 1.5, 0.2)


def miss(response: ct.TimeResponseData) -> float:
    """Return how far the last covariance is from the goal, relative."""
    _, covariance = gct.unpack(np.asarray(response.states)[:, -1])
    return float(np.linalg.norm(covariance - GOAL[1]) / np.linalg.norm(GOAL[1]))


def feedforward(plots: str | None) -> None:
    plan = gct.steer(START, GOAL, 2.0)
    print(plan)
    stack = plan.layers(6)
    response = gct.moment_response(stack, stack.boundaries, START)
    print(f"  6 layers miss the goal by {miss(response):.1e}, relative\n")
    if plots is not None:
        folder = Path(plots)
        folder.mkdir(parents=True, exist_ok=True)
        plot = gct.steering_plot(plan, layers=stack)
        plot.figure.savefig(folder / "steer_gaussians.png", dpi=150)


def attention() -> None:
    plan = gct.steer(START, GOAL, 2.0, actuators="attention")
    print(plan)
    response = plan.response([0.0, 2.0])
    print(f"  in closed loop it misses the goal by {miss(response):.1e}, relative\n")


def replay() -> None:
    plan = gct.steer(START, GOAL, 2.0)
    system = gct.moment_system(plan.model, inputs=plan.channels)
    print("Replayed by ct.input_output_response, inputs interpolated between points of the grid")
    for points in (51, 101, 201):
        timepts = np.linspace(0, 2.0, points)
        response = ct.input_output_response(
            system,
            timepts,
            plan.inputs(timepts),
            gct.pack(*START),
            solve_ivp_kwargs={"rtol": 1e-9, "atol": 1e-11},
        )
        print(f"  {points:3d} points miss the goal by {miss(response):.1e}, relative")
    print()


def out_of_reach() -> None:
    line = np.outer([1.0, 2.0], [1.0, 2.0])
    print("Onto a line?", gct.is_reachable(START, line))
    try:
        gct.steer(START, line, 1.0)
    except gct.UnreachableError as error:
        print(f"  {error}")


def main(plots: str | None = None) -> None:
    """Print what each of the four parts finds; draw the first if a folder is given."""
    feedforward(plots)
    attention()
    replay()
    out_of_reach()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plots", metavar="DIR", help="folder for the figure")
    main(parser.parse_args().plots)
