"""A run as read from its directory: arrays for metrics, figures and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from personae.errors import PersonaeError
from personae.metrics import (
    area,
    evaluation_matrix,
    evaluation_share,
    first_visits,
    forward_transfer,
    ideal_total,
    steps_to_target,
    total_evaluation,
)
from personae.report.data.description import RunDescription, describe_run
from personae.report.data.schedule import Schedule
from personae.runs.directory import RunDirectory
from personae.serialise import PlainData


@dataclass(frozen=True)
class TrainingCurve:
    """One visit's training: the mean return of the episodes of each iteration."""

    task: str
    steps: Int[np.ndarray, " iterations"]
    """Environment steps since the visit began."""
    returns: Float[np.ndarray, "agents iterations"]


@dataclass(frozen=True)
class Preview:
    """The policies of all agents along a task's optimal path before its training."""

    task: str
    actions: Int[np.ndarray, " steps"]
    """The optimal actions."""
    probabilities: Float[np.ndarray, "agents steps actions"]


@dataclass(frozen=True)
class Record:
    """The events of a run, finished or not.

    Returns and targets are counted from each task's floor, which is 0 unless a
    curriculum says otherwise. Where a curriculum measures success, success takes the
    place of returns.

    Example:
        record = read_record("runs/ct8-mask-lc")
        print(record.total_evaluation.mean(), "of", record.ideal_total)
    """

    directory: Path
    run: PlainData
    """The contents of run.json."""
    tasks: tuple[str, ...]
    targets: Float[np.ndarray, " tasks"]
    evaluation_steps: Int[np.ndarray, " evaluations"]
    """Environment steps of one agent at each evaluation."""
    evaluation_task: Int[np.ndarray, " evaluations"]
    """The task being trained at each evaluation."""
    evaluation_visit: Int[np.ndarray, " evaluations"]
    """The visit being trained at each evaluation."""
    evaluations: Float[np.ndarray, "agents evaluations tasks"]
    """Mean return of each task's episodes."""
    training: tuple[TrainingCurve, ...]
    """One curve per visit begun."""
    previews: tuple[Preview, ...] = ()
    """One per visit, where the environment knows the optimal path."""
    unseen: Float[np.ndarray, "agents evaluations tasks"] | None = None
    """Evaluations on levels that are never trained on, if the run made them."""

    @property
    def description(self) -> RunDescription:
        """The facts that run.json states."""
        # Not a field: a record with another `run` must not disagree with itself.
        return describe_run(self.run)

    @property
    def schedule(self) -> Schedule:
        """The visits and the evaluations, planned ones and those so far."""
        return Schedule(
            self.description,
            self.tasks,
            tuple(curve.task for curve in self.training),
            self.evaluation_steps,
            self.evaluation_visit,
        )

    @property
    def curriculum(self) -> str:
        """The id of the curriculum."""
        return self.description.curriculum

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.description.method

    @property
    def short_name(self) -> str:
        """The curriculum's id without namespace and version, in lower case."""
        return self.description.short_name

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each agent."""
        return self.description.seeds

    @property
    def finished(self) -> bool:
        """Whether the run trained the whole curriculum."""
        return self.description.finished

    @property
    def by_success(self) -> bool:
        """Whether agents are measured by success instead of returns."""
        return self.description.by_success

    @property
    def measure(self) -> str:
        """The name of the measure of one task: success or return."""
        return self.description.measure

    @property
    def sum_of_measures(self) -> str:
        """The name of the measure summed over all tasks of one evaluation."""
        return self.description.sum_of_measures

    @property
    def total_evaluation(self) -> Float[np.ndarray, " agents"]:
        """The paper's total evaluation of each agent."""
        return total_evaluation(self.evaluations)

    @property
    def total_unseen(self) -> Float[np.ndarray, " agents"] | None:
        """The total evaluation on unseen levels, if the run made those evaluations."""
        return None if self.unseen is None else total_evaluation(self.unseen)

    @property
    def ideal_total(self) -> float:
        """The total evaluation of an agent that masters each task at once."""
        return ideal_total(self.evaluation_task, self.targets)

    @property
    def ideal_sums(self) -> Float[np.ndarray, " evaluations"]:
        """The sum of returns of an agent that masters each task at once."""
        sums = [self.targets[: task + 1].sum() for task in self.evaluation_task]
        # In a later cycle the agent still masters the tasks behind the trained one.
        return np.maximum.accumulate(sums)

    @property
    def matrix(self) -> Float[np.ndarray, "agents visits tasks"]:
        """Returns at the end of each visit, on every task."""
        return evaluation_matrix(self.evaluations, self.evaluation_visit)

    @property
    def areas(self) -> Float[np.ndarray, "agents tasks"]:
        """Area under the training curve of each task's first visit, if it had one."""
        areas = np.full((len(self.seeds), len(self.tasks)), np.nan)
        for task, visit in first_visits(self.schedule.task_of_visit):
            areas[:, task] = area(self.training[visit].returns)
        return areas

    @property
    def evaluation_shares(self) -> Float[np.ndarray, "agents tasks"]:
        """Mean evaluation of each task since its first training, by its target."""
        return evaluation_share(self.evaluations, self.evaluation_task, self.targets)

    def forward_transfer(self, experts: "Record") -> Float[np.ndarray, "agents tasks"]:
        """Return the forward transfer of each agent and task against experts."""
        return forward_transfer(self.areas, experts.areas, best_areas(self))

    def steps_to_target(self, share: float = 0.75) -> list[int | None]:
        """Return the steps of each visit to a share of the target.

        The curve is the mean over agents; a visit that never reaches the share has
        None.
        """
        targets = dict(zip(self.tasks, self.targets, strict=True))
        return [
            steps_to_target(
                curve.steps, curve.returns.mean(0), share * targets[curve.task]
            )
            for curve in self.training
        ]


def best_areas(record: Record) -> Float[np.ndarray, " tasks"]:
    """Return the largest area that forward transfer counts with on each task.

    Note: this is the target, but 1 where the target is less, because the published
    formula has 1 for returns in 0..1.
    """
    return np.maximum(record.targets, 1.0)


def read_record(directory: Path | str) -> Record:
    """Read a run from its directory.

    Args:
        directory: A directory with run.json and metrics.jsonl; the run may go on
            while it is read.

    Returns:
        The record, with all evaluations written so far.

    Raises:
        PersonaeError: The directory holds no run, or a damaged one, or a run without
            an evaluation.
    """
    files = RunDirectory(directory)
    run = files.read_run()
    try:
        return _read_record(files, run)
    # A file from elsewhere may lack anything; one message covers every way to fail.
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise PersonaeError(
            f"{directory} does not hold the data of a run: {error!r}"
        ) from error


def _read_record(files: RunDirectory, run: PlainData) -> Record:
    # Before all else: a setting that is missing must fail here, under the name of the
    # run, and not later in a table.
    by_success = describe_run(run).by_success
    entries = list(files.read_metrics())
    evaluations = [entry for entry in entries if entry["kind"] == "evaluation"]
    training = [entry for entry in entries if entry["kind"] == "train"]
    if not evaluations:
        raise PersonaeError(f"the run in {files.root} has no evaluation yet")
    tasks = run["config"]["curriculum"]["tasks"]
    names = tuple(task["name"] for task in tasks)
    evaluated, trained = ("success", "success") if by_success else ("returns", "return")
    floors = np.array([task.get("floor", 0.0) for task in tasks], float)

    # Floors are subtracted once, here: measures and figures need not know of them.
    def above_floors(field: str) -> Float[np.ndarray, "agents evaluations tasks"]:
        _check_numbers(files, evaluations, field)
        values = np.array([entry[field] for entry in evaluations], float) - floors
        return values.swapaxes(0, 1)

    _check_numbers(files, training, trained)
    floor_of = dict(zip(names, floors, strict=True))
    return Record(
        directory=files.root,
        run=run,
        tasks=names,
        targets=np.array([task["target"] for task in tasks], float) - floors,
        evaluation_steps=np.array([entry["step"] for entry in evaluations]),
        evaluation_task=np.array([names.index(entry["task"]) for entry in evaluations]),
        evaluation_visit=np.array([entry["visit"] for entry in evaluations]),
        evaluations=above_floors(evaluated),
        unseen=above_floors("unseen") if "unseen" in evaluations[0] else None,
        training=_training_curves(training, floor_of, trained),
        previews=tuple(
            Preview(e["task"], np.array(e["actions"]), np.array(e["probabilities"]))
            for e in entries
            if e["kind"] == "preview"
        ),
    )


def _check_numbers(
    files: RunDirectory, entries: Sequence[PlainData], field: str
) -> None:
    """Raise an error, with iteration and task, if a value is not a number."""
    for entry in entries:
        if not np.isfinite(np.asarray(entry[field], float)).all():
            raise PersonaeError(
                f"{files.metrics_file}: {field} at iteration {entry['iteration']} "
                f"(task {entry['task']}) is not a number for every seed"
            )


def _training_curves(
    entries: Sequence[PlainData], floor_of: Mapping[str, float], field: str
) -> tuple[TrainingCurve, ...]:
    visits: dict[int, list[PlainData]] = {}
    for entry in entries:
        visits.setdefault(entry["visit"], []).append(entry)
    return tuple(
        TrainingCurve(
            task=visit[0]["task"],
            steps=np.array([entry["step"] for entry in visit]),
            returns=np.array([entry[field] for entry in visit]).T
            - floor_of[visit[0]["task"]],
        )
        # A resumed run appends to the same file, and visits are found by number.
        for _, visit in sorted(visits.items())
    )
