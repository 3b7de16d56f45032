"""The mathematics of the moment system (1); nothing here imports python-control."""
