"""Chunks that have been trained, but not yet judged and saved."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from personae.training.update import ChunkResult


class Backlog:
    """Judges and saves chunks beside the training of the next ones.

    Several may be judged at a time. They are saved one after another, and none after
    one that could not be.
    """

    def __init__(self, most: int):
        """Make room for so many chunks."""
        self._most = most
        self._judges, self._saver = ThreadPoolExecutor(most), ThreadPoolExecutor(1)
        self._saving: deque[Future[None]] = deque()
        self._last: Future[None] | None = None

    def add(self, result: ChunkResult, save: Callable[[ChunkResult], None]) -> None:
        """Have a chunk judged, if it is not yet, and saved."""
        judged, before = self._judges.submit(result.judged), self._last

        def save_in_order() -> None:
            if before is not None:
                before.result()
            save(judged.result())

        self._last = self._saver.submit(save_in_order)
        self._saving.append(self._last)

    def make_room(self) -> None:
        """Wait until there is room for another chunk."""
        self._wait(self._most - 1)

    def clear(self) -> None:
        """Wait until all chunks are safe on disk."""
        self._wait(0)

    def _wait(self, left: int) -> None:
        # What is over is looked at as well: it may have failed.
        while self._saving and (len(self._saving) > left or self._saving[0].done()):
            self._saving.popleft().result()

    def close(self, wait: bool) -> None:
        """Take no more; wait for those that are there, or do without them."""
        for pool in (self._judges, self._saver):
            pool.shutdown(wait, cancel_futures=not wait)
