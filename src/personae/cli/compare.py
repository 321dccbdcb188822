"""`personae compare`."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from personae.api import compare
from personae.cli.preset import with_preset
from personae.cli.report import show_comparison
from personae.curricula import Preset
from personae.launch.jobs import max_parallel_jobs


@dataclass(frozen=True)
class Compare(Preset):
    """Learn a curriculum with several methods; print tables beside the paper's.

    Each method, and the experts that forward transfer is measured against, has a
    directory in --out. What is there is taken as it is, what was stopped goes on, what
    is missing is run: give the same command again at any time.
    Example: personae compare ct8 --methods mask-lc,mask-blc,ewc-mh --out runs/ct8
    """

    curriculum: tyro.conf.Positional[str]
    """A name that `personae curricula` lists, or a .toml or .json file."""
    methods: str = "mask-ri,mask-lc,mask-blc,ppo,ewc-mh"
    """Methods, separated by commas; `personae learn --help` tells them apart."""
    seeds: int = 5
    """How many agents to train side by side with each method."""
    first_seed: int = 0
    """Seed of the first agent; the others count on from it."""
    steps_per_task: int | None = None
    """Environment steps on each task, rounded up to whole iterations; the curriculum's
    own if left out."""
    cycles: int | None = None
    """How often all tasks come round; as the curriculum has it if left out."""
    out: Path | None = None
    """Directory to write to; runs/CURRICULUM if left out."""
    reference: str | None = None
    """Method that the others are tested against: mask-lc, or else the first."""
    jobs: int | None = None
    """How many runs to make at a time; what the machine has room for if left out."""
    on: str | None = None
    """A Ray cluster to make all runs on: ray for one of this machine, or an address,
    such as ray://HOST:10001. Its nodes share the output directory."""
    store: str | None = None
    """An fsspec URL that all nodes reach, such as s3://BUCKET/RUNS, if they share no
    folder; what is finished is brought to the output directory."""
    quiet: bool = False
    """Show no progress, only the tables."""

    def __call__(self) -> None:
        """Run the command."""
        methods = [name.strip() for name in self.methods.split(",")]
        curriculum = with_preset(self.curriculum, self, methods, self.cycles)
        out = self.out or Path("runs") / curriculum.short_name
        comparison = compare(
            curriculum,
            methods,
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            steps_per_task=self.steps_per_task,
            out=out,
            reference=self.reference,
            jobs=max_parallel_jobs(self.seeds) if self.jobs is None else self.jobs,
            quiet=self.quiet,
            on=self.on,
            store=self.store,
        )
        show_comparison(comparison, out)
