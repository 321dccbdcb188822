"""Speed on ProcGen's games: EnvPool alone, our parts, and all of it together.

    pip install 'personae[procgen]' torch
    python benchmarks/games.py [GAME] [METHOD] [FILE] [--envs N] [--actors N]
        [--frames N]

Alone: EnvPool with random actions. Acting: rollouts without learning. Learning: updates
from one rollout over and over. Together: threads act while the agent learns. PyTorch,
if it is installed: a plain update of the same network from as many frames. All take
turns, and the medians count. Methods with a replay store fill it with `--frames` frames
first, then read from it and write to it, in the folder for temporary files.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
from machine import machine

from personae.backend import prepare_backend
from personae.curricula import Curriculum, Hosting, find_curriculum
from personae.envs.vector import make_envpool
from personae.learners import IMPALA
from personae.methods import METHODS, make_method
from personae.runs.replay import ReplayStore
from personae.training.factory import make_training
from personae.training.programs import unroll_shapes

TURNS = 3
SECONDS = 4.0
"""The least time of each turn."""


def rate(frames: int, once: Callable[[], Any]) -> float:
    """Return frames per second."""
    start, total = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        once()
        total += frames
    return total / (time.perf_counter() - start)


def make_bare(game: str, envs: int) -> Callable[[], float]:
    """Return a function that measures EnvPool alone."""
    options = {"num_levels": 200, "start_level": 0}
    pool = make_envpool(f"{game.capitalize()}Easy-v0", envs, 0, options)
    pool.reset()
    rng = np.random.default_rng(0)
    return lambda: rate(
        envs, lambda: pool.step(rng.integers(0, 15, envs).astype(np.int32))
    )


def with_replay(curriculum: Curriculum, method: str, frames: int) -> Curriculum:
    """Set the frames in the replay store of a method, if it has one."""
    name = METHODS[method].settings
    if name is None or make_method(method).traits.replay is None:
        return curriculum
    options: Any = getattr(curriculum, name)
    if hasattr(options, "frames"):
        changed = replace(options, frames=frames)
    else:
        changed = replace(options, ewc=replace(options.ewc, frames=frames))
    return replace(curriculum, **{name: changed})


class Benchmark:
    """An agent on one game."""

    def __init__(
        self, game: str, method: str, learner: IMPALA, hosting: Hosting, frames: int
    ):
        curriculum = find_curriculum("procgen")
        task = next(task for task in curriculum.tasks if task.name == game)
        curriculum = replace(
            curriculum, tasks=(task,), impala=learner, hosting=hosting, cycles=1
        )
        curriculum = with_replay(curriculum, method, frames)
        configured = make_method(method, curriculum.method_options)
        self.training = make_training(curriculum, configured, (0,))
        self.programs, self.trainer = self.training.programs, self.training.trainer
        self.agents, _ = self.programs.begin(self.programs.init(), 0, 0)
        self.training.begin_visit(0)
        self.frames, self.store = curriculum.steps_per_iteration, None
        if configured.traits.replay is not None:
            self._folder = TemporaryDirectory()
            updated = self.trainer.update_shapes(self.agents, 0)
            self.store = ReplayStore(
                Path(self._folder.name),
                configured.traits.replay,
                unroll_shapes(self.programs.sharding, updated),
                learner.num_envs,
                {},
                chunks_in_flight=3,
            )
            for _ in range(frames // self.frames):
                self.iterate()
        self.iterate()

    def iterate(self) -> None:
        """Learn from one rollout."""
        self.agents, *_ = self.trainer.iterate(self.agents, 0, self.store)

    def acting(self) -> float:
        """Return the frames per second of rollouts without learning."""
        policy = self.trainer.behaviour(self.agents, 0)
        collect = self.training.actors.collect
        return rate(self.frames, lambda: collect(policy, 0))

    def learning(self) -> float:
        """Return the frames per second of updates from one rollout."""
        task = self.programs.table.task(0)
        policy = self.trainer.behaviour(self.agents, 0)
        collected = self.training.actors.collect(policy, 0)

        def update() -> None:
            on_device = self.programs.sharding.to_devices(collected.to_learn)
            sample = self.programs.draw_sample(self.store)
            updated = self.trainer._update((self.agents, sample, *on_device), task)
            jax.block_until_ready(updated)

        return rate(self.frames, update)

    def together(self) -> float:
        """Return the frames per second of acting and learning."""
        return rate(self.frames, self.iterate)


def make_torch(learner: IMPALA) -> Callable[[], float] | None:
    """Return a function that measures an update in eager PyTorch, if installed."""
    try:
        import torch
    except ImportError:
        return None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    nn = torch.nn
    body = nn.Sequential(
        nn.Conv2d(3, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 512),
        nn.ReLU(),
    ).to(device)
    heads = nn.Linear(528, 16).to(device)
    weights = [*body.parameters(), *heads.parameters()]
    optimiser = torch.optim.RMSprop(weights, lr=4e-4, alpha=0.99, eps=0.01)
    batch, length = learner.batch_size, learner.rollout_length
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (length + 1, batch, 3, 64, 64), np.uint8)
    actions = rng.integers(0, 15, (length, batch))

    def update() -> None:
        inputs = torch.as_tensor(images, device=device).flatten(0, 1).float() / 255
        previous_steps = torch.zeros(len(inputs), 16, device=device)
        out = heads(torch.cat([body(inputs), previous_steps], 1)).view(
            length + 1, batch, 16
        )
        log_p, values = torch.log_softmax(out[:-1, :, :15], -1), out[..., 15]
        indices = torch.as_tensor(actions, device=device)[..., None]
        log_p_action = log_p.gather(-1, indices)[..., 0]
        with torch.no_grad():  # V-trace of weights near one, rewards of zero
            correction = torch.zeros(batch, device=device)
            targets = []
            for t in reversed(range(length)):
                delta = 0.99 * values[t + 1] - values[t]
                correction = delta + 0.99 * correction
                targets.append(values[t] + correction)
            target = torch.stack(targets[::-1])
            after = torch.cat([target[1:], values[-1:]])
            advantage = 0.99 * after - values[:-1]
        entropy = -(log_p.exp() * log_p).sum()
        error = ((target - values[:-1]) ** 2).sum()
        loss = -(log_p_action * advantage).sum() + 0.25 * error - 0.01 * entropy
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 40.0)
        optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()

    update()
    return lambda: rate(batch * length, update)


def main() -> None:
    """Measure, print, and write to the file named, if any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", nargs="?", default="starpilot")
    parser.add_argument("method", nargs="?", default="mask-ri")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--frames", type=int, default=20_000)
    arguments = parser.parse_args()
    prepare_backend(1, images=True)
    learner = IMPALA(num_envs=arguments.envs)
    alone = Benchmark(
        arguments.game, arguments.method, learner, Hosting(), arguments.frames
    )
    threads = Hosting("threads", arguments.actors)
    threaded = Benchmark(
        arguments.game, arguments.method, learner, threads, arguments.frames
    )
    measures: dict[str, Callable[[], float]] = {
        "EnvPool alone": make_bare(arguments.game, arguments.envs),
        "acting": alone.acting,
        "learning": alone.learning,
        "one after the other": alone.together,
        "together": threaded.together,
    }
    rival = make_torch(learner)
    if rival is not None:
        measures["update in PyTorch"] = rival
    speeds: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(TURNS):
        for name, measure in measures.items():
            speeds[name].append(measure())
            # Its threads go on until their queue is full, beside the next measure.
            if name == "together":
                time.sleep(1)
    medians = {name: median(turns) for name, turns in speeds.items()}
    slower = min(medians["EnvPool alone"], medians["learning"])
    for name, speed in medians.items():
        print(f"{name:22} {speed:9,.0f} frames/s")
    print(
        f"together: {medians['together'] / slower:.0%} of the slower of the two alone"
    )
    for benchmark in (alone, threaded):
        benchmark.training.close()
    if arguments.file is not None:
        settings = {
            "game": arguments.game,
            "method": arguments.method,
            "envs": arguments.envs,
        }
        if threaded.store is not None:
            settings["frames_remembered"] = arguments.frames
        result = {"machine": machine(), **settings, "frames_per_second": speeds}
        arguments.file.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
