"""Soundness: no certificate of any kind is refuted by simulation, nor moved by head gauge.

`python tests/test_attack.py COUNT SEED` prints how many certificates of each kind COUNT models
gave, and how many were false; run with -m slow for the 10,000 models of the closing figures.
"""

import sys

import numpy as np
import pytest
from attack import Attack, attack, certificates, gather, sample

KINDS = {
    "blow-up",
    "bounded",
    "collapse",
    "global",
    "local",
    "region",
    "robust",
}


def test_no_certificate_is_refuted():
    issued, false = attack(36, seed=3)
    assert {kind.split()[0] for kind in issued} == KINDS
    assert false == []


@pytest.mark.slow
def test_no_certificate_of_ten_thousand_models_is_refuted():
    issued, false = attack(10_000, seed=11)
    assert {kind.split()[0] for kind in issued} == KINDS
    methods = ("form", "riccati", "semidefinite", "gradient", "extended")
    assert all(issued[f"global ({method})"] for method in methods)
    assert false == []


@pytest.fixture(scope="module", name="examples")
def _examples():
    """One certificate of each kind, from the first models that give one."""
    rng, found = np.random.default_rng(0), {}
    for index in range(200):
        model, Sigma = sample(rng, index)
        for name, certificate in certificates(model, Sigma, "region" not in found):
            # A collapsing model has the bound zero, of which half is as true.
            if getattr(certificate, "bound", 1.0) > 0:
                found.setdefault(name.split()[0], certificate)
        if set(found) == KINDS:
            break
    return found


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_attack_can_refute(examples, kind):
    campaign = Attack(0)
    campaign.add(kind, falsified(examples[kind], kind))
    assert campaign.run()


def falsified(certificate, kind):
    """Return a copy of a certificate that claims what is not so."""
    forged = object.__new__(type(certificate))
    forged.__dict__.update(certificate.__dict__)
    changes = {
        "bounded": lambda c: {"bound": 1e-3 * c.bound},
        "blow-up": lambda c: {"gain": 1e6 * c.gain},
        "robust": lambda c: {"radius": 1e3 * c.radius},
    }
    if kind in changes:
        forged.__dict__.update(changes[kind](certificate))
    else:
        # Depth run backwards turns what attracts into what repels.
        forged.__dict__["model"] = certificate.model.reversed()
    return forged


def test_head_gauge_changes_no_covariance_verdict():
    rng = np.random.default_rng(5)
    for index in range(9):
        model, Sigma = sample(rng, index)
        kinds = verdicts(model, Sigma)
        for exponent in (-8, 8):
            c = 10.0**exponent
            gauged = model.replace(V=c * model.V, B=model.B / c)
            assert verdicts(gauged, Sigma) == kinds


def verdicts(model, Sigma):
    # The absolute radius of robustness is not gauge-invariant, its existence is.
    return sorted({kind for kind, _ in certificates(model, Sigma, regions=False)})


if __name__ == "__main__":
    campaign = gather(int(sys.argv[1]), int(sys.argv[2]))
    for kind in sorted(campaign.issued):
        sys.stdout.write(f"{kind:28s}{campaign.issued[kind]:7d}\n")
    sys.stdout.flush()  # following their trajectories takes as long again
    false = campaign.run()
    sys.stdout.write(f"false: {len(false)} {[kind for kind, _ in false]}\n")
