"""A blow-up certified before it happens (Theory 5.3).

    y = tr(P Sigma),   y' >= 2 (k y^2 + a y - g)

One direction of V grows and the others shrink, the feed-forward part contracts, and the covariance
may look tame for a while. The certificate needs no simulation: it bounds the depth of the escape
from the parameters and the start alone. Beside it stands the depth that an integration finds.
"""

import warnings

import numpy as np

import gausscontrol as gct


def main() -> None:
    """Certify the escape of a few starts and compare with integrated trajectories."""
    V = np.array([[0.6, 3.0, 0.0], [0.0, -1.0, 2.0], [0.0, -2.0, -1.0]])
    model = gct.GaussianTransformer(-0.5 * np.eye(3), np.diag([1.0, 2.0, 0.5]), V, name="escaping")
    print("eigenvalues of V:", np.round(np.sort_complex(np.linalg.eigvals(V)), 3))

    certificate = gct.certify_blow_up(model)
    print(certificate)

    print("start                  certified by depth   integrated escape")
    for name, Sigma in starts().items():
        bound = certificate.time_bound(Sigma)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gct.BlowUpWarning)
            times = np.linspace(0, 10, 101)
            found = gct.moment_response(model, times, (np.zeros(3), Sigma)).blow_up_time
        shown = "none up to 10" if found is None else f"{found:.4f}"
        said = f"{bound:.4f}" if np.isfinite(bound) else "no statement"
        print(f"{name:<22} {said:>18}   {shown:>17}")


def starts() -> dict[str, np.ndarray]:
    """Return covariances to start from, one of them singular and one below the threshold."""
    u = np.array([1.0, 0.5, 0.0])
    return {
        "8 I": 8.0 * np.eye(3),
        "2 I": 2.0 * np.eye(3),
        "4 u u^T, rank 1": 4.0 * np.outer(u, u),
        "0.1 I": 0.1 * np.eye(3),
    }


if __name__ == "__main__":
    main()
