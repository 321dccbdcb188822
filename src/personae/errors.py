"""Errors that a user can act on; the command line prints them without a traceback."""

import difflib
from collections.abc import Iterable

MOST_LISTED = 100
"""Names that are all listed in an error; of more, only the nearest are."""
MOST_NEAR = 10


class PersonaeError(Exception):
    """A mistake in what was asked for, or a state of the world that stops a run."""


class UsageError(PersonaeError, ValueError):
    """A bad value: the message names it and what is allowed (exit code 2)."""


def require(holds: bool, message: str) -> None:
    """Raise a usage error unless something holds."""
    if not holds:
        raise UsageError(message)


def nearest_match_error(what: str, value: str, allowed: Iterable[str]) -> UsageError:
    """Return an error that names a bad value, the nearest good one and all others.

    Of very many, some near ones are named.
    """
    names = sorted(allowed)
    near = sorted((n for n in names if len(value) > 1 and value in n), key=len)
    near = near or difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(names)
    if len(names) > MOST_LISTED:
        nearest = difflib.get_close_matches(value, names, n=MOST_NEAR, cutoff=0)
        listed = f"{len(names):,} names, such as {', '.join(nearest)}"
    return UsageError(f"unknown {what} {value!r}.{hint} Allowed: {listed}.")


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message, or its type without one.

    Ray's messages are whole tracebacks, in which the last line is what went wrong.
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
