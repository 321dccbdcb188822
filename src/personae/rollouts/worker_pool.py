"""Processes that hold environments and act in them by themselves.

Each plays whole rollouts and episodes of the environments given to it, with policies
that are sent along: nothing passes between processes at a single step.
"""

import atexit
import multiprocessing
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from personae.envs.spaces import SharedSpaces
from personae.envs.vector import EnvFactory
from personae.errors import PersonaeError
from personae.policy.runtime import TaskPolicy
from personae.rollouts.env_worker import Part, Saved, Seat

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""The cores are shared out already."""
STOPS = (signal.SIGINT, signal.SIGTERM)
"""What asks a run to stop after its chunk; it needs its environments until then."""
PATIENCE = 5.0
"""Seconds that processes have to leave by themselves."""


class Episode(NamedTuple):
    """An episode to be judged."""

    task: int
    agent: int
    seeds: Sequence[int]
    """What it starts from, its number last."""
    draws: Sequence[int] | None
    """What actions are drawn from; None for the most likely ones."""


class Worker:
    """What one process does."""

    def __init__(self, makes: Sequence[EnvFactory], fit: SharedSpaces):
        self._makes, self._fit = makes, fit
        self._seats: dict[int, Seat] = {}
        self._judges: dict[int, Seat] = {}

    def open(self, task: int, slots: Sequence[int]) -> None:
        """Make environments of a task instead of those before."""
        for seat in self._seats.values():
            seat.close()
        self._seats = {s: Seat(self._makes[task], self._fit, task) for s in slots}

    def start(self, seeds: Mapping[int, Sequence[int]]) -> None:
        """Begin the first episode of each."""
        for slot, each in seeds.items():
            self._seats[slot].start(each)

    def repeat(
        self, seeds: Mapping[int, Sequence[int]], saved: Mapping[int, Saved]
    ) -> bool:
        """Bring each back to where it was; tell whether they are."""
        same = [self._seats[slot].repeat(seeds[slot], saved[slot]) for slot in seeds]
        return all(same)

    def play(
        self, policies: Mapping[int, TaskPolicy], draws: Mapping[int, Any], length: int
    ) -> dict[int, Part]:
        """Act for a rollout in each."""
        return {
            slot: self._seats[slot].play(policy, draws[slot], length)
            for slot, policy in policies.items()
        }

    def judge(
        self,
        policies: Mapping[tuple[int, int], TaskPolicy],
        episodes: Sequence[Episode],
    ) -> list[tuple[float, float] | None]:
        """Play episodes of any tasks, with the policies of (task, agent)."""
        return [
            self._judge(each.task).judge(
                policies[each.task, each.agent], each.seeds, each.draws
            )
            for each in episodes
        ]

    def _judge(self, task: int) -> Seat:
        if task not in self._judges:
            self._judges[task] = Seat(self._makes[task], self._fit, task)
        return self._judges[task]

    def save(self) -> dict[int, Saved]:
        """Return what brings all environments back."""
        return {slot: seat.save() for slot, seat in self._seats.items()}


def _work(pipe: Connection, makes: Sequence[EnvFactory], fit: SharedSpaces) -> None:
    """Do what is asked, until there is nobody to ask."""
    for number in STOPS:  # whoever asks decides when to stop
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    worker = Worker(makes, fit)
    with suppress(EOFError, ConnectionError):
        while True:
            name, arguments = pipe.recv()
            pipe.send(_answer(worker, name, arguments))


def _answer(worker: Worker, name: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """Return whether environments did well, and what came of it or what they raised."""
    try:
        return True, getattr(worker, name)(*arguments)
    except PersonaeError as error:
        return False, str(error)


class Crew:
    """Processes at work, asked all at once."""

    def __init__(self, size: int, makes: Sequence[EnvFactory], fit: SharedSpaces):
        # A forked process would inherit locks that threads of JAX hold.
        context = multiprocessing.get_context("spawn")
        self._processes, self._pipes = [], []
        with _environment(ONE_THREAD), _blocked(STOPS):
            for _ in range(size):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_work, args=(theirs, makes, fit), daemon=True
                )
                process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(ours)
        atexit.register(self.close)  # or Python would wait for them

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self._pipes)

    def ask(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Have each do something with arguments of its own; return the answers."""
        with ExitStack() as unread:  # answers would be taken for those to come
            unread.callback(self.close)
            answers = self._answers(name, arguments)
            unread.pop_all()
        failed = [text for well, text in answers if not well]
        if failed:
            raise PersonaeError(f"an environment failed:\n{failed[0]}")
        return [answer for _, answer in answers]

    def _answers(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers = []
        for worker, each in enumerate(arguments):
            with self._alive(worker):
                self._pipes[worker].send((name, each))
        for worker in range(self.size):
            with self._alive(worker):
                answers.append(self._pipes[worker].recv())
        return answers

    @contextmanager
    def _alive(self, worker: int) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError):
            process = self._processes[worker]
            process.join(PATIENCE)
            raise PersonaeError(
                f"a process with environments has died (exit code {process.exitcode}): "
                "out of memory, or an environment crashed it. --resume goes on from "
                "the last checkpoint"
            ) from None

    def close(self) -> None:
        """End all."""
        atexit.unregister(self.close)
        for pipe in self._pipes:
            pipe.close()
        deadline = time.monotonic() + PATIENCE
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()
        self._pipes, self._processes = [], []


@contextmanager
def _blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Keep signals away from processes started meanwhile, until they are ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes started meanwhile, where nobody has set them."""
    added = {name: v for name, v in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
