"""Errors that a user can act on; the command line prints them without a traceback."""

import difflib
from collections.abc import Iterable

MOST_LISTED = 100
"""Largest number of allowed names that an error lists in full."""
MOST_NEAR = 10
"""Number of near names that an error lists of more."""


class PersonaeError(Exception):
    """A mistake of the user, or a condition outside the program that stops a run."""


class UsageError(PersonaeError, ValueError):
    """A bad value; the message names it and the allowed ones (exit code 2)."""


def require(holds: bool, message: str) -> None:
    """Raise a usage error with the message unless the condition holds."""
    if not holds:
        raise UsageError(message)


def require_at_least_one(owner: object, *names: str) -> None:
    """Raise a usage error unless all the attributes named are 1 or more."""
    for name in names:
        value = getattr(owner, name)
        require(value >= 1, f"{name} must be at least 1, not {value}")


def nearest_match_error(kind: str, value: str, allowed: Iterable[str]) -> UsageError:
    """Return an error that names a bad value, the nearest allowed one and the others.

    Args:
        kind: The kind of thing that the value should name, such as "method".
        value: The unknown value.
        allowed: All allowed values. Of very many, only some near ones are listed.
    """
    names = sorted(allowed)
    # A part of a name is a better hint than a close spelling: "lc" means "mask-lc". A
    # single letter is part of too many.
    near = sorted((n for n in names if len(value) > 1 and value in n), key=len)
    near = near or difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(names)
    if len(names) > MOST_LISTED:
        nearest = difflib.get_close_matches(value, names, n=MOST_NEAR, cutoff=0)
        listed = f"{len(names):,} names, such as {', '.join(nearest)}"
    return UsageError(f"unknown {kind} {value!r}.{hint} Allowed: {listed}.")


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message, or its type without one.

    Ray's messages are whole tracebacks, in which the last line is what went wrong.
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
