"""Chunks that have been trained, but not yet evaluated and saved."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """Evaluates and saves chunks beside the training of the next ones."""

    def __init__(self, max_pending: int):
        self._max_pending = max_pending
        self._evaluators = ThreadPoolExecutor(max_pending)
        self._saver = ThreadPoolExecutor(1)
        self._pending: deque[Future[None]] = deque()
        self._last: Future[None] | None = None

    def add(self, evaluate: Callable[[], T], save: Callable[[T], None]) -> None:
        evaluation, before = self._evaluators.submit(evaluate), self._last

        def save_in_order() -> None:
            if before is not None:
                before.result()
            save(evaluation.result())

        self._last = self._saver.submit(save_in_order)
        self._pending.append(self._last)

    def make_room(self) -> None:
        self._wait(self._max_pending - 1)

    def clear(self) -> None:
        self._wait(0)

    def _wait(self, left: int) -> None:
        while self._pending and (len(self._pending) > left or self._pending[0].done()):
            self._pending.popleft().result()

    def close(self, wait: bool) -> None:
        for pool in (self._evaluators, self._saver):
            pool.shutdown(wait, cancel_futures=not wait)
