"""Returns of agents that have learned nothing, in ProcGen's games, for tables.

    pip install 'personae[procgen]'
    python benchmarks/anchors.py src/personae/report/paper/anchors.json

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
    stats, slot_returns = EpisodeStats(SLOTS), [[] for _ in range(SLOTS)]
    # As many episodes of each slot: the first ones to end would be the short ones.
    num_episodes, time = EPISODES // SLOTS, 0
    while any(len(returns) < num_episodes for returns in slot_returns):
        step = games.step(act(time))
        stats.count(step.rewards, None, step.valid)
        ended = step.terminated | step.truncated
        episode_returns = stats.end(ended)[0]
        for slot in np.flatnonzero(ended):
            slot_returns[slot].append(episode_returns[slot])
        time += 1
    games.close()
    returns = np.array([returns[:num_episodes] for returns in slot_returns]).ravel()
    error = returns.std(ddof=1) / np.sqrt(returns.size)
    return {"mean": round(float(returns.mean()), 3), "error": round(float(error), 3)}


def main() -> None:
    """Measure all games, and write to the file named."""
    rng = np.random.default_rng(0)

    def random(time: int) -> np.ndarray:
        return rng.integers(0, ACTIONS, SLOTS)

    anchors = {}
    for task in find_curriculum("procgen").tasks:
        trained, unseen = dict(task.options), {**task.options, **(task.unseen or {})}
        returns = {
            "random actions": mean_return(task.env, trained, random),
            "random actions, unseen": mean_return(task.env, unseen, random),
            # Each action has as many of the slots.
            "constant action": mean_return(
                task.env, trained, lambda time: np.arange(SLOTS) % ACTIONS
            ),
        }
        settings = {"options": trained, "unseen": dict(task.unseen or {})}
        anchors[task.env] = {**settings, "returns": returns}
        print(task.name, returns)
    Path(sys.argv[1]).write_text(json.dumps(anchors, indent=2) + "\n")


if __name__ == "__main__":
    main()
