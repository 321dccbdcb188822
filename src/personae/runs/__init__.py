"""A run on disk: its directory, checkpoints, logs and replay."""
