"""Figure of quickstart.py: moments on the way from far away to the equilibrium."""

import numpy as np

import gausscontrol as gct


def draw(example):
    model = gct.load_model(example.DATA / "mimetic_head.mat")
    depths = np.linspace(0, 20, 401)
    start = (np.ones(model.dim), 400 * np.eye(model.dim))
    response = gct.moment_response(model, depths, start)
    return gct.moment_plot(response, equilibrium=gct.find_equilibrium(model)).figure
