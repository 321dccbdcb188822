"""Steps per second in mazes, without an agent, beside Minigrid and EnvPool.

    pip install minigrid envpool
    python benchmarks/mazes.py --out benchmarks/results/mazes.json

All take random actions in SimpleCrossingS9N1, in turn, in one run. EnvPool draws a new
maze for each episode, as `RandomCrossing` does; Minigrid repeats one here, as it does
in the paper, and as `Crossing` does.
"""

import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from machine import machine
from rich.console import Console
from rich.table import Table

from personae.curricula import find_curriculum
from personae.envs import find_family

TURNS, LEAST_SECONDS = 5, 1.0
MAZE = find_curriculum("mg10").tasks[0]
MINIGRID_NAME, MINIGRID_SEED = "MiniGrid-SimpleCrossingS9N1-v0", 860
"""The same maze in Minigrid."""
Walk = Callable[[], int]
"""Takes many steps and returns their number."""


def personae(family: str, options: dict[str, Any], num_envs: int) -> Walk:
    env, stacked = find_family(family)([options])
    params = jax.tree.map(lambda leaf: leaf[0], stacked)
    length = max(200_000 // num_envs, 100)

    def step(carry: Any, inputs: Any) -> Any:
        (states, checksum), (actions, key) = carry, inputs
        env_key, reset_key = jax.random.split(key)
        states, new = jax.vmap(env.step, (None, 0, 0, 0))(
            params, states, actions, jax.random.split(env_key, num_envs)
        )
        fresh, first = jax.vmap(env.reset, (None, 0))(
            params, jax.random.split(reset_key, num_envs)
        )
        ended = new.terminated | new.truncated

        def select(a: Any, b: Any) -> Any:
            return jnp.where(ended.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        observations = select(first, new.observation)
        states = jax.tree.map(select, fresh, states)
        # The sum uses every number, or the compiler would leave out parts of a step.
        return (states, checksum + observations.sum() + new.reward.sum()), None

    @jax.jit
    def walk(states: Any, actions: Any) -> Any:
        keys = jax.random.split(jax.random.key(1), length)
        return jax.lax.scan(step, (states, 0.0), (actions, keys))[0]

    actions = jax.random.randint(jax.random.key(2), (length, num_envs), 0, 3)
    keys = jax.random.split(jax.random.key(0), num_envs)
    states, _ = jax.vmap(env.reset, (None, 0))(params, keys)

    def call() -> int:
        jax.block_until_ready(walk(states, actions))
        return length * num_envs

    return call


def minigrid(num_envs: int) -> Walk:
    from minigrid.wrappers import ImgObsWrapper, ReseedWrapper

    def make() -> Any:
        return ReseedWrapper(
            ImgObsWrapper(gym.make(MINIGRID_NAME)), seeds=[MINIGRID_SEED]
        )

    envs = [make() for _ in range(num_envs)]
    for env in envs:
        env.reset()
    actions = np.random.default_rng(0).integers(3, size=(2000 // num_envs, num_envs))

    def call() -> int:
        for row in actions:
            for env, action in zip(envs, row, strict=True):
                *_, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
        return actions.size

    return call


def envpool(num_envs: int) -> Walk:
    import envpool as pool

    envs = pool.make_gymnasium(MINIGRID_NAME, num_envs=num_envs, seed=0)
    envs.reset()
    length = max(50_000 // num_envs, 50)
    actions = np.random.default_rng(0).integers(3, size=(length, num_envs))

    def call() -> int:
        for row in actions:
            envs.step(row)
        return actions.size

    return call


def rivals(num_envs: int) -> dict[str, Walk]:
    walks = {
        "personae, one maze": personae(MAZE.env, dict(MAZE.options), num_envs),
        "personae, new mazes": personae("personae/RandomCrossing-v0", {}, num_envs),
    }
    if find_spec("minigrid"):
        walks["minigrid, one maze"] = minigrid(num_envs)
    if find_spec("envpool"):
        walks["envpool, new mazes"] = envpool(num_envs)
    return walks


def speeds(walks: dict[str, Walk]) -> dict[str, float]:
    """Return the median steps per second of each walk, measured in turn."""
    samples: dict[str, list[float]] = {name: [] for name in walks}
    for walk in walks.values():
        walk()  # compile
    for _ in range(TURNS):
        for name, walk in walks.items():
            start, steps = time.perf_counter(), 0
            while time.perf_counter() - start < LEAST_SECONDS:
                steps += walk()
            samples[name].append(steps / (time.perf_counter() - start))
    return {name: median(values) for name, values in samples.items()}


def main(out: Path | None = None, envs: tuple[int, ...] = (4, 64, 1024)) -> None:
    """Measure steps per second.

    Args:
        out: File to write the results to, as JSON.
        envs: Numbers of environments side by side.
    """
    table, rows = Table("environments", "who", "steps/s"), []
    for num_envs in envs:
        for name, speed in speeds(rivals(num_envs)).items():
            table.add_row(str(num_envs), name, f"{speed:,.0f}")
            rows.append({"envs": num_envs, "who": name, "steps_per_second": speed})
    Console().print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**machine(), "measurements": rows}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
