"""Environments of other libraries, and ours for other libraries."""
