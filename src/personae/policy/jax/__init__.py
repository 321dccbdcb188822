"""Export of agents, and warm starts from them: what needs JAX besides NumPy."""
