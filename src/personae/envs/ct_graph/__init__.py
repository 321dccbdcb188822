"""The CT-graph: a graph of images with one rewarded leaf."""
