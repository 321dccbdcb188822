"""Algorithm 1: one task after another is trained, evaluated and consolidated."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from functools import partial

import jax
import numpy as np

from personae.curricula.schedule import Schedule
from personae.errors import PersonaeError, require
from personae.files import write_atomically
from personae.methods.contract import ReplaySpec
from personae.policy.jax.warm_start import num_warm_start_masks
from personae.rollouts.contract import MakeActors
from personae.rollouts.evaluation import EvaluationResult
from personae.runs.backlog import Backlog
from personae.runs.checkpoints import CHECKPOINTS_KEPT, Position
from personae.runs.directory import RunDirectory
from personae.runs.progress import Reporter
from personae.runs.replay import GradientSampling, ReplayStore, check_disk_space
from personae.runs.resume import check_nothing_is_lost, check_same_config
from personae.runs.signals import Interrupt
from personae.runs.sinks import check_sinks, open_sinks
from personae.runs.stopwatch import Stopwatch
from personae.serialise import PlainData
from personae.training.callbacks import Callback, CallbackList
from personae.training.config import RunConfig, method_of
from personae.training.factory import check_settings, make_training
from personae.training.programs import experience_shapes, unroll_shapes
from personae.training.recorder import Outlets, Recorder
from personae.training.restore import restore_agents
from personae.training.state import Agent, BetweenTasks, Chunk

MAX_COMPILERS = 4
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
        make_actors: MakeActors | None = None,
    ):
        """Put the run together; bad settings are found before any file is touched."""
        check_sinks(log_to)
        self._config, self._directory, self._reporter = config, directory, reporter
        self._log_to = log_to
        curriculum = config.curriculum
        check_settings(curriculum)
        method = method_of(config, directory, warm_start)
        self._traits = method.traits
        self._schedule = Schedule(curriculum, method.traits.phases)
        self._training = make_training(
            curriculum, method, config.seeds, devices, make_actors
        )
        self._programs = self._training.programs
        self._programs.check()
        self._callbacks = CallbackList(config, self._schedule, callbacks)
        self._recorder = Recorder(
            config,
            self._schedule,
            directory,
            self._programs.sharding,
            num_warm_start_masks(method),
        )
        self._interrupt = Interrupt()
        self._stopwatch = Stopwatch()
        self._backlog = Backlog(self._training.max_pending)
        self._store: ReplayStore | None = None
        self._preview: list[PlainData] = []

    def learn(self) -> None:
        """Train the whole curriculum, from the last checkpoint if there is one."""
        position = self._recorder.checkpoints.latest() or Position.start()
        fresh = position == Position.start()
        if self._traits.replay is not None:
            if fresh:
                self._directory.delete_replay()
            self._store = self._open_store(self._traits.replay)
        stored = nullcontext() if self._store is None else closing(self._store)
        envs = closing(self._training)
        # Compiling took half of a run on a GPU before it went on beside the training.
        ahead = self._compile_ahead(
            range(position.visit + 1, self._schedule.num_visits)
        )
        with self._reporter as show, self._interrupt, stored, envs, ahead:
            # Inside the contexts: Ctrl-C during compilation has to be heard.
            agents = self._first_visit() if fresh else self._resume(position)
            sinks = open_sinks(self._log_to, self._directory, self._config.seeds)
            # Saving needs sinks and the replay store, so it ends before they close.
            with sinks as write, self._finish_backlog():
                outlets = Outlets(show, write)
                for visit in range(position.visit, self._schedule.num_visits):
                    if visit > position.visit:
                        agents, position = self._next_visit(agents, position)
                    agents, position = self._train(agents, position, outlets)
                    exported = self._interrupt.call(self._programs.export, agents)
                    self._recorder.save_masks(exported, visit)
        total = round(position.seconds + self._stopwatch.lap(), 3)
        seconds = {"total": total, **self._stopwatch.shares}
        self._recorder.finish_run(position, seconds)
        # Too late to stop this run, but not the next one.
        if self._interrupt.requested:
            raise KeyboardInterrupt

    @contextmanager
    def _finish_backlog(self) -> Iterator[None]:
        """Wait in the end for chunks that are evaluated and saved beside the training.

        After an interruption the run has waited already, or does not want to.
        """
        wait = True
        try:
            yield
        except KeyboardInterrupt:
            wait = False
            raise
        finally:
            self._backlog.close(wait)

    def _open_store(self, replay: ReplaySpec) -> ReplayStore:
        """Open the replay store, if there is room for it on the disk."""
        config, programs, folder = self._config, self._programs, self._directory.replay
        learner = config.curriculum.chosen_learner
        # Only shapes: the store must exist before the first agent does.
        shapes = programs.agent_shapes(0, 0)
        updated = self._training.trainer.update_shapes(shapes, 0)
        unroll = unroll_shapes(programs.sharding, updated)
        visits = [self._schedule.chunks(v) for v in range(self._schedule.num_visits)]
        longest_chunk = max(map(max, visits)) * learner.num_envs
        sampling = GradientSampling(
            self._gradient_rollouts(replay) * learner.num_envs,
            min(map(sum, visits)) * learner.num_envs,
        )
        # Unrolls of checkpoints, and of chunks that are being evaluated and saved.
        in_flight = CHECKPOINTS_KEPT + self._training.max_pending
        check_disk_space(folder, replay, unroll, longest_chunk, in_flight, sampling)
        owner = {
            "curriculum": config.curriculum.id,
            "method": config.method,
            "seeds": list(config.seeds),
            "unroll_length": learner.rollout_length,
        }
        number = learner.num_envs
        return ReplayStore(folder, replay, unroll, number, owner, in_flight, sampling)

    def _gradient_rollouts(self, replay: ReplaySpec) -> int:
        """Return how many rollouts `gradient_batches` are cut from, at least one."""
        batches = self._config.curriculum.chosen_learner.batches_per_rollout
        return max(1, round(replay.gradient_batches / batches))

    @contextmanager
    def _compile_ahead(self, visits: Sequence[int]) -> Iterator[None]:
        """Compile the programs of later visits beside the training of earlier ones."""
        spare_cores = self._programs.sharding.spare_cores
        compiler = ThreadPoolExecutor(min(max(spare_cores, 1), MAX_COMPILERS))
        try:
            for visit in visits:
                compiler.submit(self._prepare, visit)
            yield
        finally:
            compiler.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, visit: int) -> None:
        learned, learned_after = map(self._schedule.learned, (visit, visit + 1))
        # In the order of their use: a short visit must not wait for the others.
        agents = self._programs.prepare_begin(visit, learned)
        self._training.trainer.prepare(agents, visit, self._schedule.chunks(visit))
        self._programs.prepare_end(agents, learned_after)

    def _first_visit(self) -> Agent:
        check_nothing_is_lost(self._directory)
        between_tasks = self._interrupt.call(self._programs.init)
        fixed = self._interrupt.call(self._programs.fixed, between_tasks.method_state)
        self._recorder.begin_run(fixed)
        return self._begin(between_tasks, Position.start())

    def _next_visit(self, agents: Agent, position: Position) -> tuple[Agent, Position]:
        replay = self._traits.replay
        if self._traits.accumulates_gradient:
            agents = self._accumulate_gradient(agents, position)
        elif replay is not None and not replay.between_phases:
            agents = self._accumulate_from_store(agents, position)
        position = position._replace(
            visit=position.visit + 1, chunk=0, state=position.total_chunks, over=False
        )
        learned = self._schedule.learned(position.visit)
        between_tasks = self._interrupt.call(self._programs.end, agents, learned)
        return self._begin(between_tasks, position), position

    def _begin(self, between_tasks: BetweenTasks, position: Position) -> Agent:
        if self._store is not None:
            self._store.begin_visit()
        visit, learned = position.visit, self._schedule.learned(position.visit)
        agents, preview = self._interrupt.call(
            self._programs.begin, between_tasks, visit, learned
        )
        self._interrupt.call(self._training.begin_visit, visit)
        self._preview = self._recorder.preview_records(preview, position)
        self._recorder.save_state(agents, position)
        return agents

    def _accumulate_gradient(self, agents: Agent, position: Position) -> Agent:
        """Let the method look back on all experience of the visit that has ended."""
        visit, before = position.visit, position.total_chunks - position.chunk
        updated = self._training.trainer.update_shapes(agents, visit)
        chunks = self._schedule.chunks(visit)[: position.chunk]
        for number, iterations in enumerate(chunks):
            shapes = experience_shapes(self._programs.sharding, updated, iterations)
            part = self._recorder.checkpoints.load_experience(
                before + number + 1, shapes
            )
            agents = self._interrupt.call(
                self._programs.accumulate_gradient, agents, visit, number, part
            )
        return agents

    def _accumulate_from_store(self, agents: Agent, position: Position) -> Agent:
        """Let the method look back on a sample of its replay, if it does so."""
        store, replay = self._store, self._traits.replay
        if store is None or replay is None or not replay.gradient_batches:
            return agents
        for number in range(self._gradient_rollouts(replay)):
            unrolls = store.sample_for_gradient(number)
            part = jax.tree.map(lambda leaf: leaf[:, None], unrolls)
            agents = self._interrupt.call(
                self._programs.accumulate_gradient,
                agents,
                position.visit,
                number,
                part,
            )
        return agents

    def _resume(self, position: Position) -> Agent:
        checkpoints, chunks = self._recorder.checkpoints, position.total_chunks
        learned = self._schedule.learned(position.visit)
        agents = restore_agents(self._programs, checkpoints, position, learned)
        fixed = self._interrupt.call(self._programs.fixed, agents.method_state)
        self._recorder.resume_run(position, fixed)
        if self._store is not None:
            self._store.restore(*checkpoints.load_replay(chunks))
        snapshot = checkpoints.load_envs(chunks)
        self._interrupt.call(self._training.resume_envs, position.visit, snapshot)
        return agents

    def _train(
        self, agents: Agent, position: Position, outlets: Outlets
    ) -> tuple[Agent, Position]:
        """Train one visit to its end, chunk by chunk; save each beside the next."""
        for iterations in self._schedule.chunks(position.visit)[position.chunk :]:
            if position.over:
                break
            if self._schedule.changes_phase(position.visit, position.chunk):
                agents, position = self._next_phase(agents, position)
            agents, chunk = self._interrupt.call(
                self._training.trainer.chunk,
                agents,
                position.visit,
                iterations,
                self._store,
            )
            # After the chunk is trained, so that saving and training overlap.
            with self._stopwatch.saving():
                self._backlog.make_room()
            if self._store is not None:
                self._store.release_slots()
            self._check_finite(chunk, position)
            if self._callbacks:
                # They need the evaluation, and may end the task.
                result = self._interrupt.call(chunk.evaluate)
                chunk = chunk._replace(evaluate=partial(_identity, result))
            before, position = position, self._advance(position, iterations)
            if self._callbacks:
                over = self._callbacks.on_evaluation(position, chunk)
                position = position._replace(over=over)
            self._add_to_backlog(agents, chunk, before, position, outlets)
            if self._interrupt.requested:
                self._await_backlog()
                raise KeyboardInterrupt
        self._await_backlog()
        return agents, position

    def _add_to_backlog(
        self,
        agents: Agent,
        chunk: Chunk,
        before: Position,
        position: Position,
        outlets: Outlets,
    ) -> None:
        """Have a chunk evaluated, if it is not yet, and saved."""
        preview = self._preview if before.chunk == 0 else []

        def save(result: EvaluationResult) -> None:
            self._recorder.save_chunk(
                agents.train,
                chunk,
                result,
                before,
                position,
                preview,
                self._store,
                outlets,
            )

        self._backlog.add(chunk.evaluate, save)

    def _next_phase(self, agents: Agent, position: Position) -> tuple[Agent, Position]:
        # A phase changes the method's state, which pending chunks still refer to.
        self._await_backlog()
        replay = self._traits.replay
        if replay is not None and replay.between_phases:
            agents = self._accumulate_from_store(agents, position)
        agents = self._interrupt.call(self._programs.next_phase, agents)
        position = position._replace(state=position.total_chunks)
        self._recorder.save_state(agents, position)
        return agents, position

    def _advance(self, position: Position, iterations: int) -> Position:
        return position._replace(
            chunk=position.chunk + 1,
            total_chunks=position.total_chunks + 1,
            iteration=position.iteration + iterations,
            seconds=position.seconds + self._stopwatch.lap(),
        )

    def _await_backlog(self) -> None:
        """Wait until all chunks are safe on disk."""
        with self._stopwatch.saving():
            self._backlog.clear()

    def _check_finite(self, chunk: Chunk, position: Position) -> None:
        for name, values in chunk.metrics.items():
            for agent, iteration in np.argwhere(~np.isfinite(values))[:1]:
                raise PersonaeError(
                    f"{name} of seed {self._config.seeds[agent]} is "
                    f"{values[agent, iteration]} at iteration "
                    f"{position.iteration + int(iteration) + 1} of the run; the last "
                    "checkpoint was taken before it"
                )


def _identity(result: EvaluationResult) -> EvaluationResult:
    return result


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
    make_actors: MakeActors | None = None,
) -> None:
    """Start or resume a run; refuse an existing one unless told which of the two.

    Args:
        config: Everything that decides what the run computes.
        directory: Where it writes.
        reporter: Shows progress.
        resume: Go on with the run in the directory, or start it if there is none.
        overwrite: Delete the run in the directory first.
        log_to: Other places where metrics go.
        callbacks: They are called at each evaluation.
        warm_start: The agent that a new run starts from, if it does.
        devices: Devices to spread agents over; all there are if left out.
        make_actors: Makes actors on the host, in place of the curriculum's choice.
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
        make_actors,
    )
    # Settings were checked before: an invalid run creates no files.
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
                # The run may have been killed just before it could.
                directory.delete_replay()
                return
        elif warm_start is not None:
            write_atomically(directory.warm_start_file, warm_start)
        run.learn()
