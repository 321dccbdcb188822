"""Algorithm 1: one task after another, each trained, evaluated, consolidated, kept."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np

from personae.backbones.weights import fingerprint
from personae.errors import PersonaeError, require
from personae.files import write_atomically, write_tensors
from personae.methods.contract import ReplaySpec
from personae.policy.jax.warm_start import (
    apply_warm_start,
    num_warm_start_masks,
    read_warm_start,
)
from personae.rollouts.preview import Preview
from personae.runs.backlog import Backlog
from personae.runs.checkpoints import CHECKPOINTS_KEPT, Checkpoints, Position
from personae.runs.directory import RunDirectory
from personae.runs.journal import (
    actor_record,
    evaluation_record,
    preview_record,
    train_records,
)
from personae.runs.progress import Progress, Reporter, Show
from personae.runs.provenance import provenance
from personae.runs.replay import GradientSampling, ReplayStore, check_disk_space
from personae.runs.resume import (
    check_nothing_is_lost,
    check_same_backbones,
    check_same_config,
    warn_of_changes,
)
from personae.runs.signals import Interrupt
from personae.runs.sinks import check_sinks, open_sinks
from personae.runs.stopwatch import Stopwatch
from personae.serialise import PlainData
from personae.training.callbacks import Callback, EvaluationEvent, StopAtTarget
from personae.training.config import RunConfig
from personae.training.factory import make_programs
from personae.training.host_trainer import MakePlayers
from personae.training.restore import restore_agents
from personae.training.update import Agent, BetweenTasks, ChunkResult, TrainState

MOST_COMPILERS = 4
"""Programs compiled at a time, beside the training."""


class Run:
    """A lifelong run of several agents, writing to one directory."""

    def __init__(
        self,
        config: RunConfig,
        directory: RunDirectory,
        reporter: Reporter,
        log_to: Sequence[str] = (),
        callbacks: Sequence[Callback] = (),
        warm_start: bytes | None = None,
        devices: int | None = None,
        make_players: MakePlayers | None = None,
    ):
        check_sinks(log_to)
        self.log_to = log_to
        self.config = config
        self.curriculum = config.curriculum
        method = config.make_method()
        if config.warm_start is not None:
            data = read_warm_start(directory) if warm_start is None else warm_start
            method = apply_warm_start(
                method, config.curriculum, data, config.warm_start
            )
        self._masks_before = num_warm_start_masks(method)
        self.traits = method.traits
        self.programs = make_programs(
            config.curriculum, method, config.seeds, devices, make_players
        )
        self.schedule = config.make_schedule()
        # Bad settings are found here, before any file is touched.
        self.programs.check()
        self.directory = directory
        self.reporter = reporter
        tasks = config.curriculum.tasks
        wanted = {task.name: task.stop_at for task in tasks if task.stop_at is not None}
        self.callbacks = [*([StopAtTarget(wanted)] if wanted else []), *callbacks]
        self.checkpoints = Checkpoints(directory.checkpoints, config.to_plain())
        self.interrupt = Interrupt()
        self.stopwatch = Stopwatch()
        self._backlog = Backlog(self.programs.evaluators)
        self._preview: Preview | None = None

    def learn(self) -> None:
        """TrainState through the whole curriculum, from the last checkpoint if any."""
        position = self.checkpoints.latest() or Position.start()
        fresh = position == Position.start()
        if self.traits.replay is not None:
            self._open_memory(self.traits.replay, fresh)
        ahead = self._compile_ahead(range(position.visit + 1, self.schedule.num_visits))
        worlds = closing(self.programs)
        with self.reporter as show, self.interrupt, worlds, ahead:
            agents = self._first_visit() if fresh else self._restore(position)
            sinks = open_sinks(self.log_to, self.directory, self.config.seeds)
            # What is being saved needs sinks, and the worlds' memories.
            with sinks as log, self._beside():
                self._log = log
                for visit in range(position.visit, self.schedule.num_visits):
                    if visit > position.visit:
                        agents, position = self._next_visit(agents, position)
                    agents, position = self._train(agents, position, show)
                    self._keep(agents, visit)
        self._finish(position)
        if self.interrupt.requested:  # too late to stop this run, but not the next one
            raise KeyboardInterrupt

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Wait for what is evaluated and saved beside the training, in the end.

        Who stops a run has waited for it already, or does not want to.
        """
        wait = True
        try:
            yield
        except KeyboardInterrupt:
            wait = False
            raise
        finally:
            self._backlog.close(wait)

    def _open_memory(self, replay: ReplaySpec, fresh: bool) -> None:
        """Let agents remember, if there is room for it."""
        if fresh:
            self.directory.delete_replay()
        config, programs, folder = self.config, self.programs, self.directory.replay
        learner = config.curriculum.chosen_learner
        form = programs.kept_form(programs.agents_shapes(0, 0))
        chunks = map(self.schedule.chunks, range(self.schedule.num_visits))
        longest = max(map(max, chunks)) * learner.num_envs
        visits = map(self.schedule.chunks, range(self.schedule.num_visits))
        looking = GradientSampling(
            programs.rollouts_of(replay.gradient_batches) * learner.num_envs,
            min(map(sum, visits)) * learner.num_envs,
        )
        # Beside checkpoints, those that are being judged and saved.
        in_flight = CHECKPOINTS_KEPT + programs.evaluators
        check_disk_space(folder, replay, form, longest, in_flight, looking)
        owner = {
            "curriculum": config.curriculum.id,
            "method": config.method,
            "seeds": list(config.seeds),
            "unroll_length": learner.rollout_length,
        }
        number = learner.num_envs
        programs.memory = ReplayStore(
            folder, replay, form, number, owner, in_flight, looking
        )

    @contextmanager
    def _compile_ahead(self, visits: Sequence[int]) -> Iterator[None]:
        """Compile what later visits need beside the training of earlier ones."""
        workers = min(max(self.programs.lanes.spare_cores, 1), MOST_COMPILERS)
        compiler, schedule = ThreadPoolExecutor(workers), self.schedule
        try:
            for visit in visits:
                learned, then = schedule.learned(visit), schedule.learned(visit + 1)
                chunks = schedule.chunks(visit)
                compiler.submit(self.programs.prepare, visit, learned, chunks, then)
            yield
        finally:
            compiler.shutdown(wait=False, cancel_futures=True)

    def _first_visit(self) -> Agent:
        check_nothing_is_lost(self.directory)
        self.directory.truncate_metrics(0)
        resting = self.interrupt.call(self.programs.init)
        fixed = self.interrupt.call(self.programs.fixed, resting.method)
        prints = self._fingerprints(fixed)
        write_tensors(self.directory.backbone_file, fixed, {"fingerprints": prints})
        self.directory.write_run(
            {
                "status": "running",
                "config": self.config.to_plain(),
                "fingerprints": prints,
                **provenance(),
            }
        )
        return self._begin(resting, Position.start())

    def _next_visit(self, agents: Agent, position: Position) -> tuple[Agent, Position]:
        replay = self.traits.replay
        if self.traits.accumulates_gradient:
            agents = self._review(agents, position)
        elif (
            replay is not None and replay.gradient_batches and not replay.between_phases
        ):
            agents = self._review_memories(agents, position)
        position = position._replace(
            visit=position.visit + 1, chunk=0, state=position.total_chunks, over=False
        )
        learned = self.schedule.learned(position.visit)
        resting = self.interrupt.call(self.programs.end, agents, learned)
        return self._begin(resting, position), position

    def _begin(self, resting: BetweenTasks, position: Position) -> Agent:
        learned = self.schedule.learned(position.visit)
        agents, preview = self.interrupt.call(
            self.programs.begin, resting, position.visit, learned
        )
        self._preview = self.programs.lanes.fetch(preview)
        self._save_state(agents, position)
        return agents

    def _save_state(self, agents: Agent, position: Position) -> None:
        state = self.programs.lanes.fetch(agents.method)
        self.checkpoints.save_state(position.state, state)

    def _review(self, agents: Agent, position: Position) -> Agent:
        """Let the method look back on the visit that has just ended."""
        visit, before = position.visit, position.total_chunks - position.chunk
        chunks = self.schedule.chunks(visit)[: position.chunk]
        for chunk, iterations in enumerate(chunks):
            shapes = self.programs.experience_shapes(agents, visit, iterations)
            part = self.checkpoints.load_experience(before + chunk + 1, shapes)
            agents = self.interrupt.call(
                self.programs.accumulate_gradient, agents, visit, chunk, part
            )
        return agents

    def _review_memories(self, agents: Agent, position: Position) -> Agent:
        """Let the method look back on some of what it remembers."""
        memory, replay = self.programs.memory, self.traits.replay
        assert memory is not None
        assert replay is not None
        for part in range(self.programs.rollouts_of(replay.gradient_batches)):
            recalled = jax.tree.map(
                lambda leaf: leaf[:, None], memory.sample_for_gradient(part)
            )
            agents = self.interrupt.call(
                self.programs.accumulate_gradient,
                agents,
                position.visit,
                part,
                recalled,
            )
        return agents

    def _restore(self, position: Position) -> Agent:
        learned = self.schedule.learned(position.visit)
        agents = restore_agents(self.programs, self.checkpoints, position, learned)
        expected = self.directory.read_run()["fingerprints"]
        fixed = self.interrupt.call(self.programs.fixed, agents.method)
        found = self._fingerprints(fixed)
        check_same_backbones(expected, found, self.directory.checkpoints)
        self.directory.truncate_metrics(position.metrics_length)
        self._note_resumption()
        if self.programs.memory is not None:
            memories = self.checkpoints.load_replay(position.total_chunks)
            self.programs.memory.restore(*memories)
        saved = self.checkpoints.load_envs(position.total_chunks)
        self.interrupt.call(self.programs.resume_worlds, position.visit, saved)
        return agents

    def _fingerprints(self, fixed: Mapping[str, np.ndarray]) -> list[str]:
        return [
            fingerprint({name: array[agent] for name, array in fixed.items()})
            for agent in range(len(self.config.seeds))
        ]

    def _note_resumption(self) -> None:
        """Record where the run goes on; say so if it is not where it was before."""
        run, here = self.directory.read_run(), provenance()
        resumed = run.get("resumed", [])
        warn_of_changes((resumed or [run])[-1], here)
        self.directory.write_run(run | {"resumed": [*resumed, here]})

    def _train(
        self, agents: Agent, position: Position, show: Show
    ) -> tuple[Agent, Position]:
        """Train one visit to its end, chunk by chunk; save each beside the next."""
        for iterations in self.schedule.chunks(position.visit)[position.chunk :]:
            if position.over:
                break
            if self.schedule.changes_phase(position.visit, position.chunk):
                agents, position = self._next_phase(agents, position)
            agents, result = self.interrupt.call(
                self.programs.chunk, agents, position.visit, iterations
            )
            with self.stopwatch.saving():
                self._backlog.make_room()
            if self.programs.memory is not None:
                self.programs.memory.release_slots()
            self._check_finite(result, position)
            if self.callbacks:  # which hear of the evaluation, and may end the task
                result = self.interrupt.call(result.judged)
            before, position = position, self._advance(position, iterations)
            position = position._replace(over=self._tell(result, position))
            save = partial(self._save, agents.live, before, position, show)
            self._backlog.add(result.judged, save)
            if self.interrupt.requested:
                self._await_saving()
                raise KeyboardInterrupt
        self._await_saving()
        return agents, position

    def _next_phase(self, agents: Agent, position: Position) -> tuple[Agent, Position]:
        self._await_saving()
        replay = self.traits.replay
        if replay is not None and replay.gradient_batches and replay.between_phases:
            agents = self._review_memories(agents, position)
        agents = self.interrupt.call(self.programs.next_phase, agents)
        position = position._replace(state=position.total_chunks)
        self._save_state(agents, position)
        return agents, position

    def _advance(self, position: Position, iterations: int) -> Position:
        return position._replace(
            chunk=position.chunk + 1,
            total_chunks=position.total_chunks + 1,
            iteration=position.iteration + iterations,
            seconds=position.seconds + self.stopwatch.lap(),
        )

    def _save(
        self,
        live: TrainState,
        before: Position,
        now: Position,
        show: Show,
        result: ChunkResult,
    ) -> None:
        """Write a chunk to disk, then show it."""
        records = self._records(result, before, now)
        length = self.directory.append_metrics(records)
        self._log(records)
        position = now._replace(metrics_length=length)
        if result.experience is not None and now.visit + 1 < self.schedule.num_visits:
            self.checkpoints.save_experience(now.total_chunks, result.experience)
        if result.worlds is not None:
            self.checkpoints.save_envs(now.total_chunks, result.worlds)
        if result.memory is not None and self.programs.memory is not None:
            self.programs.memory.sync()
            self.checkpoints.save_replay(now.total_chunks, result.memory)
        self.checkpoints.save_chunk(position, self.programs.lanes.fetch(live))
        show(self._moment(result, before, now))

    def _records(
        self, result: ChunkResult, before: Position, now: Position
    ) -> list[PlainData]:
        """Return the records of a chunk."""
        schedule, steps = self.schedule, self.schedule.steps_per_iteration
        where = {"visit": now.visit, "task": schedule.task(now.visit)}
        records: list[PlainData] = []
        if before.chunk == 0 and self._preview is not None:
            preview = map(np.asarray, self._preview)
            records.append(preview_record(where, before.iteration, *preview))
        first_step = (sum(schedule.chunks(now.visit)[: before.chunk]) + 1) * steps
        metrics: Any = result.metrics
        records += train_records(
            metrics, where, before.iteration + 1, first_step, steps
        )
        if result.actors is not None:
            records.append(actor_record(where, now.iteration, result.actors))
        records.append(
            evaluation_record(
                where,
                now.iteration,
                now.iteration * steps,
                result.evaluation,
                result.success,
                result.unseen,
            )
        )
        return records

    def _tell(self, result: ChunkResult, position: Position) -> bool:
        """Tell callbacks of an evaluation; return whether one ends the visit."""
        if not self.callbacks:
            return False
        names = [task.name for task in self.curriculum.tasks]
        now = EvaluationEvent(
            position.visit,
            self.schedule.task(position.visit),
            position.iteration * self.schedule.steps_per_iteration,
            dict(zip(names, result.scores.T, strict=True)),
            result.training_scores[:, -1],
        )
        stops = [bool(callback.on_evaluation(now)) for callback in self.callbacks]
        require(
            not any(stops) or len(self.traits.phases) == 1,
            f"a callback ends task {now.task!r}, but {self.config.method} trains in "
            f"{len(self.traits.phases)} phases, none of which can be left out",
        )
        planned = len(self.schedule.chunks(position.visit))
        if any(stops) or position.chunk == planned:
            for callback in self.callbacks:
                callback.on_task_end(now)
        return any(stops)

    def _await_saving(self) -> None:
        """Wait until all chunks are safe on disk."""
        with self.stopwatch.saving():
            self._backlog.clear()

    def _check_finite(self, result: ChunkResult, position: Position) -> None:
        for name, values in result.metrics.items():
            for agent, iteration in np.argwhere(~np.isfinite(values))[:1]:
                raise PersonaeError(
                    f"{name} of seed {self.config.seeds[agent]} is "
                    f"{values[agent, iteration]} at iteration "
                    f"{position.iteration + int(iteration) + 1} of the run; the last "
                    "checkpoint was taken before it"
                )

    def _moment(self, result: ChunkResult, before: Position, now: Position) -> Progress:
        total, steps = self.schedule.iterations, self.schedule.steps_per_iteration
        per_iteration = now.seconds / now.iteration
        last = (now.seconds - before.seconds) / (now.iteration - before.iteration)
        floors = sum(task.floor or 0.0 for task in self.curriculum.tasks)
        return Progress(
            visit=now.visit + 1,
            num_visits=self.schedule.num_visits,
            task=self.schedule.task(now.visit),
            steps=now.iteration * steps,
            total_steps=total * steps,
            training_return=float(result.training_scores[:, -1].mean()),
            evaluation=float(result.scores.sum(-1).mean()) - floors,
            best_evaluation=sum(t.target for t in self.curriculum.tasks) - floors,
            steps_per_second=steps * len(self.config.seeds) / last,
            seconds_left=per_iteration * (total - now.iteration),
        )

    def _keep(self, agents: Agent, visit: int) -> None:
        """Write what the visit learned, and the fingerprints of its backbones."""
        task = self.schedule.task(visit)
        metadata = {
            "task": task,
            "visit": visit,
            "seeds": self.config.seeds,
            "fingerprints": self.directory.read_run()["fingerprints"],
            "warm_start_masks": self._masks_before,
        }
        path = self.directory.mask_file(visit, task)
        exported = self.interrupt.call(self.programs.export, agents)
        write_tensors(path, exported, metadata)

    def _finish(self, position: Position) -> None:
        total = round(position.seconds + self.stopwatch.lap(), 3)
        wall = {"total": total, **self.stopwatch.shares}
        run = self.directory.read_run()
        done = {"evaluations": position.total_chunks, "seconds": wall}
        self.directory.write_run(run | {"status": "finished", **done})
        self.directory.delete_replay()


def start(
    config: RunConfig,
    directory: RunDirectory,
    reporter: Reporter,
    *,
    resume: bool = False,
    overwrite: bool = False,
    log_to: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    warm_start: bytes | None = None,
    devices: int | None = None,
    make_players: MakePlayers | None = None,
) -> None:
    """Learn in a directory, unless it holds a run that nobody asked to touch.

    `earlier` is the agent that it goes on from, if it does and is new; `devices` are
    as many as agents are spread over, if not all there are; `make_players` gives what
    acts, if it is not what the curriculum says.
    """
    require(not (resume and overwrite), "choose one of --resume and --overwrite")
    run = Run(
        config,
        directory,
        reporter,
        log_to,
        callbacks,
        warm_start,
        devices,
        make_players,
    )
    with directory.lock():
        if overwrite:
            directory.clear()
        if directory.exists():
            require(
                resume,
                f"{directory.root} already holds a run; choose another --out, or say "
                "--resume to go on with it, or --overwrite to lose it (from Python: "
                "out=, resume=True, overwrite=True)",
            )
            check_same_config(directory, config.to_plain())
            if directory.finished:
                directory.delete_replay()  # if it was killed just before
                return
        elif warm_start is not None:
            write_atomically(directory.warm_start_file, warm_start)
        run.learn()
