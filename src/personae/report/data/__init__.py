"""Records of runs, and comparisons of several records."""
