"""Optimal steering with python-control's own optimiser, warm-started by a plan.

A plan along the Bures-Wasserstein geodesic has the least kinetic energy of the tokens, but takes
what parameters it needs. Here `ct.optimal` steers the same moment system between the same
Gaussians with bounded inputs and a penalty on them: the energy rises above the geodesic's, the
parameters shrink. The plan is the first guess.

    minimise  int |m'|^2 + tr(A Sigma A^T) + penalty |(b, A)|^2 dt,    |b_i|, |A_ij| <= bound

where |m'|^2 + tr(A Sigma A^T) is the mean square speed of a token; on the plan it is |m'|^2 +
|L'|_F^2.
"""

import control as ct
import control.optimal as opt
import numpy as np

import gausscontrol as gct

DURATION, POINTS = 1.0, 7


def power(plan: gct.SteeringPlan, state: np.ndarray, inputs: np.ndarray) -> float:
    """Return the mean square speed of a token under A + offset and b + offset."""
    model = plan.model
    mean, covariance = gct.unpack(state)
    A = model.A + inputs[2:].reshape(2, 2)
    velocity = A @ mean + model.b + inputs[:2]
    return float(velocity @ velocity + np.trace(A @ covariance @ A.T))


def solve(plan: gct.SteeringPlan, bound: float, penalty: float) -> tuple[float, float, float]:
    """Return energy, largest input and distance from the goal of the optimal steering."""
    system = gct.moment_system(plan.model, inputs=plan.channels)
    timepts = np.linspace(0, DURATION, POINTS)
    goal = gct.pack(*plan.goal)
    guess = np.clip(plan.inputs(timepts), -bound, bound)
    states = gct.pack(plan.mean(timepts), plan.covariance(timepts))
    result = opt.solve_ocp(
        system,
        timepts,
        gct.pack(*plan.start),
        lambda x, u: power(plan, x, u) + penalty * float(u @ u),
        trajectory_constraints=[
            opt.input_range_constraint(system, -bound * np.ones(6), bound * np.ones(6))
        ],
        terminal_constraints=[opt.state_range_constraint(system, goal, goal)],
        initial_guess=(states, guess),
        trajectory_method="collocation",
        minimize_method="SLSQP",
        minimize_options={"ftol": 1e-4, "maxiter": 60},
        print_summary=False,
    )
    if not result.success:
        raise RuntimeError(f"the optimiser stopped early: {result.message}")
    fine = np.linspace(0, DURATION, 201)
    inputs = np.stack([np.interp(fine, timepts, row) for row in np.asarray(result.inputs)])
    replay = ct.input_output_response(
        system, fine, inputs, gct.pack(*plan.start), solve_ivp_kwargs={"rtol": 1e-8}
    )
    reached = np.asarray(replay.states)
    speeds = [power(plan, x, u) for x, u in zip(reached.T, inputs.T, strict=True)]
    energy = float(np.trapezoid(speeds, fine))
    return energy, float(np.abs(inputs).max()), float(np.abs(reached[:, -1] - goal).max())


def main() -> None:
    """Print energies and largest inputs of the geodesic and of two optimal steerings."""
    start = np.array([1.0, 0.0]), np.array([[0.25, 0.0], [0.0, 1.0]])
    goal = np.array([0.0, 1.0]), np.array([[1.5, 0.5], [0.5, 1.0]])
    plan = gct.steer(start, goal, DURATION)
    largest = np.abs(plan.inputs(np.linspace(0, DURATION, 201))).max()
    print("                              energy  largest input  distance from goal")
    print(f"geodesic plan              {plan.energy:9.4f}  {largest:13.3f}  {0.0:18.1e}")
    for name, bound, penalty in (("loose bound, no penalty", 10.0, 0.0), ("bounded", 1.1, 0.1)):
        energy, peak, distance = solve(plan, bound, penalty)
        print(f"{name:25s}  {energy:9.4f}  {peak:13.3f}  {distance:18.1e}")


if __name__ == "__main__":
    main()
