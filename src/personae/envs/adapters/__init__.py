"""Adapters for environments of other libraries, and of ours for other libraries."""
