"""Several methods on one curriculum: their measures, intervals and tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from personae.errors import UsageError, nearest_match_error, require
from personae.metrics import (
    Interval,
    Range,
    bootstrap_difference,
    holm,
    interquartile_mean,
    mean_interval,
    probability_of_improvement,
    welch_test,
)
from personae.report.data.comparable import (
    check_comparable,
    check_same_visits,
    check_whole,
)
from personae.report.data.measures import MEASURES, PerSeed, transfer
from personae.report.data.record import Record


@dataclass(frozen=True)
class Test:
    """The difference of the reference from another method in one measure."""

    measure: str
    method: str
    difference: Range
    """Mean of the reference minus that of the method, with its bootstrap interval."""
    p_value: float
    """Welch's p-value for equal means."""
    corrected: float
    """The p-value after Holm's correction for all methods tested in this measure."""


@dataclass(frozen=True)
class Comparison:
    """Finished runs of one curriculum, by method."""

    records: Mapping[str, Record]
    experts: Record | None
    """Single-task experts, against which forward transfer is measured."""
    reference: str
    """The method that the others are tested against."""

    @property
    def first_record(self) -> Record:
        """The first of the records; all share its curriculum and tasks."""
        return next(iter(self.records.values()))

    @property
    def all_records(self) -> dict[str, Record]:
        """All records by method, experts included."""
        experts = {} if self.experts is None else {"expert": self.experts}
        return {**self.records, **experts}

    @property
    def life_measure(self) -> str:
        """The measure of whole lives: the total, or the mean of unequal counts."""
        counts = {r.schedule.num_evaluations for r in self.records.values()}
        # Totals of unequal counts have unequal numbers of terms.
        return "total_evaluation" if len(counts) == 1 else "mean_evaluation"

    @property
    def tested_methods(self) -> list[str]:
        """The methods that are tested against the reference."""
        return [method for method in self.records if method != self.reference]

    def per_seed(self, measure: str, method: str) -> PerSeed:
        """Return a measure of each seed of a method, for tests and intervals."""
        if measure not in MEASURES:
            raise nearest_match_error("measure", measure, MEASURES)
        return MEASURES[measure](self.records[method], self.experts)

    def interval(self, measure: str, method: str) -> Interval:
        """Return a measure's mean over seeds with its interval."""
        return mean_interval(self.per_seed(measure, method))

    def transfer(self, method: str) -> Float[np.ndarray, "seeds tasks"]:
        """Return the forward transfer of each seed and task."""
        return transfer(self.records[method], self.experts)

    def transfer_pooled_over_seeds_and_tasks(self, method: str) -> Interval:
        """Return the forward transfer with the paper's n, seeds times tasks.

        Note: tasks of one seed are not independent, so that this interval is too
        narrow; it is here to stand beside the published one.
        """
        transfer = self.transfer(method)
        return mean_interval(transfer[np.isfinite(transfer)])

    def tests(self, measure: str) -> list[Test]:
        """Test every other method against the reference, with the seed as the unit."""
        reference = self.per_seed(measure, self.reference)
        per_method = {m: self.per_seed(measure, m) for m in self.tested_methods}
        # One seed has no variance to test with.
        tested = {
            method: samples
            for method, samples in per_method.items()
            if min(len(samples), len(reference)) > 1
        }
        p_values = [welch_test(reference, samples) for samples in tested.values()]
        return [
            Test(
                measure, method, bootstrap_difference(reference, samples), p, corrected
            )
            for (method, samples), p, corrected in zip(
                tested.items(), p_values, holm(p_values), strict=True
            )
        ]

    def interquartile_mean(self, method: str) -> Range:
        """Return the interquartile mean of the tasks' normalised evaluations."""
        return interquartile_mean(self.records[method].evaluation_shares)

    def probability_of_improvement(self, measure: str, method: str) -> Range:
        """Return the probability that the reference does better on a task."""

        def per_task(name: str) -> Float[np.ndarray, "seeds tasks"]:
            if measure == "forward_transfer":
                return self.transfer(name)
            return self.records[name].evaluation_shares

        return probability_of_improvement(per_task(self.reference), per_task(method))


def compare_records(
    records: Sequence[Record], reference: str, despite: Sequence[str] = ()
) -> Comparison:
    """Put finished runs of one curriculum side by side.

    Args:
        records: One run per method; a run of the method "expert" is set apart, as the
            base of forward transfer.
        reference: The method that the others are tested against.
        despite: Settings, or groups of settings, that may differ.

    Raises:
        PersonaeError: A run is not finished or not whole, or settings differ.
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
