"""What an agent has learned, without what it learned with: NumPy is all it needs."""
