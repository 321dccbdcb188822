"""Records of metrics.jsonl as plain data (docs/run-directory.md has every field).

`where` is the visit and its task, {"visit": 0, "task": "d1-0"}; it stands at the start
of every record.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import SupportsFloat, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from personae.files import Arrays
from personae.serialise import PlainData

Where: TypeAlias = Mapping[str, object]
Numbers: TypeAlias = np.ndarray | Sequence[SupportsFloat]


def preview_record(
    where: Where,
    iteration: int,
    actions: Int[np.ndarray, "agents steps"],
    probabilities: Float[np.ndarray, "agents steps actions"],
    on_path: Bool[np.ndarray, "agents steps"],
) -> PlainData:
    """Return how likely the optimal actions of a task are before its training.

    Args:
        where: The visit and its task.
        iteration: Iterations before the visit.
        actions: The optimal actions.
        probabilities: The agents' probabilities of all actions at each step.
        on_path: Which steps lie on the optimal path of the task.
    """
    counts = on_path[0]  # the optimal path is the same for all agents
    return {
        "kind": "preview",
        **where,
        "iteration": iteration,
        "actions": actions[0][counts].tolist(),
        "probabilities": [
            [_rounded(step) for step in agent] for agent in probabilities[:, counts]
        ],
    }


def train_records(
    metrics: Arrays,
    where: Where,
    first_iteration: int,
    first_step: int,
    steps_per_iteration: int,
) -> Iterator[PlainData]:
    """Yield one record for each iteration of a chunk.

    Args:
        metrics: The measurements by name, `[agent, iteration]`.
        where: The visit and its task.
        first_iteration: Number of the chunk's first iteration in the whole run.
        first_step: Environment steps of the visit at the end of that iteration.
        steps_per_iteration: Environment steps of one agent in an iteration.
    """
    for i in range(next(iter(metrics.values())).shape[1]):
        yield {
            "kind": "train",
            **where,
            "iteration": first_iteration + i,
            "step": first_step + i * steps_per_iteration,
            **{name: _rounded(values[:, i]) for name, values in metrics.items()},
        }


def actor_record(
    where: Where, iteration: int, actors: Mapping[str, Numbers]
) -> PlainData:
    """Return the figures of actors on other machines, with an entry for each."""
    figures = {name: _rounded(values) for name, values in actors.items()}
    return {"kind": "actors", **where, "iteration": iteration, **figures}


def evaluation_record(
    where: Where,
    iteration: int,
    step: int,
    returns: Float[np.ndarray, "agents tasks episodes"],
    success: Float[np.ndarray, "agents tasks episodes"] | None = None,
    unseen: Float[np.ndarray, "agents tasks episodes"] | None = None,
) -> PlainData:
    """Return an evaluation of all agents on all tasks.

    Args:
        where: The visit and its task.
        iteration: Iterations of the whole run so far.
        step: Environment steps of one agent in the whole run so far.
        returns: The return of each episode.
        success: Whether each episode succeeded, where success is measured.
        unseen: Returns or success on variants that are never trained on, if the tasks
            have such.
    """
    # Keys without a value are left out: readers take "success" in a record as a sign
    # that it is what counts.
    optional = {"success": success, "unseen": unseen}
    return {
        "kind": "evaluation",
        **where,
        "iteration": iteration,
        "step": step,
        "returns": _rounded_means(returns),
        **{name: _rounded_means(v) for name, v in optional.items() if v is not None},
    }


def _rounded(values: Numbers) -> list[float]:
    # Six digits are about what float32 holds; more would only make the file larger.
    return [float(f"{value:.6g}") for value in values]


def _rounded_means(episodes: Float[np.ndarray, "agents tasks _"]) -> list[list[float]]:
    return [_rounded(agent) for agent in episodes.mean(-1)]
