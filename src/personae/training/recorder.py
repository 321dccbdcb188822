"""Writes a run: its log, checkpoints, masks and run.json, and reports its progress."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from personae.backbones.weights import fingerprint
from personae.curricula import Curriculum
from personae.curricula.schedule import Schedule
from personae.files import write_tensors
from personae.rollouts.evaluation import EvaluationResult
from personae.rollouts.preview import Preview
from personae.runs import journal
from personae.runs.checkpoints import Checkpoints, Position
from personae.runs.directory import RunDirectory
from personae.runs.progress import Progress, Show
from personae.runs.provenance import provenance
from personae.runs.replay import ReplayStore
from personae.runs.resume import check_same_backbones, warn_of_changes
from personae.serialise import PlainData
from personae.training.config import RunConfig
from personae.training.sharding import Sharding
from personae.training.state import Agent, Chunk, TrainState

WriteRecords = Callable[[Sequence[PlainData]], None]
"""Writes records of the log to other places."""


class Outlets(NamedTuple):
    """The places beside the run directory where a run's results go."""

    show: Show
    write: WriteRecords


class Recorder:
    """Writes one run to its directory."""

    def __init__(
        self,
        config: RunConfig,
        schedule: Schedule,
        directory: RunDirectory,
        sharding: Sharding,
        warm_start_masks: int,
    ):
        self._config, self._schedule = config, schedule
        self._directory, self._sharding = directory, sharding
        self._warm_start_masks = warm_start_masks
        self.checkpoints = Checkpoints(directory.checkpoints, config.to_plain())

    def begin_run(self, fixed: Mapping[str, np.ndarray]) -> None:
        """Write the backbones and run.json of a new run."""
        self._directory.truncate_metrics(0)
        prints = self._fingerprints(fixed)
        metadata = {"fingerprints": prints}
        write_tensors(self._directory.backbone_file, fixed, metadata)
        self._directory.write_run(
            {
                "status": "running",
                "config": self._config.to_plain(),
                "fingerprints": prints,
                **provenance(),
            }
        )

    def resume_run(self, position: Position, fixed: Mapping[str, np.ndarray]) -> None:
        """Go on at a checkpoint: drop later records, and note where it goes on."""
        directory = self._directory
        expected = directory.read_run()["fingerprints"]
        prints = self._fingerprints(fixed)
        check_same_backbones(expected, prints, directory.checkpoints)
        directory.truncate_metrics(position.metrics_length)
        # Another machine may round differently: the record says where it went on.
        run, current = directory.read_run(), provenance()
        resumed = run.get("resumed", [])
        warn_of_changes((resumed or [run])[-1], current)
        directory.write_run(run | {"resumed": [*resumed, current]})

    def _fingerprints(self, fixed: Mapping[str, np.ndarray]) -> list[str]:
        return [
            fingerprint({name: array[agent] for name, array in fixed.items()})
            for agent in range(len(self._config.seeds))
        ]

    def save_state(self, agents: Agent, position: Position) -> None:
        """Save the method's state, which has changed."""
        state = self._sharding.to_host(agents.method_state)
        self.checkpoints.save_state(position.state, state)

    def preview_records(
        self, preview: Preview | None, position: Position
    ) -> list[PlainData]:
        """Return the record of a preview, to precede a chunk's, if there is one."""
        if preview is None:
            return []
        where = self._where(position)
        on_host = self._sharding.to_host(preview)
        return [journal.preview_record(where, position.iteration, *on_host)]

    def save_chunk(
        self,
        train: TrainState,
        chunk: Chunk,
        result: EvaluationResult,
        before: Position,
        position: Position,
        preview: Sequence[PlainData],
        store: ReplayStore | None,
        outlets: Outlets,
    ) -> None:
        """Write a chunk to disk, then show it.

        Args:
            train: What the agents are like after the chunk.
            chunk: The chunk.
            result: Its evaluation.
            before: Where the run was before the chunk.
            position: Where it is after it.
            preview: Records that go in front of the chunk's.
            store: The replay store, if there is one.
            outlets: Other places where results go.
        """
        records = [*preview, *self._records(chunk, result, before, position)]
        # Before the checkpoint, which says how much of the file belongs to it.
        length = self._directory.append_metrics(records)
        outlets.write(records)
        position = position._replace(metrics_length=length)
        chunks, resume = position.total_chunks, chunk.resume
        last_visit = position.visit + 1 == self._schedule.num_visits
        # After the last visit nothing looks back any more.
        if chunk.experience is not None and not last_visit:
            self.checkpoints.save_experience(chunks, chunk.experience)
        if resume.envs is not None:
            self.checkpoints.save_envs(chunks, resume.envs)
        if resume.replay is not None and store is not None:
            # The checkpoint refers to records, so they must be on disk first.
            store.sync()
            self.checkpoints.save_replay(chunks, resume.replay)
        # The checkpoint comes last: it says that all the rest is there.
        self.checkpoints.save_chunk(position, self._sharding.to_host(train))
        outlets.show(self._progress(chunk, result, before, position))

    def _where(self, position: Position) -> PlainData:
        visit = position.visit
        return {"visit": visit, "task": self._schedule.task(visit)}

    def _records(
        self, chunk: Chunk, result: EvaluationResult, before: Position, after: Position
    ) -> Iterator[PlainData]:
        where, steps = self._where(after), self._schedule.steps_per_iteration
        previous_chunks = self._schedule.chunks(after.visit)[: before.chunk]
        first_step = (sum(previous_chunks) + 1) * steps
        yield from journal.train_records(
            chunk.metrics, where, before.iteration + 1, first_step, steps
        )
        if chunk.actors is not None:
            yield journal.actor_record(where, after.iteration, chunk.actors)
        yield journal.evaluation_record(
            where,
            after.iteration,
            after.iteration * steps,
            result.returns,
            result.success,
            result.unseen,
        )

    def _progress(
        self, chunk: Chunk, result: EvaluationResult, before: Position, after: Position
    ) -> Progress:
        schedule, curriculum = self._schedule, self._config.curriculum
        steps = schedule.steps_per_iteration
        last_seconds = after.seconds - before.seconds
        last = last_seconds / (after.iteration - before.iteration)
        per_iteration = after.seconds / after.iteration
        # Progress starts from 0 even where returns are negative.
        floors = sum(task.floor or 0.0 for task in curriculum.tasks)
        return Progress(
            visit=after.visit + 1,
            num_visits=schedule.num_visits,
            task=schedule.task(after.visit),
            steps=after.iteration * steps,
            total_steps=schedule.iterations * steps,
            training_return=float(chunk.training_measure[:, -1].mean()),
            evaluation=float(result.means.sum(-1).mean()) - floors,
            best_evaluation=_sum_of_targets(curriculum) - floors,
            steps_per_second=steps * len(self._config.seeds) / last,
            seconds_left=per_iteration * (schedule.iterations - after.iteration),
        )

    def save_masks(self, exported: Mapping[str, np.ndarray], visit: int) -> None:
        """Write the mask file of a visit, with the fingerprints of its backbones."""
        task = self._schedule.task(visit)
        metadata = {
            "task": task,
            "visit": visit,
            "seeds": self._config.seeds,
            "fingerprints": self._directory.read_run()["fingerprints"],
            "warm_start_masks": self._warm_start_masks,
        }
        write_tensors(self._directory.mask_file(visit, task), exported, metadata)

    def finish_run(self, position: Position, seconds: Mapping[str, float]) -> None:
        """Mark the run as finished."""
        run = self._directory.read_run()
        results = {"evaluations": position.total_chunks, "seconds": dict(seconds)}
        self._directory.write_run(run | {"status": "finished", **results})
        self._directory.delete_replay()


def _sum_of_targets(curriculum: Curriculum) -> float:
    return sum(task.target for task in curriculum.tasks)
