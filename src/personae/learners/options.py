"""Checks that the options of several learners share."""

from personae.errors import require


def check_at_least_one(options: object, *names: str) -> None:
    """Raise an error unless the fields with these names are at least 1."""
    for name in names:
        value = getattr(options, name)
        learner = type(options).__name__
        require(value >= 1, f"{learner}: {name} must be at least 1, not {value}")
