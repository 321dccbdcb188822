"""Processes that hold environments and act in them for whole rollouts and episodes.

Policies are sent along with each request, so that nothing passes between processes at a
single step.
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
from personae.rollouts.env_worker import EnvWorker, EpisodeSnapshot, WorkerRollout

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Environment of the processes: each core has one already."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask a run to stop after its chunk; until then it needs its
environments."""
EXIT_TIMEOUT = 5.0
"""Seconds that processes have to end by themselves."""


class EvalEpisode(NamedTuple):
    """An episode of an evaluation."""

    task: int
    agent: int
    seeds: Sequence[int]
    """The numbers that identify the episode, its own number last."""
    action_seed: Sequence[int] | None
    """Seed of the actions; None for the most likely ones."""


class PoolProcess:
    """The environments of one process; its methods are the requests it answers."""

    def __init__(self, factories: Sequence[EnvFactory], spaces: SharedSpaces):
        self._factories, self._spaces = factories, spaces
        self._training: dict[int, EnvWorker] = {}
        self._evaluation: dict[int, EnvWorker] = {}

    def open(self, task: int, slots: Sequence[int]) -> None:
        """Make environments of a task in place of those before."""
        for worker in self._training.values():
            worker.close()
        self._training = {slot: self._make(task) for slot in slots}

    def _make(self, task: int) -> EnvWorker:
        return EnvWorker(self._factories[task], self._spaces, task)

    def start(self, seeds: Mapping[int, Sequence[int]]) -> None:
        """Begin the first episode in each slot."""
        for slot, prefix in seeds.items():
            self._training[slot].start(prefix)

    def repeat(
        self,
        seeds: Mapping[int, Sequence[int]],
        snapshots: Mapping[int, EpisodeSnapshot],
    ) -> bool:
        """Bring each slot's episode back; return whether all are the same again."""
        same = [
            self._training[slot].repeat(seeds[slot], snapshots[slot]) for slot in seeds
        ]
        return all(same)

    def collect(
        self,
        policies: Mapping[int, TaskPolicy],
        action_seeds: Mapping[int, Any],
        length: int,
    ) -> dict[int, WorkerRollout]:
        """Act for a rollout in each slot."""
        return {
            slot: self._training[slot].collect(policy, action_seeds[slot], length)
            for slot, policy in policies.items()
        }

    def evaluate(
        self,
        policies: Mapping[tuple[int, int], TaskPolicy],
        episodes: Sequence[EvalEpisode],
    ) -> list[tuple[float, float] | None]:
        """Play episodes of any tasks, with the policies of (task, agent)."""
        return [
            self._evaluation_worker(episode.task).evaluate(
                policies[episode.task, episode.agent],
                episode.seeds,
                episode.action_seed,
            )
            for episode in episodes
        ]

    def _evaluation_worker(self, task: int) -> EnvWorker:
        if task not in self._evaluation:
            self._evaluation[task] = self._make(task)
        # Training has environments of its own: its episodes go on after an evaluation.
        return self._evaluation[task]

    def save(self) -> dict[int, EpisodeSnapshot]:
        """Return the running episode of each slot."""
        return {slot: worker.save() for slot, worker in self._training.items()}


def _serve(
    pipe: Connection, factories: Sequence[EnvFactory], spaces: SharedSpaces
) -> None:
    """Answer requests until the pipe is closed."""
    for number in STOP_SIGNALS:  # the process that asks decides when to stop
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    process = PoolProcess(factories, spaces)
    with suppress(EOFError, ConnectionError):
        while True:
            request, arguments = pipe.recv()
            pipe.send(_answer(process, request, arguments))


def _answer(
    process: PoolProcess, request: str, arguments: tuple[Any, ...]
) -> tuple[bool, Any]:
    """Return success and the answer, or failure and the message of the error."""
    try:
        return True, getattr(process, request)(*arguments)
    except PersonaeError as error:
        return False, str(error)


class WorkerPool:
    """Processes that are all asked at once."""

    def __init__(
        self, size: int, factories: Sequence[EnvFactory], spaces: SharedSpaces
    ):
        # A forked process would inherit locks that threads of JAX hold.
        context = multiprocessing.get_context("spawn")
        self._processes, self._pipes = [], []
        with _environment(ONE_THREAD), _blocked(STOP_SIGNALS):
            for _ in range(size):
                pipe, remote_end = context.Pipe()
                process = context.Process(
                    target=_serve, args=(remote_end, factories, spaces), daemon=True
                )
                process.start()
                remote_end.close()
                self._processes.append(process)
                self._pipes.append(pipe)
        atexit.register(self.close)  # or Python would wait for them

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self._pipes)

    def ask(self, request: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send a request to each process, with its own arguments; return the answers.

        `request` is the name of a method of `PoolProcess`.
        """
        with ExitStack() as on_error:
            # Unread answers would be taken for those of the next request.
            on_error.callback(self.close)
            answers = self._answers(request, arguments)
            on_error.pop_all()
        failures = [text for succeeded, text in answers if not succeeded]
        if failures:
            raise PersonaeError(f"an environment failed:\n{failures[0]}")
        return [answer for _, answer in answers]

    def _answers(self, request: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers = []
        # All requests are sent before any answer is awaited: processes work at once.
        for index, own_arguments in enumerate(arguments):
            with self._alive(index):
                self._pipes[index].send((request, own_arguments))
        for index in range(self.size):
            with self._alive(index):
                answers.append(self._pipes[index].recv())
        return answers

    @contextmanager
    def _alive(self, index: int) -> Iterator[None]:
        try:
            yield
        except (EOFError, ConnectionError):
            process = self._processes[index]
            process.join(EXIT_TIMEOUT)
            raise PersonaeError(
                f"a process with environments has died (exit code {process.exitcode}): "
                "out of memory, or an environment crashed it. --resume goes on from "
                "the last checkpoint"
            ) from None

    def close(self) -> None:
        """End all processes."""
        atexit.unregister(self.close)
        for pipe in self._pipes:
            pipe.close()
        deadline = time.monotonic() + EXIT_TIMEOUT
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()
        self._pipes, self._processes = [], []


@contextmanager
def _blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Keep signals from processes that are started meanwhile, until they are ready."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that are not set yet, for processes that are started meanwhile."""
    added = {name: v for name, v in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
