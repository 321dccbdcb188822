"""The facts of a run that run.json states: its settings, its seeds and its status."""

from dataclasses import dataclass

from personae.chunks import chunk_lengths, steps_per_iteration
from personae.ids import short_name
from personae.serialise import PlainData


@dataclass(frozen=True)
class RunDescription:
    """The facts of a run that run.json states."""

    curriculum: str
    """The id of the curriculum."""
    method: str
    seeds: tuple[int, ...]
    """The seed of each agent."""
    finished: bool
    """Whether the run trained the whole curriculum."""
    cycles: int
    """Number of times that the curriculum visits all tasks."""
    steps_per_task: int
    """Environment steps of a visit."""
    steps_per_iteration: int
    """Environment steps between two points of a training curve."""
    planned_evaluations: int
    """Evaluations of the whole curriculum if no task ends early."""
    made_evaluations: int
    """Evaluations that the run counted, or the planned number without a count."""
    by_success: bool
    """Whether agents are measured by success instead of returns."""
    has_floors: bool
    """Whether returns of some task are counted from a floor other than 0."""

    @property
    def short_name(self) -> str:
        """The curriculum's id without namespace and version, in lower case."""
        return short_name(self.curriculum)

    @property
    def measure(self) -> str:
        """The name of the measure of one task: success or return."""
        if self.by_success:
            return "success"
        return "return above floor" if self.has_floors else "return"

    @property
    def sum_of_measures(self) -> str:
        """The name of the measure summed over all tasks of one evaluation."""
        if self.by_success:
            return "sum of success over all tasks"
        above = " above floors" * self.has_floors
        return f"sum of returns{above} over all tasks"


def describe_run(run: PlainData) -> RunDescription:
    """Return the description in the contents of run.json.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: A setting is missing or of
            the wrong kind; `read_record` turns these into an error that names the run.
    """
    config = run["config"]
    plan = config["curriculum"]
    tasks, evaluation = plan["tasks"], plan["evaluation"]
    cycles = int(plan["cycles"])
    planned = _planned_evaluations(plan) * cycles
    return RunDescription(
        curriculum=str(plan["id"]),
        method=str(config["method"]),
        seeds=tuple(config["seeds"]),
        finished=bool(run["status"] == "finished"),
        cycles=cycles,
        steps_per_task=int(plan["steps_per_task"]),
        steps_per_iteration=steps_per_iteration(plan),
        planned_evaluations=planned,
        # A run that is not finished has written no count yet.
        made_evaluations=int(run.get("evaluations", planned)),
        by_success="measure" in evaluation,
        has_floors=any(task.get("floor") for task in tasks),
    )


def _planned_evaluations(plan: PlainData) -> int:
    """Return the evaluations of one cycle, one at the end of each chunk."""
    iteration, interval = steps_per_iteration(plan), plan["evaluation"]["interval"]
    # A task may have its own number of steps.
    steps = [task.get("steps", plan["steps_per_task"]) for task in plan["tasks"]]
    return sum(len(chunk_lengths(count, iteration, interval)) for count in steps)
