"""Metrics for TensorBoard and Weights & Biases, on request.

Keys: `train/return`, `train/loss`, ... for each iteration; `evaluation/TASK` and
`evaluation_sum` for each evaluation. Steps are environment steps of one agent.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from typing import TypeAlias

import numpy as np

from personae.chunks import steps_per_iteration
from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.runs.directory import RunDirectory
from personae.serialise import PlainData

Write: TypeAlias = Callable[[Sequence[PlainData]], None]
"""A function that logs records of metrics.jsonl."""
Scalars: TypeAlias = dict[str, list[float]]
"""Numbers by key, one per seed."""

NOT_MEASURED = {"kind", "visit", "task", "iteration", "step"}
"""Fields of a train record that are not measurements."""


def scalars(
    record: PlainData, tasks: Sequence[str], steps_per_iteration: int
) -> tuple[int, Scalars]:
    """Return the step of a record and its numbers by key, one per seed."""
    # A train record's own step counts from the start of its visit; here all kinds of
    # records share one axis.
    step = int(record["iteration"]) * steps_per_iteration
    if record["kind"] == "train":
        measured = {k: v for k, v in record.items() if k not in NOT_MEASURED}
        return step, {f"train/{name}": values for name, values in measured.items()}
    if record["kind"] == "evaluation":
        per_task = np.asarray(record.get("success", record["returns"])).T
        by_task = {
            f"evaluation/{task}": list(map(float, values))
            for task, values in zip(tasks, per_task, strict=True)
        }
        return step, by_task | {"evaluation_sum": per_task.sum(0).tolist()}
    return step, {}


@contextmanager
def tensorboard(directory: RunDirectory, seeds: Sequence[int]) -> Iterator[Write]:
    """Write event files, one run of TensorBoard per seed."""
    from tensorboardX import SummaryWriter

    tasks, iteration_steps = _task_names_and_steps(directory.read_run())
    iterations = [record["iteration"] for record in directory.read_metrics()]
    # Hides what an interrupted run logged beyond its last checkpoint.
    purge = max(iterations, default=0) * iteration_steps + 1
    folder = directory.root / "tensorboard"
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                SummaryWriter(str(folder / f"seed-{seed}"), purge_step=purge)
            )
            for seed in seeds
        ]

        def write(records: Sequence[PlainData]) -> None:
            for record in records:
                step, numbers = scalars(record, tasks, iteration_steps)
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
    tasks, iteration_steps = _task_names_and_steps(run)
    name = f"{run['config']['curriculum']['id']} {run['config']['method']}"
    # Made from the run itself, so that a resumed run continues the same curves.
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
            f"cannot log to W&B: {error}. WANDB_MODE=offline keeps the log on disk; "
            "--resume continues the run"
        ) from error

    def write(records: Sequence[PlainData]) -> None:
        for record in records:
            step, numbers = scalars(record, tasks, iteration_steps)
            if not numbers:
                continue
            logged = {key: float(np.mean(values)) for key, values in numbers.items()}
            for key, values in numbers.items():
                for seed, value in zip(seeds, values, strict=True):
                    logged[f"{key}/seed-{seed}"] = value
            # A key, not W&B's own step: that one must never go back, and a resumed
            # run repeats the steps after its last checkpoint.
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
    """Refuse unknown sinks, and those whose library is not installed."""
    for name in names:
        if name not in SINKS:
            raise nearest_match_error("sink", name, SINKS)
        if find_spec(LIBRARIES[name]) is None:
            raise UsageError(
                f"logging to {name} needs {LIBRARIES[name]}: "
                f"pip install 'personae[{name}]'"
            )


@contextmanager
def open_sinks(
    names: Sequence[str], directory: RunDirectory, seeds: Sequence[int]
) -> Iterator[Write]:
    """Open sinks for the length of a run; yield a function that writes to all."""
    with ExitStack() as stack:
        writers = [stack.enter_context(SINKS[name](directory, seeds)) for name in names]

        def write(records: Sequence[PlainData]) -> None:
            for write_to_sink in writers:
                write_to_sink(records)

        yield write


def _task_names_and_steps(run: PlainData) -> tuple[list[str], int]:
    """Return the names of a run's tasks, and its environment steps per iteration."""
    curriculum = run["config"]["curriculum"]
    tasks = [task["name"] for task in curriculum["tasks"]]
    return tasks, steps_per_iteration(curriculum)
