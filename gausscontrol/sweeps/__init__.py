"""Many models: one function over a grid on any executor, and whole batches in NumPy."""
