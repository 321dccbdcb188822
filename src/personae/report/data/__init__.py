"""Records of runs, and what may be compared."""
