"""Speed on CartPole beside Stable-Baselines3, and beside the bare environments.

    pip install stable-baselines3 torch
    python benchmarks/host.py

All with the same network (two tanh bodies of 64, 64), rollouts, batches and number of
updates, one after another on the same cores, after a warm-up. They take turns several
times, and the medians count.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import gymnasium as gym
import jax
import numpy as np
from machine import machine

from personae.backend import prepare_backend
from personae.curricula import Curriculum, Evaluation, Hosting, NetworkOptions, Task
from personae.learners import PPO
from personae.methods.registry import make_method

ENVS, LENGTH, BATCH, EPOCHS = 8, 128, 64, 10
ITERATIONS, TURNS = 15, 3
STEPS = ENVS * LENGTH * ITERATIONS


def bare() -> float:
    """Return the steps per second of the environments alone, with random actions."""
    env = gym.make_vec("CartPole-v1", ENVS, vectorization_mode="sync")
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(LENGTH)]
    start = time.perf_counter()
    for _ in range(ITERATIONS):
        for action in actions:
            env.step(action)
    return STEPS / (time.perf_counter() - start)


def make_measure(method, agents, *, learning=True, stepping="sync"):
    """Return a function that measures our steps per second, all agents together.

    Without learning only rollouts are collected.
    """
    from personae.training.factory import make_training

    curriculum = Curriculum(
        id="benchmarks/CartPole-v0",
        tasks=(Task("cart", "CartPole-v1", target=500.0),),
        network=NetworkOptions((64, 64), "separate"),
        ppo=PPO(
            num_envs=ENVS,
            rollout_length=LENGTH,
            num_minibatches=ENVS * LENGTH // BATCH,
            epochs=EPOCHS,
            optimiser="adam",
            learning_rate=3e-4,
        ),
        evaluation=Evaluation(interval=ITERATIONS),
        hosting=Hosting(stepping),
    )
    options = curriculum.method_options
    training = make_training(
        curriculum, make_method(method, options), tuple(range(agents))
    )
    programs, trainer = training.programs, training.trainer
    agent = programs.begin(programs.init(), 0, 0)[0]
    training.begin_visit(0)
    agent = trainer.iterate(agent, 0, None)[0]
    policy = trainer.behaviour(agent, 0)

    def measure() -> float:
        nonlocal agent
        start = time.perf_counter()
        for _ in range(ITERATIONS):
            if learning:
                agent = trainer.iterate(agent, 0, None)[0]
            else:
                training.actors.collect(policy, 0)
        jax.block_until_ready(agent)
        return agents * STEPS / (time.perf_counter() - start)

    return measure


def make_rival():
    """Return a function that measures Stable-Baselines3's steps per second."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env

    model = stable_baselines3.PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", ENVS, seed=0),
        n_steps=LENGTH,
        batch_size=BATCH,
        n_epochs=EPOCHS,
        device="cpu",
        seed=0,
    )
    model.learn(ENVS * LENGTH)

    def measure() -> float:
        start = time.perf_counter()
        model.learn(STEPS)
        return STEPS / (time.perf_counter() - start)

    return measure


def main() -> None:
    """Measure, print, and write to the file named, if any."""
    prepare_backend(1)
    programs = {
        "bare environments": bare,
        "collecting, 1 agent": make_measure("ppo", 1, learning=False),
        "ppo, 1 agent": make_measure("ppo", 1),
        "ppo, 1 agent, actors": make_measure("ppo", 1, stepping="actors"),
        "mask-ri, 1 agent": make_measure("mask-ri", 1),
        "ppo, 4 agents": make_measure("ppo", 4),
        "ppo, 4 agents, actors": make_measure("ppo", 4, stepping="actors"),
        "stable-baselines3": make_rival(),
    }
    speeds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(TURNS):
        for name, measure in programs.items():
            speeds[name].append(measure())
    medians = {name: statistics.median(turns) for name, turns in speeds.items()}
    for name, speed in medians.items():
        ratio = speed / medians["stable-baselines3"]
        print(f"{name:22} {speed:9,.0f} steps/s  {ratio:5.2f} x  {speeds[name]}")
    if len(sys.argv) > 1:
        result = {"machine": machine(), "steps_per_second": speeds}
        Path(sys.argv[1]).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    np.random.seed(0)
    main()
