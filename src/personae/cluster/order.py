"""What a Ray task is told, what it does, and how it ended."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from personae.cluster.nodes import Request
from personae.cluster.store import Store
from personae.training.worker import FAILED, INTERRUPTED, MISUSED


@dataclass(frozen=True)
class Order:
    """A run to be made, and what it is given."""

    name: str
    config: Mapping[str, Any]
    out: str
    """Its folder; with a store the folder's name there."""
    request: Request
    store: str | None = None
    """The URL that run directories are exchanged by, if nodes share no folder."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the exit code that a program would have, and what it said."""

    code: int = 0
    said: str = ""

    @property
    def misused(self) -> bool:
        """Whether the user can mend it."""
        return self.code == MISUSED


def carry_out(order: Order, told: Any) -> Outcome:
    """Make a run, from its last checkpoint if it has one; tell how it goes."""
    # Before JAX is imported, which looks at its share of a GPU then.
    if order.request.gpus:
        share = f"{order.request.memory_share:.3f}"
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = share
    from personae.errors import PersonaeError, UsageError

    def tell(moment: Any) -> None:
        told.put_nowait((order.name, dataclasses.asdict(moment)))

    try:
        if order.store is None:
            _learn(order, Path(order.out), tell)
        else:
            with TemporaryDirectory() as folder:
                _learn_through(Store(order.store), order, Path(folder), tell)
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED, "stopped")
    except (PersonaeError, OSError) as error:
        code = MISUSED if isinstance(error, UsageError) else FAILED
        return Outcome(code, str(error))
    return Outcome()


def _learn(order: Order, folder: Path, tell: Callable[[Any], None]) -> None:
    from personae.plain import from_plain
    from personae.rundir import RunDirectory
    from personae.training import RunConfig, start

    config = from_plain(RunConfig, order.config, "order")
    devices = max(2, int(order.request.cpus))
    config.prepare_backend(None if order.request.gpus else devices)
    start(config, RunDirectory(folder), nullcontext(tell), resume=True)


def _learn_through(
    store: Store, order: Order, folder: Path, tell: Callable[[Any], None]
) -> None:
    """Learn in a folder of this node, and send it after each chunk."""
    store.pull(order.out, folder)

    def send(moment: Any) -> None:
        store.push(folder, order.out)
        tell(moment)

    _learn(order, folder, send)
    store.push(folder, order.out)
