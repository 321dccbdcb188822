"""What a Ray task is told, what it does, and how it ended."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from personae.errors import PersonaeError, UsageError
from personae.launch.ray_nodes import Request, difference, installed, sees_mark, unseen
from personae.launch.worker import FAILED, INTERRUPTED, MISUSED
from personae.runs.directory import LockedError, RunDirectory
from personae.runs.progress import Progress
from personae.runs.store import Claim, Store
from personae.serialise import from_plain
from personae.training.config import RunConfig
from personae.training.loop import start

SECONDS_LOCKED = 60
"""How long the process may take to end that a run is taken over from."""


@dataclass(frozen=True)
class Order:
    """A run to be made, and what it is given."""

    name: str
    config: Mapping[str, Any]
    place: str
    """The folder that nodes share, or the URL of the store that they reach."""
    out: str
    """The run directory there."""
    request: Request
    installed: Mapping[str, str | None]
    """What has to be installed."""
    mark: str
    """A file that whoever sees the place sees there."""
    shared: bool = True
    """Whether the place is a folder, in which runs can be made."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the exit code that a program would have, and what it said."""

    code: int = 0
    said: str = ""

    @property
    def misused(self) -> bool:
        """Whether the user can mend it."""
        return self.code == MISUSED

    @property
    def interrupted(self) -> bool:
        """Whether it was asked to stop."""
        return self.code == INTERRUPTED


def carry_out(order: Order, told: Any) -> Outcome:
    """Make a run, from its last checkpoint if it has one; tell how it goes."""
    if order.request.gpus:  # JAX looks at this when it begins to compute
        os.environ.pop("XLA_CLIENT_MEM_FRACTION", None)
        share = f"{order.request.memory_share:.3f}"
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = share

    def tell(moment: Progress) -> None:
        told.put_nowait((order.name, dataclasses.asdict(moment)))

    try:
        _check_node(order)
        with Claim(Store(order.place), order.out) as claim:
            if order.shared:
                _learn_there(order, claim, tell)
            else:
                _learn_through_store(order, claim, tell)
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED, "stopped")
    except (PersonaeError, OSError) as error:
        code = MISUSED if isinstance(error, UsageError) else FAILED
        return Outcome(code, str(error))
    return Outcome()


def _check_node(order: Order) -> None:
    """Refuse a node that was not there when all of them were looked at."""
    found = difference(order.installed, installed())
    if found is not None:
        raise PersonaeError(f"the node {os.uname().nodename} has {found}")
    if not sees_mark(order.place, order.mark):
        raise PersonaeError(f"the node {os.uname().nodename} {unseen(order.place)}")


def _learn_there(order: Order, claim: Claim, tell: Callable[[Progress], None]) -> None:
    """Learn in the folder that nodes share."""

    def check(moment: Progress) -> None:
        claim.check()
        tell(moment)

    _learn(order, Path(order.place, order.out), check)


def _learn_through_store(
    order: Order, claim: Claim, tell: Callable[[Progress], None]
) -> None:
    """Learn in a folder of this node, and send it after each chunk."""
    store = Store(order.place)
    with TemporaryDirectory() as name:
        folder = Path(name)
        store.pull(order.out, folder)

        def send(moment: Progress) -> None:
            claim.check()
            store.push(folder, order.out)
            tell(moment)

        _learn(order, folder, send)
        claim.check()
        store.push(folder, order.out)


def _learn(order: Order, folder: Path, tell: Callable[[Progress], None]) -> None:
    config = from_plain(RunConfig, order.config, "order")
    config.prepare_backend()
    until = time.monotonic() + SECONDS_LOCKED
    while True:
        try:
            start(config, RunDirectory(folder), nullcontext(tell), resume=True)
            return
        except LockedError:
            if time.monotonic() > until:
                raise
            time.sleep(1.0)
