"""Ctrl-C: once asks for an orderly stop, twice stops at once."""

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and the signal that job schedulers send."""


class Interrupt:
    """Notes signals that ask for a stop, for the length of a run.

    Python runs signal handlers in the main thread only, and only while that thread runs
    Python code. Work that may take long, such as compiling, is therefore handed to
    another thread; settings of JAX that hold for one thread (`with
    jax.default_device(...)`) do not reach it. Signals that the process was started to
    ignore stay ignored.
    """

    def __init__(self) -> None:
        self.requested = False
        self._handlers: dict[signal.Signals, Handler] = {}
        self._worker = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            ignored = (signal.SIG_IGN, None)
            handled = [s for s in SIGNALS if signal.getsignal(s) not in ignored]
            self._handlers = {s: signal.signal(s, self._handle) for s in handled}
        return self

    def __exit__(self, *_: object) -> None:
        # After a second Ctrl-C the work may go on for minutes: do not wait for it.
        self._worker.shutdown(wait=False)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        text = "stopping after this chunk is saved; Ctrl-C again stops at once"
        print(text, file=sys.stderr, flush=True)

    def call(self, work: Callable[..., T], *arguments: object) -> T:
        """Return the result of some work, during which signals are handled."""
        # Without handlers there is nothing to wait for, and errors keep a short trace.
        if not self._handlers:
            return work(*arguments)
        return self._worker.submit(work, *arguments).result()
