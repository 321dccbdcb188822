"""Agents of a run brought back from its last checkpoint, to be evaluated and filmed."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, UInt8

from personae.curricula.spec import Evaluation, Task
from personae.envs.base import within_space
from personae.errors import PersonaeError, nearest_match_error
from personae.plain import from_plain
from personae.rundir import NotWholeError, RunDirectory
from personae.training.backend import prepare_backend
from personae.training.checkpoint import Checkpoints
from personae.training.choose import make_programs
from personae.training.config import RunConfig
from personae.training.device import Agent, TaskData, evaluate_agent
from personae.training.resumption import restore_agents

LONGEST_FILM = 1000
"""Steps after which a film is cut."""
TRIES = 5
"""How often a checkpoint is looked for while a run replaces it."""


class Film(NamedTuple):
    """One episode, to look at."""

    frames: list[UInt8[np.ndarray, "height width 3"]]
    total: float
    """What it collected."""
    whole: bool
    """Whether the episode ended, and was not cut."""


class Revival:
    """The agents of a run as they were at its last checkpoint."""

    def __init__(self, directory: Path | str):
        files = RunDirectory(directory)
        self.config = from_plain(RunConfig, files.read_run()["config"], "run.json")
        curriculum = self.config.curriculum
        prepare_backend(len(self.config.seeds))
        method = self.config.make_method()
        self.programs = make_programs(curriculum, method, self.config.seeds)
        self._schedule = self.config.make_schedule()
        self.agents = self._restore(files)

    def _restore(self, files: RunDirectory, tries: int = TRIES) -> Agent:
        checkpoints = Checkpoints(files.checkpoints, self.config.to_plain())
        position = checkpoints.latest()
        if position is None:
            raise PersonaeError(f"{files.root} has no checkpoint yet")
        learned = self._schedule.learned(position.visit)
        try:
            return restore_agents(self.programs, checkpoints, position, learned)
        except NotWholeError:
            # A run that goes on drops old checkpoints, maybe while they are read.
            if tries == 1 or checkpoints.latest() == position:
                raise
            return self._restore(files, tries - 1)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of the run's curriculum."""
        return self.config.curriculum.tasks

    def evaluate(
        self, protocol: Evaluation | None = None
    ) -> Float[np.ndarray, "agents tasks episodes"]:
        """Play every task; by default as often and as greedily as while learning."""
        protocol = protocol or self.config.curriculum.evaluation
        setting = replace(self.programs.setting, protocol=protocol)
        params, labels = self.programs.params, self.programs.labels
        play = self.programs.lanes.compile(
            lambda agent, _: evaluate_agent(setting, agent, params, labels)
        )
        return self.programs.lanes.fetch(play(self.agents, ()))

    def check(self, task: str, seed: int) -> None:
        """Refuse a task or a seed that the run does not have."""
        names, seeds = [task.name for task in self.tasks], self.config.seeds
        if task not in names:
            raise nearest_match_error("task", task, names)
        if seed not in seeds:
            raise nearest_match_error("seed", str(seed), map(str, seeds))

    def film(self, task: str, seed: int | None = None, *, greedy: bool = True) -> Film:
        """Play one episode of a task with one agent, and draw each step."""
        seed = self.config.seeds[0] if seed is None else seed
        self.check(task, seed)
        index = self.config.seeds.index(seed)
        names = [task.name for task in self.tasks]
        agent = jax.tree.map(lambda leaf: leaf[index], self.agents)
        key = jax.random.key(seed)
        return self._play(agent, self.programs.task(names.index(task)), greedy, key)

    def _play(self, agent: Agent, task: TaskData, greedy: bool, key: Any) -> Film:
        setting = self.programs.setting
        env = setting.env
        policy_of = partial(setting.method.policy, agent.method, agent.live.trainable)
        network = jax.jit(policy_of)(task.number)

        @jax.jit
        def advance(state: Any, observation: Any, key: Any) -> Any:
            act_key, env_key = jax.random.split(key)
            policy, _ = network(setting.encoder(observation, task.label))
            action = policy.mode() if greedy else policy.sample(act_key)
            action = within_space(env.action_space, action[None])[0]
            return env.step(task.params, state, action, env_key)

        key, start_key = jax.random.split(key)
        state, observation = jax.jit(env.reset)(task.params, start_key)
        frames, total = [env.render(task.params, state, np.asarray(observation))], 0.0
        for step_key in jax.random.split(key, LONGEST_FILM):
            state, new = advance(state, observation, step_key)
            observation = new.observation
            frames.append(env.render(task.params, state, np.asarray(observation)))
            total += float(new.reward)
            if new.terminated or new.truncated:
                return Film(frames, total, whole=True)
        return Film(frames, total, whole=False)
