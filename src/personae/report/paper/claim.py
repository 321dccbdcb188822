"""A claim of the paper as data: its statement, its verdict, and the runs it needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from personae.metrics import Range
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record
from personae.report.paper.published import as_published
from personae.runs.learned_masks import LearnedMasks


class Verdict(NamedTuple):
    """The result of testing a claim, with its evidence."""

    holds: bool | None
    """The verdict; None if the runs leave doubt."""
    evidence: str

    @property
    def word(self) -> str:
        """The verdict in one word."""
        return {True: "holds", False: "fails", None: "open"}[self.holds]


class Runs(NamedTuple):
    """The runs that claims are tested on."""

    comparison: Comparison
    masks: Mapping[str, LearnedMasks]

    def record(self, method: str) -> Record:
        """Return the run of a method."""
        return self.comparison.records[method]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about some curricula."""

    name: str
    statement: str
    curricula: tuple[str, ...]
    methods: tuple[str, ...]
    """The methods whose runs the verdict needs."""
    verdict_of: Callable[[Runs], Verdict]
    learned_masks: bool = False
    """Whether the claim is about the masks themselves."""
    experts: bool = False
    """Whether the claim is about forward transfer."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """By curriculum, the likely cause where the claim does not hold."""

    def explain(self, verdict: Verdict, runs: Runs) -> str:
        """Return the evidence and, where the claim does not hold, the likely cause."""
        records = runs.comparison.records.values()
        cause = self.causes.get(runs.comparison.first_record.short_name, "")
        # The causes come from runs with the settings of the published tables.
        if verdict.holds or not cause or not all(map(as_published, records)):
            return verdict.evidence
        return f"{verdict.evidence}. Likely cause, from runs of 25 seeds: {cause}"

    def applies_to(self, runs: Runs) -> bool:
        """Tell whether the claim is about these runs, which need two seeds or more."""
        methods = runs.masks if self.learned_masks else runs.comparison.records
        return (
            runs.comparison.first_record.short_name in self.curricula
            and all(method in methods for method in self.methods)
            and all(len(runs.record(method).seeds) > 1 for method in self.methods)
            and (runs.comparison.experts is not None or not self.experts)
        )


def verdict_of_differences(differences: Mapping[str, Range]) -> Verdict:
    """Return the verdict of a claim that all of these differences are positive."""
    evidence = "; ".join(f"{name}: {value}" for name, value in differences.items())
    if all(value.low > 0 for value in differences.values()):
        return Verdict(True, evidence)
    # One interval below zero is enough to fail; an interval around zero proves nothing.
    fails = any(value.high < 0 for value in differences.values())
    return Verdict(False if fails else None, evidence)
