"""What a chunk adds to metrics.jsonl (docs/run-directory.md has every field)."""

from collections.abc import Iterator
from typing import Any

from personae.rollouts.preview import Preview
from personae.runs.checkpoints import Position
from personae.training.schedule import Schedule
from personae.training.update import ChunkResult


def preview_record(
    preview: Preview, schedule: Schedule, before: Position
) -> dict[str, Any]:
    """Return what the agents would have done on a task before its training."""
    counts = preview.counts[0]  # the optimal path is the same for all agents
    return {
        "kind": "preview",
        **_where(schedule, before),
        "iteration": before.iteration,
        "actions": preview.actions[0][counts].tolist(),
        "probabilities": [
            [_rounded(step) for step in agent]
            for agent in preview.probabilities[:, counts]
        ],
    }


def chunk_records(
    result: ChunkResult, schedule: Schedule, before: Position, now: Position
) -> Iterator[dict[str, Any]]:
    """Yield the records of a chunk's iterations and of its evaluation."""
    where, steps = _where(schedule, now), schedule.steps_per_iteration
    done = sum(schedule.chunks(now.visit)[: before.chunk])
    for i in range(now.iteration - before.iteration):
        values = {name: _rounded(v[:, i]) for name, v in result.metrics.items()}
        yield {
            "kind": "train",
            **where,
            "iteration": before.iteration + i + 1,
            "step": (done + i + 1) * steps,
            **values,
        }
    if result.actors is not None:
        told = {name: _rounded(values) for name, values in result.actors.items()}
        yield {"kind": "actors", **where, "iteration": now.iteration, **told}
    more = {"success": result.success, "unseen": result.unseen}
    yield {
        "kind": "evaluation",
        **where,
        "iteration": now.iteration,
        "step": now.iteration * steps,
        "returns": _rounded_means(result.evaluation),
        **{name: _rounded_means(v) for name, v in more.items() if v is not None},
    }


def _where(schedule: Schedule, position: Position) -> dict[str, Any]:
    return {"visit": position.visit, "task": schedule.task(position.visit)}


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _rounded_means(episodes: Any) -> list[list[float]]:
    return [_rounded(agent) for agent in episodes.mean(-1)]
