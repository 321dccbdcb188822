"""One run in a process of its own, started by `jobs.py`.

The run to make comes in as JSON, progress goes out as lines of JSON; all other output
is meant for people.
"""

import dataclasses
import json
import os
import sys
from contextlib import nullcontext
from functools import partial

from personae.launch.outcome import outcome_of
from personae.runs.directory import RunDirectory
from personae.runs.progress import Progress
from personae.serialise import from_plain
from personae.training.config import RunConfig
from personae.training.loop import start


def print_progress(progress: Progress) -> None:
    """Print progress for the process that has started this one."""
    # If nobody reads any more, the broken pipe ends this process: nothing else would.
    print(json.dumps(dataclasses.asdict(progress)), flush=True)


def main() -> int:
    """Make the run that standard input describes; return the exit code."""
    order = json.load(sys.stdin)
    config = from_plain(RunConfig, order["config"], "order")
    config.prepare_backend()
    directory, reporter = RunDirectory(order["out"]), nullcontext(print_progress)
    outcome = outcome_of(partial(start, config, directory, reporter, resume=True))
    # The last line of a run that failed is its error message.
    if outcome.code != 0 and not outcome.interrupted:
        print(outcome.message, flush=True)
    return outcome.code


def run() -> None:
    """Make the run, and leave with the exit code."""
    code = main()
    sys.stdout.flush()
    # A thread may still be computing after an interruption: do not wait for it.
    os._exit(code)
