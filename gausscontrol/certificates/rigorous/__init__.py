"""Proofs in ball arithmetic: what `verify(rigorous=True)` of a certificate asks (Theory 9.3)."""
