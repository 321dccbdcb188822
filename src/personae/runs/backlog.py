"""Chunks that are trained, but not yet evaluated and saved."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Backlog:
    """Evaluates and saves chunks while the next ones are trained.

    Several chunks may be evaluated at a time. They are saved in their order, and none
    is saved after one that failed.
    """

    def __init__(self, max_pending: int):
        """Make room for `max_pending` chunks, all of which may be evaluated at once."""
        self._max_pending = max_pending
        self._evaluators = ThreadPoolExecutor(max_pending)
        # A single thread: metrics.jsonl is appended to, so the order counts.
        self._saver = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()
        self._newest: Future[None] | None = None

    def add(self, evaluate: Callable[[], T], save: Callable[[T], None]) -> None:
        """Add a chunk: run `evaluate`, then pass its result to `save`."""
        evaluation, previous = self._evaluators.submit(evaluate), self._newest

        def save_in_order() -> None:
            # A checkpoint after a gap would resume with a chunk's metrics missing.
            if previous is not None:
                previous.result()
            save(evaluation.result())

        self._newest = self._saver.submit(save_in_order)
        self._pending.append(self._newest)

    def make_room(self) -> None:
        """Wait until there is room for another chunk."""
        self._wait(self._max_pending - 1)

    def clear(self) -> None:
        """Wait until all chunks are safe on disk."""
        self._wait(0)

    def _wait(self, remaining: int) -> None:
        # Finished chunks are checked even when there is room: one may have failed, and
        # the training should not go on for long without noticing.
        while self._pending and (
            len(self._pending) > remaining or self._pending[0].done()
        ):
            self._pending.popleft().result()

    def close(self, wait: bool) -> None:
        """Accept no more chunks; wait for the pending ones, or cancel them."""
        for pool in (self._evaluators, self._saver):
            pool.shutdown(wait, cancel_futures=not wait)
