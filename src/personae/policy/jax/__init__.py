"""The side of policy files that needs JAX: export and warm start."""
