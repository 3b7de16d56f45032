# %% [markdown]
# # First steps: from a layer to a certificate
#
# A Transformer layer that acts on Gaussian tokens moves their mean and covariance along the depth:
#
# $$\dot\mu = (A + V + V \Sigma B)\,\mu + b, \qquad
# \dot\Sigma = A \Sigma + \Sigma A^\top + V \Sigma B \Sigma + \Sigma B^\top \Sigma V^\top.$$
#
# Where do the tokens settle, how fast, and from how far? With $x$ the unit of a token and $t$ that
# of depth, $A$ and $V$ are in $1/t$, $B$ in $1/x^2$, $\Sigma$ in $x^2$.

# %%
import control as ct
import matplotlib.pyplot as plt
import numpy as np

import gausscontrol as gct

plt.rcParams.update({"figure.figsize": (6, 4), "figure.dpi": 72})

# %% [markdown]
# ## A model
#
# Feed-forward part $x \mapsto A x + b$, key-query matrix $B$, value matrix $V$.

# %%
model = gct.GaussianTransformer(
    A=[[0.6, 0.4], [-0.4, 0.4]],
    B=[[1.0, 0.0], [0.0, 0.5]],
    V=[[-0.5, 0.2], [0.0, -0.6]],
    b=[1.0, 0.0],
    name="layer",
)
model

# %% [markdown]
# ## Where it settles
#
# All equilibria, stable ones first; singular ones are limits of tokens that lie in a plane or a
# line. The first is positive definite, and an exact equilibrium is proven to lie next to it.

# %%
gct.find_equilibria(model)

# %%
equilibrium = gct.find_equilibrium(model)
equilibrium

# %% [markdown]
# ## How fast
#
# The linearisation there is exact, not a difference quotient. It is a `ct.StateSpace`, so all of
# python-control works on it.

# %%
analysis = gct.analyze(model, equilibrium)
analysis

# %%
system = gct.moment_system(model)
linear = ct.linearize(system, equilibrium.operating_point(system))
print(np.sort_complex(linear.poles()).round(4))

# %% [markdown]
# ## From how far
#
# A certificate is an inequality that was checked apart from whatever found it. This one says that
# *every* Gaussian with $\Sigma_0 > 0$ tends to the equilibrium; where none can be given, the call
# raises `NotCertified` and says how far it fell short.

# %%
certificate = gct.certify_global_stability(model, equilibrium)
certificate

# %%
certificate.verify()

# %% [markdown]
# ## Watch it
#
# A response is a `ct.TimeResponseData` with the moments as matrices. Start far away, with tokens
# nearly on a line.

# %%
start = ([-4.0, 3.0], [[6.0, 5.8], [5.8, 6.0]])
response = gct.moment_response(model, np.linspace(0, 12, 121), start)
picture = gct.ellipse_plot(response, equilibrium=equilibrium)

# %%
distance = np.linalg.norm(response.covariance[:, :, -1] - equilibrium.covariance)
print(f"|Sigma - Sigma*| at depth {response.t[-1]:g}: {distance:.1e} [x]^2")

# %% [markdown]
# In one call, without pictures:

# %%
gct.classify(model)
