# %% [markdown]
# # Design and steer
#
# Two questions the other way round. *Which parameters make every Gaussian tend to the one I want?*
# is a design; *which layers take this Gaussian to that one?* is a plan.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gausscontrol as gct

plt.rcParams.update({"figure.figsize": (7, 5), "figure.dpi": 72})

# %% [markdown]
# ## Design
#
# The feed-forward matrix $A$ and the keys $B$ stay, $V$ is free, its spectral norm is bounded by 4.
# The decay rate is then as large as that allows; $2 \operatorname{tr} A / d$ is the most that any
# heads can reach.

# %%
target = ([1.0, 0.5], [[2.0, 0.8], [0.8, 1.0]])
design = gct.design(target, A=[[0.6, 0.3], [-0.3, 0.4]], B=np.eye(2), norm_bound={"V": 4.0})
design

# %%
design.model

# %% [markdown]
# The certificate belongs to the result, and can be checked again at any time.

# %%
print(design.certificate)
print(design.verify())

# %%
picture = gct.design_plot(design)

# %% [markdown]
# What cannot be had is refused with the reason: here $\operatorname{tr} A > 0$ is missing, without
# which no positive definite covariance is an equilibrium that attracts.

# %%
try:
    gct.design(target, A=-np.eye(2), B=np.eye(2))
except gct.InfeasibleDesign as error:
    print(error)

# %% [markdown]
# ## Steer
#
# A start and a goal of the same rank; what varies along the depth is $A$ and $b$. The path is the
# geodesic between both Gaussians, so the energy is the least possible.

# %%
start = ([2.0, -1.0], [[1.0, 0.6], [0.6, 0.5]])
goal = ([0.0, 1.0], [[0.5, -0.3], [-0.3, 1.5]])
plan = gct.steer(start, goal, duration=1.0)
plan

# %% [markdown]
# Six residual layers arrive exactly, not approximately: they are made from the plan, and each
# residual step is a linear map of the tokens.

# %%
stack = plan.layers(6)
stack

# %%
response = gct.moment_response(stack, stack.boundaries, start)
error = np.linalg.norm(response.covariance[:, :, -1] - np.array(goal[1]))
print(f"the covariance misses the goal by less than 1e-12: {error < 1e-12}")

# %%
picture = gct.steering_plot(plan, layers=stack)

# %% [markdown]
# ## Files
#
# Both results are ordinary models, so they go to files which `gausscontrol analyze` and
# `gausscontrol simulate` read.

# %%
with tempfile.TemporaryDirectory() as folder:
    for name, thing in (("designed.json", design.model), ("stack.npz", stack)):
        gct.save_model(Path(folder, name), thing)
        print(name, gct.load_model(Path(folder, name)) == thing)
