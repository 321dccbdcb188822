"""Speed on Meta-World's robots, beside the bare environments on the same cores.

    pip install 'personae[continual-world]'
    python benchmarks/robots.py [AGENTS] [FILE]
    python benchmarks/robots.py --life

Bare: a process for each core steps one environment with the actions of an untrained
policy (normal, clipped), in episodes of 500 steps. Ours: as many agents (or AGENTS)
learn with the published settings, an environment each; the time is that of a rollout,
its update and all work between them. Both take turns, and the medians count. With
--life: all ten tasks, bare, and the core-hours that they take for the steps of cw10.
"""

import json
import multiprocessing
import multiprocessing.pool
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import gymnasium as gym
import jax
import numpy as np
from machine import machine

import personae.envs  # noqa: F401  registers them
from personae.backend import available_cores, prepare_backend
from personae.curricula import Evaluation, find_curriculum
from personae.methods.registry import make_method
from personae.training.factory import make_training

TASKS = ("faucet-close", "handle-press-side", "window-close", "peg-unplug-side")
STEPS, TURNS, ROLLOUTS = 5_120, 3, 1


def step_bare(task: str) -> float:
    """Return the seconds that one environment takes for the steps."""
    env = gym.make("personae/MetaWorld-v0", task=task, disable_env_checker=True)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(STEPS):
        action = np.clip(rng.normal(size=4), -1, 1).astype(np.float32)
        _, _, _, truncated, _ = env.step(action)
        if truncated:
            env.reset()
    return time.perf_counter() - start


def bare(task: str, pool: multiprocessing.pool.Pool, cores: int) -> float:
    """Return the steps per second of bare environments on all cores."""
    return cores * STEPS / max(pool.map(step_bare, [task] * cores, chunksize=1))


def life() -> None:
    """Print the core-hours of bare environments in a life of cw10."""
    cores, curriculum, hours = available_cores(), find_curriculum("cw10"), 0.0
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        for task in curriculum.tasks:
            speed = median(bare(task.name, pool, cores) for _ in range(TURNS))
            hours += curriculum.steps_per_task * cores / speed / 3600
            print(f"{task.name:18} {speed:7,.0f} steps/s on {cores} cores")
    print(f"a life of one agent: {hours:.1f} core-hours")


def make_measure(agents: int):
    """Return a function that measures our steps per second on a task, all agents."""
    curriculum = find_curriculum("cw10")
    tasks = tuple(task for task in curriculum.tasks if task.name in TASKS)
    curriculum = replace(
        curriculum,
        tasks=tasks,
        evaluation=Evaluation(interval=ROLLOUTS, measure="success"),
    )
    method = make_method("mask-ri", curriculum.method_options)
    training = make_training(curriculum, method, tuple(range(agents)))
    programs, trainer = training.programs, training.trainer

    def measure(task: str) -> float:
        visit = [candidate.name for candidate in tasks].index(task)
        agent = programs.begin(programs.init(), visit, visit)[0]
        training.begin_visit(visit)
        agent = jax.block_until_ready(trainer.iterate(agent, visit, None)[0])
        start = time.perf_counter()
        for _ in range(ROLLOUTS):
            agent = trainer.iterate(agent, visit, None)[0]
        jax.block_until_ready(agent)
        steps = agents * ROLLOUTS * curriculum.ppo.rollout_length
        return steps / (time.perf_counter() - start)

    return measure, training


def main() -> None:
    """Measure, print, and write to the file named, if any."""
    if "--life" in sys.argv:
        life()
        return
    cores = available_cores()
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else cores
    prepare_backend(agents)
    measure, training = make_measure(agents)
    speeds: dict[str, dict[str, list[float]]] = {}
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        for task in TASKS:
            speeds[task] = {"bare": [], "ours": []}
            for _ in range(TURNS):
                speeds[task]["bare"].append(bare(task, pool, cores))
                speeds[task]["ours"].append(measure(task))
            medians = {name: median(turns) for name, turns in speeds[task].items()}
            share = medians["ours"] / medians["bare"]
            print(
                f"{task:18} bare {medians['bare']:7,.0f} steps/s, "
                f"{agents} agents learning {medians['ours']:7,.0f} ({share:.0%})"
            )
    training.close()
    if len(sys.argv) > 2:
        result = {"machine": machine(), "agents": agents, "steps_per_second": speeds}
        Path(sys.argv[2]).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
