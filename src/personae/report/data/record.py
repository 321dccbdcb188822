"""A run as read from its directory: arrays for metrics, figures and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from personae.chunks import chunk_lengths, steps_per_iteration
from personae.errors import PersonaeError
from personae.ids import short_name
from personae.metrics import (
    area,
    evaluation_areas,
    evaluation_matrix,
    evaluation_share,
    first_visits,
    forward_transfer,
    ideal_total,
    steps_to_target,
    total_evaluation,
)
from personae.runs.directory import RunDirectory

READ_LATER = (
    "method",
    "curriculum",
    "seeds",
    "num_visits",
    "steps_per_task",
    "made_evaluations",
    "planned_evaluations",
)
"""What a record takes from run.json only when it is asked for it."""


@dataclass(frozen=True)
class TrainingCurve:
    """One visit's training: the mean return of the episodes of each iteration."""

    task: str
    steps: Int[np.ndarray, " iterations"]
    """Environment steps since the visit began."""
    returns: Float[np.ndarray, "agents iterations"]


@dataclass(frozen=True)
class Preview:
    """What agents would do along a task's optimal path, before training on it."""

    task: str
    actions: Int[np.ndarray, " steps"]
    """The optimal actions."""
    probabilities: Float[np.ndarray, "agents steps actions"]


@dataclass(frozen=True)
class Record:
    """What happened in a run, finished or not.

    Returns and targets are counted from each task's floor, which is 0 unless a
    curriculum says otherwise. Where success is what counts, it stands for returns.
    """

    directory: Path
    run: Mapping[str, Any]
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
    previews: tuple[Preview, ...] = ()
    """One per visit, where the environment knows the optimal path."""
    unseen: Float[np.ndarray, "agents evaluations tasks"] | None = None
    """The same as `evaluations` on what was never trained on, if that was tested."""

    @property
    def curriculum(self) -> str:
        """The id of the curriculum."""
        return str(self.run["config"]["curriculum"]["id"])

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.run["config"]["method"])

    @property
    def short_name(self) -> str:
        """The curriculum's id without namespace and version, in lower case."""
        return short_name(self.curriculum)

    @property
    def steps_per_task(self) -> int:
        """Environment steps of a visit."""
        return int(self.run["config"]["curriculum"]["steps_per_task"])

    @property
    def by_success(self) -> bool:
        """Whether success is what counts, instead of returns."""
        return "measure" in self.run["config"]["curriculum"]["evaluation"]

    @property
    def measure(self) -> str:
        """What agents are judged by, in a word."""
        if self.by_success:
            return "success"
        return "return above floor" if self._has_floors else "return"

    @property
    def sum_of_measures(self) -> str:
        """What all tasks have together in one evaluation, in words."""
        if self.by_success:
            return "sum of success over all tasks"
        above = " above floors" * self._has_floors
        return f"sum of returns{above} over all tasks"

    @property
    def _has_floors(self) -> bool:
        tasks = self.run["config"]["curriculum"]["tasks"]
        return any(task.get("floor") for task in tasks)

    @property
    def finished(self) -> bool:
        """Whether the whole curriculum was lived through."""
        return bool(self.run["status"] == "finished")

    @property
    def num_visits(self) -> int:
        """Visits of the whole curriculum."""
        return len(self.tasks) * int(self.run["config"]["curriculum"]["cycles"])

    @property
    def visits_ended(self) -> int:
        """Visits that were trained to their end."""
        return len(self.training) if self.finished else len(self.training) - 1

    @property
    def num_evaluations(self) -> int:
        """Evaluations that this record holds."""
        return len(self.evaluation_steps)

    @property
    def visit_ends(self) -> Int[np.ndarray, " visits"]:
        """Environment steps at the last evaluation of each visit."""
        last = np.diff(self.evaluation_visit, append=-1) != 0
        return self.evaluation_steps[last]

    @property
    def made_evaluations(self) -> int:
        """Evaluations that the run says it made, or else those planned."""
        return int(self.run.get("evaluations", self.planned_evaluations))

    @property
    def planned_evaluations(self) -> int:
        """Evaluations of the whole curriculum, if no task ends early."""
        plan = self.run["config"]["curriculum"]
        pace = self.steps_per_iteration, plan["evaluation"]["interval"]
        steps = [task.get("steps", plan["steps_per_task"]) for task in plan["tasks"]]
        return sum(len(chunk_lengths(s, *pace)) for s in steps) * int(plan["cycles"])

    @property
    def ended_early(self) -> bool:
        """Whether tasks ended before their time (stop_at, or a callback)."""
        return self.num_evaluations < self.planned_evaluations

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps between two points of a training curve."""
        return steps_per_iteration(self.run["config"]["curriculum"])

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each agent."""
        return tuple(self.run["config"]["seeds"])

    @property
    def title(self) -> str:
        """Method, curriculum and number of seeds, for headings."""
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return f"{self.method} on {self.curriculum}, {seeds}"

    @property
    def total_evaluation(self) -> Float[np.ndarray, " agents"]:
        """The paper's total evaluation of each agent."""
        return total_evaluation(self.evaluations)

    @property
    def mean_evaluation(self) -> Float[np.ndarray, " agents"]:
        """The total of each agent, by the number of evaluations."""
        return self.total_evaluation / self.num_evaluations

    @property
    def total_unseen(self) -> Float[np.ndarray, " agents"] | None:
        """The same on what was never trained on, if that was tested."""
        return None if self.unseen is None else total_evaluation(self.unseen)

    @property
    def ideal_total(self) -> float:
        """The total evaluation of an agent that masters each task at once."""
        return ideal_total(self.evaluation_task, self.targets)

    @property
    def ideal_sums(self) -> Float[np.ndarray, " evaluations"]:
        """The sum of returns of an agent that masters each task at once."""
        seen = [self.targets[: task + 1].sum() for task in self.evaluation_task]
        return np.maximum.accumulate(seen)

    @property
    def task_of_visit(self) -> Int[np.ndarray, " visits"]:
        """The task of each visit begun."""
        return np.array([self.tasks.index(curve.task) for curve in self.training])

    @property
    def matrix(self) -> Float[np.ndarray, "agents visits tasks"]:
        """Returns at the end of each visit, on every task."""
        return evaluation_matrix(self.evaluations, self.evaluation_visit)

    @property
    def areas(self) -> Float[np.ndarray, "agents tasks"]:
        """Area under the training curve of each task's first visit, if it had one."""
        areas = np.full((len(self.seeds), len(self.tasks)), np.nan)
        for task, visit in first_visits(self.task_of_visit):
            areas[:, task] = area(self.training[visit].returns)
        return areas

    @property
    def task_scores(self) -> Float[np.ndarray, "agents tasks"]:
        """Mean evaluation of each task since it was first trained, of its target."""
        return evaluation_share(self.evaluations, self.evaluation_task, self.targets)

    def forward_transfer(self, experts: "Record") -> Float[np.ndarray, "agents tasks"]:
        """Return the forward transfer of each agent and task against experts.

        The best area is the target, but 1 where that is less: as published, where
        returns lie in 0..1.
        """
        best = np.maximum(self.targets, 1.0)
        return forward_transfer(self.areas, experts.areas, best)

    @property
    def evaluation_areas(self) -> Float[np.ndarray, "agents tasks"]:
        """Mean evaluation of each task while it was trained."""
        return evaluation_areas(
            self.evaluations, self.evaluation_task, self.evaluation_visit
        )

    def steps_to_target(self, share: float = 0.75) -> list[int | None]:
        """Return for each visit the steps until the mean return reaches a share of
        the target, or None where it never does.
        """  # noqa: D205
        targets = dict(zip(self.tasks, self.targets, strict=True))
        return [
            steps_to_target(
                curve.steps, curve.returns.mean(0), share * targets[curve.task]
            )
            for curve in self.training
        ]


def read_record(directory: Path | str) -> Record:
    """Read a run from its directory."""
    files = RunDirectory(directory)
    run = files.read_run()
    try:
        return _read_record(files, run)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise PersonaeError(
            f"{directory} does not hold what a run does: {error!r}"
        ) from error


def _read_record(files: RunDirectory, run: Mapping[str, Any]) -> Record:
    records = list(files.read_metrics())
    evaluations = [r for r in records if r["kind"] == "evaluation"]
    if not evaluations:
        raise PersonaeError(f"the run in {files.root} has no evaluation yet")
    tasks = run["config"]["curriculum"]["tasks"]
    names = tuple(task["name"] for task in tasks)
    by_success = "measure" in run["config"]["curriculum"]["evaluation"]
    judged, trained = ("success", "success") if by_success else ("returns", "return")
    floors = np.array([task.get("floor", 0.0) for task in tasks], float)

    def evaluated(name: str) -> Float[np.ndarray, "agents evaluations tasks"]:
        _check_numbers(files, evaluations, name)
        counted = np.array([r[name] for r in evaluations], float) - floors
        return counted.swapaxes(0, 1)

    _check_numbers(files, [r for r in records if r["kind"] == "train"], trained)
    record = Record(
        directory=files.root,
        run=run,
        tasks=names,
        targets=np.array([task["target"] for task in tasks], float) - floors,
        evaluation_steps=np.array([r["step"] for r in evaluations]),
        evaluation_task=np.array([names.index(r["task"]) for r in evaluations]),
        evaluation_visit=np.array([r["visit"] for r in evaluations]),
        evaluations=evaluated(judged),
        unseen=evaluated("unseen") if "unseen" in evaluations[0] else None,
        training=_training_curves(
            records, dict(zip(names, floors, strict=True)), trained
        ),
        previews=tuple(
            Preview(r["task"], np.array(r["actions"]), np.array(r["probabilities"]))
            for r in records
            if r["kind"] == "preview"
        ),
    )
    _check_settings(record)
    return record


def _check_settings(record: Record) -> None:
    """Read what is read later, so that what lacks is missed here."""
    for name in READ_LATER:
        getattr(record, name)


def _check_numbers(
    files: RunDirectory, records: Sequence[Mapping[str, Any]], name: str
) -> None:
    """Refuse what is not a number, and say where it stands."""
    for record in records:
        if not np.isfinite(np.asarray(record[name], float)).all():
            raise PersonaeError(
                f"{files.metrics_file}: {name} at iteration {record['iteration']} "
                f"(task {record['task']}) is not a number for every seed"
            )


def _training_curves(
    records: list[dict[str, Any]], floors: Mapping[str, float], judged: str
) -> tuple[TrainingCurve, ...]:
    visits: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        if record["kind"] == "train":
            visits.setdefault(record["visit"], []).append(record)
    return tuple(
        TrainingCurve(
            task=visit[0]["task"],
            steps=np.array([r["step"] for r in visit]),
            returns=np.array([r[judged] for r in visit]).T - floors[visit[0]["task"]],
        )
        for _, visit in sorted(visits.items())
    )
