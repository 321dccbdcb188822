"""What ProcGen's games bring to those who have learned nothing, for tables.

    pip install 'personae[procgen]'
    python benchmarks/anchors.py src/personae/report/anchors.json

Random: actions are drawn uniformly. Constant: one action is repeated, the mean over all
fifteen. Both on the 200 levels that agents train on, and random also on all levels.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from personae.curricula import find_curriculum
from personae.envs.adapters.envpool import ENVPOOL, SelfResettingEnvs, make_envpool
from personae.envs.episode_stats import EpisodeStats

EPISODES, SLOTS, ACTIONS = 300, 60, 15
Act = Callable[[int], np.ndarray]


def mean_return(env: str, options: dict[str, object], act: Act) -> dict[str, float]:
    """Return mean and standard error over episodes; each slot plays as many."""
    name = env.removeprefix(ENVPOOL)
    games = SelfResettingEnvs(make_envpool(name, SLOTS, 0, options))
    games.start()
    tally, played = EpisodeStats(SLOTS), [[] for _ in range(SLOTS)]
    wanted, step = EPISODES // SLOTS, 0
    while any(len(each) < wanted for each in played):
        answer = games.step(act(step))
        tally.count(answer.rewards, None, answer.valid)
        ended = answer.terminated | answer.truncated
        brought = tally.end(ended)[0]
        for slot in np.flatnonzero(ended):
            played[slot].append(brought[slot])
        step += 1
    games.close()
    returns = np.array([each[:wanted] for each in played]).ravel()
    error = returns.std(ddof=1) / np.sqrt(returns.size)
    return {"mean": round(float(returns.mean()), 3), "error": round(float(error), 3)}


def main() -> None:
    """Measure all games, and write to the file named."""
    rng = np.random.default_rng(0)

    def random(step: int) -> np.ndarray:
        return rng.integers(0, ACTIONS, SLOTS)

    found = {}
    for task in find_curriculum("procgen").tasks:
        trained, unseen = dict(task.options), {**task.options, **(task.unseen or {})}
        returns = {
            "random actions": mean_return(task.env, trained, random),
            "random actions, unseen": mean_return(task.env, unseen, random),
            # Each action has as many of the slots.
            "constant action": mean_return(
                task.env, trained, lambda step: np.arange(SLOTS) % ACTIONS
            ),
        }
        settings = {"options": trained, "unseen": dict(task.unseen or {})}
        found[task.env] = {**settings, "returns": returns}
        print(task.name, returns)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
