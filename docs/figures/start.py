"""The picture of the start page: Gaussians from afar, one equilibrium, and a certificate."""

import matplotlib.pyplot as plt
import numpy as np

import gausscontrol as gct

model = gct.GaussianTransformer(
    A=[[1.0, 0.6], [-0.6, 0.8]],
    B=[[1.0, 0.2], [0.0, 0.6]],
    V=[[-0.5, -0.1], [0.0, -0.4]],
    b=[0.3, -0.2],
)
equilibrium = gct.find_equilibrium(model)
certificate = gct.certify_global_stability(model, equilibrium)
circle = np.exp(1j * np.linspace(0, 2 * np.pi, 181))
circle = np.stack([circle.real, circle.imag])

figure, axes = plt.subplots(figsize=(6.0, 5.2), layout="constrained")
starts = 7
for k in range(starts):
    angle = 2 * np.pi * k / starts + 0.4
    c, s = np.cos(angle), np.sin(angle)
    R = np.array([[c, -s], [s, c]])
    start = 9 * R[:, 0], R @ np.diag([0.3 + 0.5 * k, 3.0 - 0.35 * k]) @ R.T
    response = gct.moment_response(model, np.linspace(0, 14, 281), start)
    colour = plt.cm.viridis(k / starts)
    axes.plot(*response.mean, color=colour, lw=1.0)
    for index, shade in ((0, 1.0), (12, 0.45), (30, 0.3), (60, 0.25)):
        factor = np.linalg.cholesky(response.covariance[:, :, index])
        edge = response.mean[:, [index]] + factor @ circle
        axes.plot(*edge, color=colour, lw=1.8 if index == 0 else 0.9, alpha=shade)
edge = equilibrium.mean[:, None] + np.linalg.cholesky(equilibrium.covariance) @ circle
axes.plot(*edge, color="black", lw=2.6)
axes.set(
    aspect="equal",
    xlabel="$x_1$",
    ylabel="$x_2$",
    title=f"Certified: every start tends to the black one, rate {certificate.rate:.2f}",
)
axes.grid(alpha=0.3)
