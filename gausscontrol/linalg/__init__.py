"""Matrices and matrix equations; nothing here knows what a Transformer is."""
