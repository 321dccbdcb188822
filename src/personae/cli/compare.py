"""`personae compare`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from personae.api import compare
from personae.cli.console import names_in
from personae.cli.many_runs import ManyRuns
from personae.cli.preset import with_preset
from personae.cli.report import show_comparison
from personae.curricula import Preset


@dataclass(frozen=True)
class Compare(Preset):
    """Learn a curriculum with several methods; print tables beside the paper's.

    Each method has a directory in --out, and so have the experts that forward transfer
    is measured against. Finished runs are used without change, stopped runs are
    continued, and missing runs are started: the same command can be given again at any
    time.
    Example: personae compare ct8 --methods mask-lc,mask-blc,ewc-mh --out runs/ct8
    """

    curriculum: tyro.conf.Positional[str]
    """A name that `personae curricula` lists, or a .toml or .json file."""
    methods: str = "mask-ri,mask-lc,mask-blc,ppo,ewc-mh"
    """Methods, separated by commas; `personae learn --help` describes them."""
    seeds: int = 5
    """Number of agents to train side by side with each method."""
    first_seed: int = 0
    """Seed of the first agent. The others have the seeds that follow it."""
    steps_per_task: int | None = None
    """Environment steps on each task, rounded up to whole iterations. By default they
    are the curriculum's own."""
    cycles: int | None = None
    """Number of times that all tasks are visited. By default it is the curriculum's
    own."""
    out: Path | None = None
    """Directory to write to. By default it is runs/CURRICULUM."""
    reference: str | None = None
    """Method that the others are tested against. By default it is mask-lc, or else the
    first method."""
    runs: tyro.conf.OmitArgPrefixes[ManyRuns] = ManyRuns()

    def __call__(self) -> None:
        """Run the command."""
        methods = names_in(self.methods)
        curriculum = with_preset(self.curriculum, self, methods, self.cycles)
        out = self.out or Path("runs") / curriculum.short_name
        comparison = compare(
            curriculum,
            methods,
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            steps_per_task=self.steps_per_task,
            out=out,
            reference=self.reference,
            jobs=self.runs.parallel_jobs(self.seeds),
            quiet=self.runs.quiet,
            on=self.runs.on,
            store=self.runs.store,
        )
        show_comparison(comparison, out)
