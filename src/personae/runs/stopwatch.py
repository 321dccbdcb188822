"""Measures how much of a run's wall time is compilation and waiting."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import jax


class Stopwatch:
    """Measures a run; its shares are counted since it was last started."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._compiled_before = sum(COMPILATIONS)
        self._saving = 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Seconds of compilation, and of waiting for chunks to be saved."""
        compilation = sum(COMPILATIONS) - self._compiled_before
        return {"compilation": round(compilation, 3), "saving": round(self._saving, 3)}

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Count the time inside as waiting for the disk."""
        began = time.monotonic()
        yield
        self._saving += time.monotonic() - began

    def lap(self) -> float:
        """Return the seconds since the last call."""
        current = time.monotonic()
        seconds, self._last = current - self._last, current
        return seconds


COMPILATIONS: list[float] = []
"""Seconds of every compilation of this process."""


def _note_compilation(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event.endswith("backend_compile_duration"):
        COMPILATIONS.append(duration_secs)


# JAX offers no way to remove a listener: one for the process, not one for each run.
jax.monitoring.register_event_duration_secs_listener(_note_compilation)
