"""Equilibria of the moment system and the linear analysis around them."""
