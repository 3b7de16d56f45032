"""Figure of optimal_steering.py: the geodesic plan, from which the optimiser starts."""

import numpy as np

import gausscontrol as gct


def draw(example):
    start = np.array([1.0, 0.0]), np.array([[0.25, 0.0], [0.0, 1.0]])
    goal = np.array([0.0, 1.0]), np.array([[1.5, 0.5], [0.5, 1.0]])
    plan = gct.steer(start, goal, example.DURATION)
    return gct.steering_plot(plan, title="The geodesic plan, first guess of the optimiser").figure
