"""`personae learn`."""

from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from personae.api import learn
from personae.cli.console import OUTPUT, say
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
    """mask-ri: each mask from scratch; mask-lc: composed with all earlier masks at
    equal weights; mask-blc: composed, the new mask with half of the weight;
    mask-ri-top-k: a fixed share of weights on. Baselines, one trained network: ppo
    or impala (fine-tuning, by the learner), expert (a new one per task), ewc-sh and
    ewc-mh (elastic weight consolidation, one head or one per task), l2, packnet,
    online-ewc, progress-compress, and clear (which remembers old experience)."""
    seeds: int = 1
    """How many agents to train side by side."""
    first_seed: int = 0
    """Seed of the first agent; the others count on from it."""
    steps_per_task: int | None = None
    """Environment steps on each task, rounded up to whole iterations; the curriculum's
    own if left out."""
    cycles: int | None = None
    """How often all tasks come round; as the curriculum has it if left out."""
    out: Path | None = None
    """Directory to write to; runs/CURRICULUM-METHOD if left out."""
    resume: bool = False
    """Go on with the run in the output directory, or start it if there is none."""
    overwrite: bool = False
    """Delete the run in the output directory first."""
    quiet: bool = False
    """Show no progress and no table, only where the results are."""
    warm_start: Path | None = None
    """An agent to go on from, for masks: a file of `personae policy export
    --with-scores`, or a run directory. New masks are composed with its masks."""
    devices: int | None = None
    """How many devices to spread agents over: GPUs, or cores; all if left out."""
    on: str | None = None
    """A Ray cluster to act on, for IMPALA in environments outside JAX: ray for one of
    this machine, or an address, such as ray://HOST:10001."""
    actors: int | None = None
    """How many act there, each in environments of its own (--hosting.actors)."""
    log_to: str = ""
    """Where else the metrics go: tensorboard, wandb, or both with a comma."""

    def __call__(self) -> None:
        """Run the command."""
        curriculum = with_preset(self.curriculum, self, [self.method], self.cycles)
        if self.actors is not None:
            require(
                self.on is not None or curriculum.hosting.stepping == "threads",
                "--actors act on a cluster or in threads: say --on, or "
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
            log_to=[name.strip() for name in self.log_to.split(",") if name.strip()],
        )
        picture = save_figure(lifelong_curves([record]), out / "lifelong.png")
        if not self.quiet:
            OUTPUT.print(task_table(record).to_rich())
        say(OUTPUT, total_line(record))
        say(OUTPUT, f"picture: {picture}")
