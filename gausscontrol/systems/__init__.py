"""The moment system as a python-control system, and its responses."""
