"""The outcome of a run that another process makes: an exit code and a message."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from personae.errors import PersonaeError, UsageError

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes, the same as those of the command line."""


@dataclass(frozen=True)
class Outcome:
    """The exit code of a run, and the error message if it failed."""

    code: int = 0
    message: str = ""

    @property
    def misused(self) -> bool:
        """Whether the user can correct what went wrong."""
        return self.code == MISUSED

    @property
    def interrupted(self) -> bool:
        """Whether the run was asked to stop."""
        return self.code == INTERRUPTED


def outcome_of(work: Callable[[], None]) -> Outcome:
    """Do some work; return its outcome instead of raising expected errors."""
    try:
        work()
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED, "stopped")
    except (PersonaeError, OSError) as error:
        code = MISUSED if isinstance(error, UsageError) else FAILED
        return Outcome(code, str(error))
    return Outcome()


def raise_failures(failures: Mapping[str, Outcome]) -> None:
    """Raise one error that names all runs that failed, if any did."""
    if not failures:
        return
    messages = [f"{name}: {outcome.message}" for name, outcome in failures.items()]
    # One that failed for another reason is not mended by another command line.
    misused = all(outcome.misused for outcome in failures.values())
    raise (UsageError if misused else PersonaeError)("; ".join(messages))
