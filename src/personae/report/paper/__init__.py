"""The paper's numbers and its claims."""
