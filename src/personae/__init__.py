"""Lifelong reinforcement learning with modulating masks."""
