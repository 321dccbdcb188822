"""Where else the metrics go: TensorBoard and Weights & Biases, if asked for.

Keys: `train/return`, `train/loss`, ... for each iteration; `evaluation/TASK` and
`evaluation_sum` for each evaluation. Steps are environment steps of one agent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from personae.chunks import steps_per_iteration
from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.runs.directory import RunDirectory

Record = Mapping[str, Any]
Write = Callable[[Sequence[Record]], None]
Scalars = dict[str, list[float]]


def scalars(
    record: Record, tasks: Sequence[str], steps_per_iteration: int
) -> tuple[int, Scalars]:
    """Return the step of a record and its numbers by key, one per seed."""
    step = int(record["iteration"]) * steps_per_iteration
    if record["kind"] == "train":
        skipped = {"kind", "visit", "task", "iteration", "step"}
        return step, {f"train/{k}": v for k, v in record.items() if k not in skipped}
    if record["kind"] == "evaluation":
        per_task = np.asarray(record.get("success", record["returns"])).T
        named = {
            f"evaluation/{task}": list(map(float, values))
            for task, values in zip(tasks, per_task, strict=True)
        }
        return step, named | {"evaluation_sum": per_task.sum(0).tolist()}
    return step, {}


@contextmanager
def tensorboard(directory: RunDirectory, seeds: Sequence[int]) -> Iterator[Write]:
    """Write event files, one run of TensorBoard per seed."""
    from tensorboardX import SummaryWriter

    run = directory.read_run()
    tasks, pace = _tasks_and_pace(run)
    done = [r["iteration"] for r in directory.read_metrics()]
    # What a run that was cut had logged beyond its checkpoint is hidden.
    purge = max(done, default=0) * pace + 1
    folder = directory.root / "tensorboard"
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                SummaryWriter(str(folder / f"seed-{seed}"), purge_step=purge)
            )
            for seed in seeds
        ]

        def write(records: Sequence[Record]) -> None:
            for record in records:
                step, numbers = scalars(record, tasks, pace)
                for key, values in numbers.items():
                    for writer, value in zip(writers, values, strict=True):
                        writer.add_scalar(key, value, step)
            for writer in writers:
                writer.flush()

        yield write


@contextmanager
def wandb(directory: RunDirectory, seeds: Sequence[int]) -> Iterator[Write]:
    """Log to Weights & Biases: means over seeds, and every seed under its own key."""
    import wandb as library

    run = directory.read_run()
    tasks, pace = _tasks_and_pace(run)
    name = f"{run['config']['curriculum']['id']} {run['config']['method']}"
    identity = run["started"] + run["config"]["method"]
    try:
        session = library.init(
            project="personae",
            name=name,
            config=run["config"],
            dir=str(directory.root),
            id="".join(c for c in identity if c.isalnum()),
            resume="allow",
        )
    except library.errors.Error as error:
        raise PersonaeError(
            f"W&B cannot be logged to: {error}. WANDB_MODE=offline keeps it on disk; "
            "--resume goes on"
        ) from error

    def write(records: Sequence[Record]) -> None:
        for record in records:
            step, numbers = scalars(record, tasks, pace)
            if not numbers:
                continue
            logged = {key: float(np.mean(values)) for key, values in numbers.items()}
            for key, values in numbers.items():
                each = zip(seeds, values, strict=True)
                logged |= {f"{key}/seed-{seed}": value for seed, value in each}
            session.log(logged | {"environment_steps": step})

    try:
        yield write
    finally:
        session.finish()


SINKS: dict[
    str, Callable[[RunDirectory, Sequence[int]], AbstractContextManager[Write]]
] = {"tensorboard": tensorboard, "wandb": wandb}
LIBRARIES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def check_sinks(names: Sequence[str]) -> None:
    """Refuse sinks that there are not, or whose library is not installed."""
    for name in names:
        if name not in SINKS:
            raise nearest_match_error("place to log to", name, SINKS)
        if find_spec(LIBRARIES[name]) is None:
            raise UsageError(
                f"logging to {name} needs {LIBRARIES[name]}: "
                f"pip install 'personae[{name}]'"
            )


@contextmanager
def open_sinks(
    names: Sequence[str], directory: RunDirectory, seeds: Sequence[int]
) -> Iterator[Write]:
    """Open sinks for the length of a run; yield what writes to all of them."""
    with ExitStack() as stack:
        writes = [stack.enter_context(SINKS[name](directory, seeds)) for name in names]

        def write(records: Sequence[Record]) -> None:
            for each in writes:
                each(records)

        yield write


def _tasks_and_pace(run: Mapping[str, Any]) -> tuple[list[str], int]:
    curriculum = run["config"]["curriculum"]
    tasks = [task["name"] for task in curriculum["tasks"]]
    return tasks, steps_per_iteration(curriculum)
