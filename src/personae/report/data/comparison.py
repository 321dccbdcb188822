"""Several methods on one curriculum: what each achieves, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from personae.errors import UsageError, nearest_match_error, require
from personae.metrics import (
    Interval,
    Range,
    average_performance,
    backward_transfer,
    bootstrap_difference,
    final_performance,
    forgetting,
    forward_transfer,
    holm,
    interquartile_mean,
    mean_interval,
    mean_of_known,
    performance_lost,
    probability_of_improvement,
    welch_test,
    zero_shot_transfer,
)
from personae.report.data.comparable import (
    check_comparable,
    check_same_visits,
    check_whole,
)
from personae.report.data.record import Record


@dataclass(frozen=True)
class Test:
    """How the reference differs from another method in one measure."""

    measure: str
    method: str
    difference: Range
    """Mean of the reference minus that of the method, with its bootstrap interval."""
    p_value: float
    """Welch's, of the two means being equal."""
    corrected: float
    """The same after Holm's correction for all methods tested in this measure."""


@dataclass(frozen=True)
class Comparison:
    """Finished runs of one curriculum, by method."""

    records: Mapping[str, Record]
    experts: Record | None
    """Single-task experts, against which forward transfer is measured."""
    reference: str
    """The method that the others are tested against."""

    @property
    def first(self) -> Record:
        """Any of the records: what they share can be read from it."""
        return next(iter(self.records.values()))

    @property
    def everything(self) -> dict[str, Record]:
        """All records by method, experts included."""
        experts = {} if self.experts is None else {"expert": self.experts}
        return {**self.records, **experts}

    @property
    def measure_of_lives(self) -> str:
        """What whole lives are tested by: totals, if they have as many terms."""
        counts = {record.num_evaluations for record in self.records.values()}
        return "total_evaluation" if len(counts) == 1 else "mean_evaluation"

    @property
    def others(self) -> list[str]:
        """The methods that are tested against the reference."""
        return [method for method in self.records if method != self.reference]

    def per_seed(self, measure: str, method: str) -> Float[np.ndarray, " seeds"]:
        """Return one number per seed of a method: what tests and intervals are of."""
        record = self.records[method]
        visits = record.task_of_visit
        match measure:
            case "total_evaluation":
                return record.total_evaluation
            case "mean_evaluation":
                return record.mean_evaluation
            case "average_performance":
                return average_performance(record.matrix)
            case "forgetting":
                return mean_of_known(forgetting(record.matrix, visits))
            case "backward_transfer":
                return backward_transfer(record.matrix, visits)
            case "zero_shot_transfer":
                return mean_of_known(zero_shot_transfer(record.matrix, visits))
            case "forward_transfer":
                return mean_of_known(self.transfer(method))
            case "final_performance":
                final = final_performance(record.evaluations, record.evaluation_visit)
                return np.asarray(final.mean(-1))
            case "performance_lost":
                lost = performance_lost(
                    record.evaluations, record.evaluation_task, record.evaluation_visit
                )
                return mean_of_known(lost)
            case "evaluation_transfer":
                return mean_of_known(self._evaluation_transfer(method))
        raise nearest_match_error("measure", measure, MEASURES)

    def interval(self, measure: str, method: str) -> Interval:
        """Return a measure's mean over seeds with its interval."""
        return mean_interval(self.per_seed(measure, method))

    def transfer(self, method: str) -> Float[np.ndarray, "seeds tasks"]:
        """Return the forward transfer of each seed and task."""
        if self.experts is None:
            raise UsageError("forward transfer needs a run of the method 'expert'")
        return self.records[method].forward_transfer(self.experts)

    def _evaluation_transfer(self, method: str) -> Float[np.ndarray, "seeds tasks"]:
        """Return forward transfer by Continual World's own definition."""
        if self.experts is None:
            raise UsageError("forward transfer needs a run of the method 'expert'")
        record = self.records[method]
        best = np.maximum(record.targets, 1.0)
        return forward_transfer(
            record.evaluation_areas, self.experts.evaluation_areas, best
        )

    def transfer_pooled_over_seeds_and_tasks(self, method: str) -> Interval:
        """Return forward transfer as the paper has it: n is seeds times tasks.

        Tasks of one seed are not independent, so that this interval is too narrow.
        """
        transfer = self.transfer(method)
        return mean_interval(transfer[np.isfinite(transfer)])

    def tests(self, measure: str) -> list[Test]:
        """Test every other method against the reference, with the seed as the unit."""
        ours = self.per_seed(measure, self.reference)
        theirs = {method: self.per_seed(measure, method) for method in self.others}
        tested = {m: s for m, s in theirs.items() if min(len(s), len(ours)) > 1}
        p_values = [welch_test(ours, samples) for samples in tested.values()]
        return [
            Test(measure, method, bootstrap_difference(ours, samples), p, corrected)
            for (method, samples), p, corrected in zip(
                tested.items(), p_values, holm(p_values), strict=True
            )
        ]

    def middle(self, method: str) -> Range:
        """Return the interquartile mean of the tasks' normalised evaluations."""
        return interquartile_mean(self.records[method].task_scores)

    def improvement(self, measure: str, method: str) -> Range:
        """Return the probability that the reference does better on a task."""
        if measure == "forward_transfer":
            ours, theirs = self.transfer(self.reference), self.transfer(method)
        else:
            ours = self.records[self.reference].task_scores
            theirs = self.records[method].task_scores
        return probability_of_improvement(ours, theirs)


MEASURES = (
    "total_evaluation",
    "mean_evaluation",
    "forward_transfer",
    "average_performance",
    "forgetting",
    "backward_transfer",
    "zero_shot_transfer",
    "final_performance",
    "performance_lost",
    "evaluation_transfer",
)


def compare_records(
    records: Sequence[Record], reference: str, despite: Sequence[str] = ()
) -> Comparison:
    """Put finished runs of one curriculum side by side; experts are set apart.

    Settings may differ where `despite` names them.
    """
    require(len(records) > 0, "there is no run to compare")
    by_method: dict[str, Record] = {}
    for record in records:
        check_whole(record)
        if record.method in by_method:
            raise UsageError(
                f"two runs of {record.method}: {by_method[record.method].directory} "
                f"and {record.directory}; their seeds are not pooled"
            )
        by_method[record.method] = record
    check_comparable(records, despite)
    check_same_visits(records)
    experts = by_method.pop("expert", None)
    require(len(by_method) > 0, "there are experts only, and no method to compare")
    if reference not in by_method:
        raise nearest_match_error("reference", reference, by_method)
    return Comparison(by_method, experts, reference)
