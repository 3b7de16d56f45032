"""Models made to order: steering along a path, and design of a stable equilibrium."""
