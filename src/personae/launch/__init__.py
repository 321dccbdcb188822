"""Several runs at a time: in processes, on one GPU, on a Ray cluster."""
