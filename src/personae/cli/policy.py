"""`personae policy`, which handles agents as files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from personae.cli.console import OUTPUT, Switch, say
from personae.errors import nearest_match_error
from personae.files import write_atomically
from personae.policy import Agent, load
from personae.policy.card import write_folder
from personae.policy.onnx import to_onnx
from personae.policy.play import play
from personae.report import save_film
from personae.report.render.policy import layers_table, tasks_table


@dataclass(frozen=True)
class Export:
    """Write an agent of a run, with all its tasks, as one file.

    Example: personae policy export runs/demo --seed 0 --out agent.persona
    """

    run: tyro.conf.Positional[Path]
    """A run directory, which `personae learn` has written."""
    out: Path = Path("agent.persona")
    """The file to write."""
    seed: int | None = None
    """Seed of the agent. By default it is the first agent."""
    with_scores: Switch = False
    """Also write the scores of its masks. A new run can then continue from the agent,
    with `personae learn NEXT --warm-start FILE`."""
    half: Switch = False
    """Store continuous masks with 16 bits per weight, not with 32."""

    def __call__(self) -> None:
        """Run the command."""
        # Imported late: it needs JAX, which the other commands on policies do not.
        from personae.training.export import export_agent

        path = export_agent(
            self.run,
            self.out,
            seed=self.seed,
            with_scores=self.with_scores,
            half=self.half,
        )
        tasks = len(load(path).tasks)
        say(OUTPUT, f"{path}: {tasks} tasks, {path.stat().st_size / 1024:.1f} KiB")


@dataclass(frozen=True)
class Show:
    """Show the contents of an agent's file: tasks, sizes, densities, results.

    Example: personae policy show agent.persona
    """

    file: tyro.conf.Positional[Path]
    """The agent's file."""

    def __call__(self) -> None:
        """Run the command."""
        agent = load(self.file)
        manifest, size = agent.manifest, self.file.stat().st_size
        say(
            OUTPUT,
            f"{self.file}: {manifest.method} on {manifest.curriculum}, seed "
            f"{manifest.seed}; {size / 1024:.1f} KiB"
            + (", with scores" if manifest.scores else ""),
        )
        OUTPUT.print(tasks_table(agent).to_rich())
        OUTPUT.print(layers_table(agent).to_rich())


@dataclass(frozen=True)
class Play:
    """Play tasks with an agent from a file, with NumPy instead of JAX.

    Example: personae policy play agent.persona --task d3-000 --video
    """

    file: tyro.conf.Positional[Path]
    """The agent's file."""
    task: str | None = None
    """The task to play. By default all are played, one after another."""
    episodes: int = 1
    """Episodes of each task."""
    acting: Literal["as-learned", "greedy", "sample"] = "as-learned"
    """Choice of actions: greedy takes the most likely ones, sample draws them, and
    as-learned does the same as the evaluations of the agent's run."""
    seed: int = 0
    """Seed of the first episode."""
    env: str | None = None
    """Id of another environment to play in, without the file's options."""
    trust: Switch = False
    """Make the environments that the file names even if that may import modules or open
    files. Use it only for files of people you trust."""
    video: Switch = False
    """Film the first episode of each task, beside the file: AGENT-TASK.gif."""

    def __call__(self) -> None:
        """Run the command."""
        agent = load(self.file)
        if self.task is not None and self.task not in agent.tasks:
            raise nearest_match_error("task", self.task, agent.tasks)
        for task in agent.tasks if self.task is None else (self.task,):
            self._play(agent, task)

    def _play(self, agent: Agent, task: str) -> None:
        greedy = self.acting == "greedy"
        if self.acting == "as-learned":
            greedy = agent.manifest.greedy
        # Each episode has a seed of its own, by which it can be played again.
        for number in range(self.episodes):
            film = self.video and number == 0
            episode = play(
                agent,
                task,
                env_id=self.env,
                trust=self.trust,
                sample=not greedy,
                seed=self.seed + number,
                film=film,
            )
            cut = "" if episode.whole else ", and then it was cut"
            text = f"{task}: {episode.steps} steps, return {episode.total:.2f}{cut}"
            if film:
                path = self.file.with_name(f"{self.file.stem}-{task}.gif")
                text += f", {save_film(episode.frames, path)}"
            say(OUTPUT, text)


@dataclass(frozen=True)
class Onnx:
    """Write each task of an agent as an ONNX model, for any runtime.

    Example: personae policy onnx agent.persona --out models
    """

    file: tyro.conf.Positional[Path]
    """The agent's file."""
    out: Path = Path("onnx")
    """The folder to write TASK.onnx to."""
    task: str | None = None
    """The task to write. By default all are written."""

    def __call__(self) -> None:
        """Run the command."""
        agent = load(self.file)
        for task in agent.tasks if self.task is None else (self.task,):
            model = to_onnx(agent, task)
            path = self.out / f"{task}.onnx"
            write_atomically(path, model)
            say(OUTPUT, f"{path}: {len(model) / 1024:.1f} KiB")


@dataclass(frozen=True)
class Card:
    """Write a folder for model hubs: the agent, config.json and a model card.

    Example: personae policy card agent.persona --out my-agent
    """

    file: tyro.conf.Positional[Path]
    """The agent's file."""
    out: Path = Path("agent")
    """The folder to write to."""

    def __call__(self) -> None:
        """Run the command."""
        say(OUTPUT, f"{write_folder(load(self.file), self.file, self.out)}")


@dataclass(frozen=True)
class Policy:
    """Export an agent as one small, safe file; show, play or convert such a file.

    Example: personae policy export runs/demo --out agent.persona
    """

    command: tyro.conf.OmitArgPrefixes[
        tyro.conf.OmitSubcommandPrefixes[
            Annotated[Export, tyro.conf.subcommand("export")]
            | Annotated[Show, tyro.conf.subcommand("show")]
            | Annotated[Play, tyro.conf.subcommand("play")]
            | Annotated[Onnx, tyro.conf.subcommand("onnx")]
            | Annotated[Card, tyro.conf.subcommand("card")]
        ]
    ]

    def __call__(self) -> None:
        """Run the command."""
        self.command()
