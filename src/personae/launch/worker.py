"""One run in a process of its own, started by `fleet.py`.

What to learn comes in as JSON, moments go out as lines of JSON; everything else that is
printed is meant for people.
"""

import dataclasses
import json
import os
import sys
from contextlib import nullcontext

from personae.errors import PersonaeError, UsageError
from personae.runs.directory import RunDirectory
from personae.runs.progress import Progress
from personae.serialise import from_plain
from personae.training.config import RunConfig
from personae.training.loop import start

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes; what went wrong is the last line printed."""


def tell(moment: Progress) -> None:
    """Print a moment for the process that waits for it."""
    print(json.dumps(dataclasses.asdict(moment)), flush=True)


def main() -> int:
    """Learn what standard input says; return the exit code."""
    order = json.load(sys.stdin)
    config = from_plain(RunConfig, order["config"], "order")
    config.prepare_backend()
    try:
        start(config, RunDirectory(order["out"]), nullcontext(tell), resume=True)
    except (PersonaeError, OSError) as error:
        print(error, flush=True)
        return MISUSED if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def run() -> None:
    """Learn, and leave with the exit code."""
    code = main()
    sys.stdout.flush()
    # A thread may still be computing after an interruption: do not wait for it.
    os._exit(code)
