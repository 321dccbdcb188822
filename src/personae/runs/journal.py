"""Records of metrics.jsonl."""

from typing import Any


def preview_record(actions, probabilities, counts, where, iteration):
    counts = counts[0]
    return {
        "kind": "preview",
        **where,
        "iteration": iteration,
        "actions": actions[0][counts].tolist(),
        "probabilities": [
            [_rounded(step) for step in agent] for agent in probabilities[:, counts]
        ],
    }


def train_records(metrics, where, first_iteration, first_step, steps_per_iteration):
    number = next(iter(metrics.values())).shape[1]
    return [
        {
            "kind": "train",
            **where,
            "iteration": first_iteration + i + 1,
            "step": first_step + (i + 1) * steps_per_iteration,
            **{name: _rounded(v[:, i]) for name, v in metrics.items()},
        }
        for i in range(number)
    ]


def actor_record(actors, where, iteration):
    told = {name: _rounded(values) for name, values in actors.items()}
    return {"kind": "actors", **where, "iteration": iteration, **told}


def evaluation_record(where, iteration, step, returns, success, unseen):
    more = {"success": success, "unseen": unseen}
    return {
        "kind": "evaluation",
        **where,
        "iteration": iteration,
        "step": step,
        "returns": _rounded_means(returns),
        **{name: _rounded_means(v) for name, v in more.items() if v is not None},
    }


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _rounded_means(episodes: Any) -> list[list[float]]:
    return [_rounded(agent) for agent in episodes.mean(-1)]
