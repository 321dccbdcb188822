"""Ctrl-C: once asks for an orderly stop, twice stops at once."""

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Hears Ctrl-C, and what job schedulers send, for the length of a run.

    Only the main thread of a process is told of signals, and only while it runs Python
    code. Work that may take long, such as compiling, is therefore handed to a thread;
    settings of JAX that hold for one thread (`with jax.default_device(...)`) do not
    reach it. Signals that the process was started to ignore stay ignored.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}
        self._worker = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            deaf = (signal.SIG_IGN, None)
            heard = [s for s in SIGNALS if signal.getsignal(s) not in deaf]
            self._before = {s: signal.signal(s, self._hear) for s in heard}
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.shutdown(wait=False)  # who stops at once does not wait for it
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        text = "stopping after this chunk is saved; Ctrl-C again stops at once"
        print(text, file=sys.stderr, flush=True)

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return what the work returns, but hear signals while it goes on."""
        if not self._before:
            return work(*arguments)
        return self._worker.submit(work, *arguments).result()
