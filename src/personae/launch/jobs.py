"""Several runs at a time, each in a process of its own.

A small network leaves a GPU idle most of the time, and a run of few agents leaves cores
idle: other runs can use them. No run knows of the others, so each computes the same as
alone.
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

from personae.backend import available_cores, can_share_accelerator
from personae.launch.display import JobsDisplay
from personae.launch.mps import shared_gpu
from personae.launch.outcome import Outcome, raise_failures
from personae.runs.progress import Progress
from personae.runs.signals import Interrupt
from personae.training.config import RunConfig

WORKER = [sys.executable, "-c", "from personae.launch import worker; worker.run()"]
CORES_FOR_A_GPU_RUN = 2
"""One core that feeds the GPU, and one that compiles the next programs."""


@dataclass(frozen=True)
class Job:
    """A run to make."""

    name: str
    """The name under which its progress is shown."""
    config: RunConfig
    out: Path


def max_parallel_jobs(num_agents: int) -> int:
    """Return how many runs of so many agents this machine should make at a time."""
    can_share = can_share_accelerator()
    if can_share is None:
        return max(1, available_cores() // num_agents)
    return max(1, available_cores() // CORES_FOR_A_GPU_RUN) if can_share else 1


def learn_jobs(jobs: Sequence[Job], max_parallel: int, display: JobsDisplay) -> None:
    """Make all runs, some at a time; finished ones are not made again.

    If one fails the others go on, and the error at the end names all that failed.
    Ctrl-C stops each run after its current chunk.
    """
    with display, _shared_device() as environment, Interrupt() as interrupt:
        pool = JobPool(display, environment)
        with ThreadPoolExecutor(max_parallel) as threads:
            pending = {threads.submit(pool.learn, job) for job in jobs}
            try:
                while pending:
                    # Not for ever: signals are only handled while Python code runs.
                    done, pending = wait(pending, timeout=0.2)
                    for future in done:
                        future.result()  # raises errors that no worker has caused
                    if interrupt.requested:
                        pool.stop(signal.SIGINT)
            finally:  # a second Ctrl-C does not wait
                pool.stop(signal.SIGKILL)
        if interrupt.requested:
            raise KeyboardInterrupt
    raise_failures(pool.failures)


def _shared_device() -> AbstractContextManager[Mapping[str, str]]:
    """Return the environment variables with which workers share a device."""
    return shared_gpu() if can_share_accelerator() else nullcontext({})


class JobPool:
    """The processes that make runs."""

    def __init__(self, display: JobsDisplay, environment: Mapping[str, str]):
        self.failures: dict[str, Outcome] = {}
        self._display = display
        self._environment = os.environ | environment
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._signalled: set[tuple[str, signal.Signals]] = set()
        self._stopped = False

    def learn(self, job: Job) -> None:
        """Make one run, and show its progress."""
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
            self._display.begin(job.name)
            last_line = self._communicate(job, process)
        code = process.returncode
        if code != 0 and not self._stopped:
            message = last_line or f"ended with code {code}"
            self.failures[job.name] = Outcome(code, message)
        self._display.end(job.name, "done" if code == 0 else "stopped")

    def _communicate(self, job: Job, process: subprocess.Popen[str]) -> str:
        """Send a worker its job and show its output; return the last line."""
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin as order:
            json.dump({"config": job.config.to_plain(), "out": str(job.out)}, order)
        last_line = ""
        for line in process.stdout:
            last_line = self._show(job.name, line.rstrip()) or last_line
        return last_line

    def _show(self, name: str, line: str) -> str:
        """Show a line of a worker; return it unless it is progress."""
        progress = _parse_progress(line)
        if progress is not None:
            self._display.show(name, progress)
            return ""
        if not self._stopped:
            self._display.note(name, line)
        return line

    def stop(self, number: signal.Signals) -> None:
        """Send a signal to all running processes, to each only once."""
        self._stopped = True
        for name, process in list(self._processes.items()):
            key = (name, number)
            # A second SIGINT would stop a worker in the middle of a chunk.
            if key not in self._signalled and process.poll() is None:
                self._signalled.add(key)
                if number is signal.SIGKILL:  # with the processes that it started
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)


def _parse_progress(line: str) -> Progress | None:
    try:
        return Progress(**json.loads(line))
    except (TypeError, ValueError):
        return None
