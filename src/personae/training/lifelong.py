"""Algorithm 1: one task after another, each trained, evaluated, consolidated, kept."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from personae.backbones.weights import fingerprint
from personae.curricula.spec import Curriculum
from personae.errors import PersonaeError, UsageError, require
from personae.methods.registry import make_method
from personae.plain import to_plain
from personae.rundir import RunDirectory, write_tensors
from personae.training.checkpoint import Checkpoints, Position
from personae.training.device import Agent, ChunkResult
from personae.training.programs import Programs
from personae.training.progress import Moment, Reporter, Show
from personae.training.provenance import provenance


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    curriculum: Curriculum
    method: str
    seeds: tuple[int, ...]


class Run:
    """A lifelong run of several agents, writing to one directory."""

    def __init__(self, config: RunConfig, directory: RunDirectory, reporter: Reporter):
        self.config = config
        self.curriculum = config.curriculum
        method = make_method(config.method, config.curriculum.masks)
        self.programs = Programs(config.curriculum, method, config.seeds)
        self.directory = directory
        self.reporter = reporter
        self.checkpoints = Checkpoints(directory.checkpoints, to_plain(config))
        self.stopwatch = Stopwatch()

    def learn(self) -> None:
        """Live through the whole curriculum, from the last checkpoint if any."""
        position = self.checkpoints.latest() or Position.start()
        self.directory.truncate_metrics(position.metrics_length)
        with self.reporter as show:
            fresh = position == Position.start()
            agents = self._first_visit() if fresh else self._restore(position)
            for visit in range(position.visit, len(self.curriculum.visits)):
                if visit > position.visit:
                    agents = self._next_visit(agents, visit)
                    position = position._replace(visit=visit, chunk=0)
                agents, position = self._train(agents, position, show)
                self._keep(agents, visit)
        self._finish(position)

    def _first_visit(self) -> Agent:
        state = self.programs.init()
        fixed = self.programs.fixed(state)
        prints = [
            fingerprint({name: array[agent] for name, array in fixed.items()})
            for agent in range(len(self.config.seeds))
        ]
        write_tensors(self.directory.backbone_file, fixed, {"fingerprints": prints})
        self.directory.write_run(
            {
                "status": "running",
                "config": to_plain(self.config),
                "fingerprints": prints,
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                **provenance(),
            }
        )
        return self._begin(state, 0)

    def _next_visit(self, agents: Agent, visit: int) -> Agent:
        return self._begin(self.programs.end(agents, self._learned(visit)), visit)

    def _begin(self, state: Any, visit: int) -> Agent:
        agents = self.programs.begin(state, visit, self._learned(visit))
        self.checkpoints.save_visit(visit, self.programs.lanes.fetch(agents.method))
        return agents

    def _restore(self, position: Position) -> Agent:
        visit, programs = position.visit, self.programs
        shapes = jax.eval_shape(
            lambda: programs.begin(programs.init(), visit, self._learned(visit))
        )
        shapes = programs.lanes.shapes_of_agents(shapes)
        agents = self.checkpoints.load(position, shapes.method, shapes.live)
        return programs.lanes.place(Agent(*agents))

    def _train(
        self, agents: Agent, position: Position, show: Show
    ) -> tuple[Agent, Position]:
        """Train one visit to its end, chunk by chunk."""
        for iterations in self._chunks(position.visit)[position.chunk :]:
            before = position
            agents, result = self.programs.chunk(agents, position.visit, iterations)
            self._check_finite(result, position)
            position = self._record(result, position, iterations)
            live = self.programs.lanes.fetch(agents.live)
            self.checkpoints.save_chunk(position, live)
            show(self._moment(result, before, position))
        return agents, position

    def _chunks(self, visit: int) -> list[int]:
        """Return the iterations of each chunk of a visit; the last may be shorter."""
        steps = self.curriculum.steps_of(self.curriculum.visits[visit])
        iterations = math.ceil(steps / self._steps_per_iteration)
        full, rest = divmod(iterations, self.curriculum.evaluation.interval)
        return [self.curriculum.evaluation.interval] * full + [rest] * (rest > 0)

    @property
    def _steps_per_iteration(self) -> int:
        return self.curriculum.ppo.num_envs * self.curriculum.ppo.rollout_length

    def _learned(self, visit: int) -> int:
        """Count the different tasks learned before a visit."""
        return len(set(self.curriculum.visits[:visit]))

    def _check_finite(self, result: ChunkResult, position: Position) -> None:
        for name, values in result.metrics.items():
            for agent, iteration in np.argwhere(~np.isfinite(values))[:1]:
                raise PersonaeError(
                    f"{name} of seed {self.config.seeds[agent]} is "
                    f"{values[agent, iteration]} at iteration "
                    f"{position.iteration + int(iteration) + 1} of the run; the last "
                    "checkpoint was taken before it"
                )

    def _record(
        self, result: ChunkResult, position: Position, iterations: int
    ) -> Position:
        """Append a chunk to the metrics; return the position after it."""
        task = self.curriculum.tasks[self.curriculum.visits[position.visit]].name
        done = sum(self._chunks(position.visit)[: position.chunk])
        records: list[dict[str, Any]] = []
        for i in range(iterations):
            values = {name: _rounded(v[:, i]) for name, v in result.metrics.items()}
            records.append(
                {
                    "kind": "train",
                    "visit": position.visit,
                    "task": task,
                    "iteration": position.iteration + i + 1,
                    "step": (done + i + 1) * self._steps_per_iteration,
                    **values,
                }
            )
        iteration = position.iteration + iterations
        records.append(
            {
                "kind": "evaluation",
                "visit": position.visit,
                "task": task,
                "iteration": iteration,
                "step": iteration * self._steps_per_iteration,
                "returns": [_rounded(agent) for agent in result.evaluation.mean(-1)],
            }
        )
        return Position(
            visit=position.visit,
            chunk=position.chunk + 1,
            total_chunks=position.total_chunks + 1,
            iteration=iteration,
            metrics_length=self.directory.append_metrics(records),
            seconds=position.seconds + self.stopwatch.lap(),
        )

    def _moment(self, result: ChunkResult, before: Position, now: Position) -> Moment:
        num_visits = len(self.curriculum.visits)
        total = sum(sum(self._chunks(visit)) for visit in range(num_visits))
        steps = self._steps_per_iteration
        per_iteration = now.seconds / now.iteration
        last = (now.seconds - before.seconds) / (now.iteration - before.iteration)
        return Moment(
            visit=now.visit + 1,
            num_visits=num_visits,
            task=self.curriculum.tasks[self.curriculum.visits[now.visit]].name,
            steps=now.iteration * steps,
            total_steps=total * steps,
            training_return=float(result.metrics["return"][:, -1].mean()),
            evaluation=float(result.evaluation.mean(-1).sum(-1).mean()),
            best_evaluation=sum(task.target for task in self.curriculum.tasks),
            steps_per_second=steps * len(self.config.seeds) / last,
            seconds_left=per_iteration * (total - now.iteration),
        )

    def _keep(self, agents: Agent, visit: int) -> None:
        """Write what the visit learned, and the fingerprints of its backbones."""
        task = self.curriculum.tasks[self.curriculum.visits[visit]].name
        metadata = {
            "task": task,
            "visit": visit,
            "seeds": self.config.seeds,
            "fingerprints": self.directory.read_run()["fingerprints"],
        }
        path = self.directory.mask_file(visit, task)
        write_tensors(path, self.programs.export(agents), metadata)

    def _finish(self, position: Position) -> None:
        seconds = round(position.seconds + self.stopwatch.lap(), 3)
        wall = {"total": seconds, "compilation": round(self.stopwatch.compilation, 3)}
        run = self.directory.read_run()
        self.directory.write_run(run | {"status": "finished", "seconds": wall})


class Stopwatch:
    """Measures a run, and the compilation since it was started or resumed."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._compiled_before = sum(COMPILATIONS)

    @property
    def compilation(self) -> float:
        """Seconds of compilation since the stopwatch was started."""
        return sum(COMPILATIONS) - self._compiled_before

    def lap(self) -> float:
        """Return the seconds since the last call."""
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        return seconds


COMPILATIONS: list[float] = []
"""Seconds of every compilation of this process."""


def _note_compilation(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event.endswith("backend_compile_duration"):
        COMPILATIONS.append(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_note_compilation)


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def start(
    config: RunConfig,
    directory: RunDirectory,
    reporter: Reporter,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> None:
    """Learn in a directory, unless it holds a run that nobody asked to touch."""
    require(not (resume and overwrite), "choose one of --resume and --overwrite")
    run = Run(config, directory, reporter)
    if overwrite:
        directory.clear()
    if directory.exists():
        require(
            resume,
            f"{directory.root} already holds a run; choose another --out, or say "
            "--resume to go on with it, or --overwrite to lose it",
        )
        stored = directory.read_run()
        _check_same_config(stored["config"], to_plain(config))
        if stored["status"] == "finished":
            return
    run.learn()


def _check_same_config(
    stored: Mapping[str, Any], asked: Mapping[str, Any], where: str = "config"
) -> None:
    """Refuse to resume a run with another configuration; name the first difference."""
    for name in sorted({*stored, *asked}):
        old, new = stored.get(name), asked.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            _check_same_config(old, new, f"{where}.{name}")
        elif old != new:
            raise UsageError(
                f"cannot resume: {where}.{name} was {old!r} when the run began, "
                f"now it is {new!r}"
            )
