"""Several runs at a time, each in a process of its own.

A small network leaves a GPU idle most of the time, and a run of few agents leaves cores
idle: other runs can use them. No run knows of the others, so each computes what it
would compute alone.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from personae.backend import available_cores, can_share_accelerator
from personae.errors import PersonaeError, UsageError
from personae.launch.display import JobsDisplay
from personae.launch.mps import shared_gpu
from personae.launch.worker import MISUSED
from personae.runs.progress import Progress
from personae.runs.signals import Interrupt
from personae.training.config import RunConfig

WORKER = [sys.executable, "-c", "from personae.launch import worker; worker.run()"]
CORES_FOR_A_GPU_RUN = 2
"""One that feeds the GPU, one that compiles what comes next."""


@dataclass(frozen=True)
class Job:
    """A run to be made."""

    name: str
    """What it is called while it goes on."""
    config: RunConfig
    out: Path


def room(num_agents: int) -> int:
    """Return how many runs of so many agents this machine should make at a time."""
    share = can_share_accelerator()
    if share is None:
        return max(1, available_cores() // num_agents)
    return max(1, available_cores() // CORES_FOR_A_GPU_RUN) if share else 1


def learn_jobs(jobs: Sequence[Job], at_once: int, board: JobsDisplay) -> None:
    """Make all runs, some at a time; what is finished is not made again.

    If one fails the others go on, and what failed is said at the end. Ctrl-C stops each
    after the chunk it is at.
    """
    with board, _shared_device() as environment, Interrupt() as interrupt:
        fleet = _Fleet(board, environment)
        with ThreadPoolExecutor(at_once) as pool:
            pending = {pool.submit(fleet.learn, job) for job in jobs}
            try:
                while pending:
                    done, pending = wait(pending, timeout=0.2)
                    for future in done:
                        future.result()  # raises what no worker is to blame for
                    if interrupt.requested:
                        fleet.stop(signal.SIGINT)
            finally:  # a second Ctrl-C does not wait
                fleet.stop(signal.SIGKILL)
        if interrupt.requested:
            raise KeyboardInterrupt
    if fleet.failures:
        said = [f"{name}: {text}" for name, (_, text) in fleet.failures.items()]
        misused = all(code == MISUSED for code, _ in fleet.failures.values())
        raise (UsageError if misused else PersonaeError)("; ".join(said))


def _shared_device() -> AbstractContextManager[Mapping[str, str]]:
    """Return what workers need in their environment to share what they compute on."""
    return shared_gpu() if can_share_accelerator() else nullcontext({})


class _Fleet:
    """The processes at work."""

    def __init__(self, board: JobsDisplay, environment: Mapping[str, str]):
        self.failures: dict[str, tuple[int, str]] = {}
        self._board = board
        self._environment = os.environ | environment
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._told: set[str] = set()
        self._stopped = False

    def learn(self, job: Job) -> None:
        """Make one run, and show how it goes."""
        if self._stopped:
            return
        with subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            text=True,
            start_new_session=True,  # Ctrl-C reaches this process alone
        ) as process:
            self._processes[job.name] = process
            self._board.begin(job.name)
            last = self._follow(job, process)
        code = process.returncode
        if code != 0 and not self._stopped:
            self.failures[job.name] = (code, last or f"ended with code {code}")
        self._board.end(job.name, "done" if code == 0 else "stopped")

    def _follow(self, job: Job, process: subprocess.Popen[str]) -> str:
        """Tell a worker what to do and show what it says; return its last words."""
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as order:
            json.dump({"config": job.config.to_plain(), "out": str(job.out)}, order)
        last = ""
        for line in process.stdout:
            last = self._hear(job.name, line.rstrip()) or last
        return last

    def _hear(self, name: str, line: str) -> str:
        """Show a moment; show anything else as it is, and return it."""
        moment = _as_moment(line)
        if moment is not None:
            self._board.show(name, moment)
            return ""
        if not self._stopped:
            self._board.note(name, line)
        return line

    def stop(self, number: signal.Signals) -> None:
        """Send a signal to all processes that live, each kind once."""
        self._stopped = True
        for name, process in list(self._processes.items()):
            key = f"{name} {number}"
            if key not in self._told and process.poll() is None:
                self._told.add(key)
                if number is signal.SIGKILL:  # with the processes that it started
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)


def _as_moment(line: str) -> Progress | None:
    try:
        fields: Any = json.loads(line)
        return Progress(**fields)
    except (TypeError, ValueError):
        return None
