"""`personae learn`."""

from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from personae.api import learn
from personae.cli.console import OUTPUT, Switch, names_in, say
from personae.cli.preset import with_preset
from personae.curricula import Preset
from personae.errors import require
from personae.report import lifelong_curves, save_figure, task_table, total_line


@dataclass(frozen=True)
class Learn(Preset):
    """Learn a curriculum, task after task, with one agent per seed.

    Give the curriculum first: `personae learn ct8 --help` then shows its preset.
    Example: personae learn ct8 --method mask-blc --seeds 5 --out runs/ct8-blc
    """

    curriculum: tyro.conf.Positional[str]
    """A name that `personae curricula` lists, or a .toml or .json file."""
    method: str = "mask-blc"
    """Lifelong method. With masks: mask-ri learns each mask from scratch; mask-lc
    composes it with all previous masks at equal weights; mask-blc composes it with half
    of the weight on the new mask; mask-ri-top-k switches on a fixed share of weights.
    Baselines with one trained network: ppo or impala (fine-tuning, named after the
    learner), expert (a new network per task), ewc-sh and ewc-mh (elastic weight
    consolidation with one head or one per task), l2, packnet, online-ewc,
    progress-compress, and clear (with a replay of old experience)."""
    seeds: int = 1
    """Number of agents to train side by side."""
    first_seed: int = 0
    """Seed of the first agent. The others have the seeds that follow it."""
    steps_per_task: int | None = None
    """Environment steps on each task, rounded up to whole iterations. By default they
    are the curriculum's own."""
    cycles: int | None = None
    """Number of times that all tasks are visited. By default it is the curriculum's
    own."""
    out: Path | None = None
    """Directory to write to. By default it is runs/CURRICULUM-METHOD."""
    resume: Switch = False
    """Continue the run in the output directory, or start it if there is none."""
    overwrite: Switch = False
    """Delete the run in the output directory first."""
    quiet: Switch = False
    """Show no progress and no table, only the paths of the results."""
    warm_start: Path | None = None
    """An agent to continue from, for mask methods: a file of `personae policy export
    --with-scores`, or a run directory. New masks are composed with its masks."""
    devices: int | None = None
    """Number of devices to spread agents over: GPUs, or cores. By default all are
    used."""
    on: str | None = None
    """A Ray cluster to act on, for IMPALA in environments outside JAX: ray for one on
    this machine, or an address such as ray://HOST:10001."""
    actors: int | None = None
    """Number of actors on the cluster, each with environments of its own
    (--hosting.actors)."""
    log_to: str = ""
    """Other places to write metrics to: tensorboard, wandb, or both with a comma."""

    def __call__(self) -> None:
        """Run the command."""
        curriculum = with_preset(self.curriculum, self, [self.method], self.cycles)
        if self.actors is not None:
            # Elsewhere the number would be ignored without a word.
            require(
                self.on is not None or curriculum.hosting.stepping == "threads",
                "--actors are for a cluster or for threads: add --on, or "
                "--hosting.stepping threads",
            )
            hosting = replace(curriculum.hosting, actors=self.actors)
            curriculum = replace(curriculum, hosting=hosting)
        out = self.out or Path("runs") / f"{curriculum.short_name}-{self.method}"
        record = learn(
            curriculum,
            self.method,
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            steps_per_task=self.steps_per_task,
            out=out,
            resume=self.resume,
            overwrite=self.overwrite,
            quiet=self.quiet,
            warm_start=self.warm_start,
            devices=self.devices,
            on=self.on,
            log_to=names_in(self.log_to),
        )
        picture = save_figure(lifelong_curves([record]), out / "lifelong.png")
        if not self.quiet:
            OUTPUT.print(task_table(record).to_rich())
        say(OUTPUT, total_line(record))
        say(OUTPUT, f"picture: {picture}")
