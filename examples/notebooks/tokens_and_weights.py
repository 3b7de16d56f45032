# %% [markdown]
# # Tokens and trained weights
#
# The Gaussian picture is exact for infinitely many Gaussian tokens and softmax attention. Here it
# is held against finitely many tokens, and then against the heads of a trained model: the small
# text decoder of the package `glassllm`, which `pip install "gausscontrol[pretrained]"` brings.

# %%
from pathlib import Path

import glassllm
import matplotlib.pyplot as plt
import numpy as np

import gausscontrol as gct

plt.rcParams.update({"figure.figsize": (7, 5), "figure.dpi": 72})

# %% [markdown]
# ## Tokens beside their Gaussian
#
# 300 tokens drawn from a Gaussian pass through softmax attention. Beside them, the Gaussian with
# the sample's own mean and covariance follows the moment system.

# %%
model = gct.GaussianTransformer(0.5 * np.eye(2), np.eye(2), -0.5 * np.eye(2), name="layer")
tokens = np.random.default_rng(0).multivariate_normal([0, 0], [[0.4, 0.1], [0.1, 0.2]], 300)
response = gct.tokens.TokenTransformer(model).simulate(tokens, np.linspace(0, 3, 31))
response

# %%
picture = gct.token_plot(response)

# %% [markdown]
# ## Trained layers
#
# `read_layers` folds norms, biases and grouped keys into heads where that is exact, and says what
# it had to drop.

# %%
path = Path(glassllm.__file__).parent / "weights" / "en.npz"
layers = gct.tokens.read_layers(path)
print(layers[0])

# %% [markdown]
# A layer is an ordinary model, whose heads stay factored: 128 dimensions through heads of width 32.

# %%
layers[0].model

# %% [markdown]
# ## Which way the heads pull
#
# A head with positive $\operatorname{tr} B$ and negative $\operatorname{tr} V$ pulls the covariance
# towards an equilibrium, both positive let it grow. Signs certify nothing, but they tell at a
# glance what a layer is made of.

# %%
signs = gct.tokens.mimetic_signs(layers)
print(signs)

# %%
figure, axes = plt.subplots(layout="constrained")
for index in range(len(layers)):
    here = signs.layer == index
    axes.scatter(signs.B_share[here], signs.V_share[here], label=f"layer {index}")
axes.axhline(0, color="gray", linewidth=0.8)
axes.axvline(0, color="gray", linewidth=0.8)
axes.set(xlabel="share of tr B", ylabel="share of tr V", title="heads of glassllm")
legend = axes.legend()

# %% [markdown]
# ## How far from linear
#
# The Gaussian form of attention, $V(\mu + \Sigma (B x + k))$, is exact for Gaussian tokens. Whether
# 500 tokens are enough depends on the spread of the logits: the larger it is, the fewer tokens the
# softmax really averages over, and the further the tokens drift from their Gaussian.

# %%
rng = np.random.default_rng(1)
rows = 0.3 * rng.standard_normal((500, model.dim))
for scale in (1, 2, 4):
    result = gct.tokens.TokenTransformer(model).simulate(scale * rows, [0.0, 0.5])
    print(
        f"logits {result.logit_std[0]:.2f}, effective share of the sample "
        f"{result.effective_fraction[0]:.2f}, gap {result.relative_gap[-1]:.3f} of the spread"
    )
