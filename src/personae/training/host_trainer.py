"""Training on environments outside JAX: the same agents, stepped from the host.

Agents and learners are the compiled ones. What differs is where experience comes from:
the policies of all agents are one compiled call per step, and all their environments
are stepped together. What agents see is carried to the devices once, and stays there.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from personae.backbones.distributions import Categorical
from personae.curricula.curriculum import Curriculum, Evaluation, Hosting
from personae.envs.episode_stats import MEASURES
from personae.envs.spaces import SharedSpaces
from personae.errors import PersonaeError
from personae.methods.contract import InputPipeline
from personae.rollouts.film import Film
from personae.rollouts.host_tasks import HostTasks
from personae.rollouts.normalise import Moments, Statistics
from personae.rollouts.processes import CrewPlayers
from personae.rollouts.threads import ThreadedPlayers
from personae.rollouts.vector_actors import Players
from personae.training import update as device
from personae.training.programs import LIFE, Programs
from personae.training.update import Agent, BetweenTasks, ChunkResult, Played, TaskData
from personae.types import (
    Distribution,
    Network,
    Observation,
    PRNGKey,
    Rollout,
    Scalar,
    WithPreviousStep,
    shown,
)

PLAYERS: Mapping[str, type[Players]] = {
    "sync": Players,
    "async": Players,
    "threads": ThreadedPlayers,
    "actors": CrewPlayers,
}
MakePlayers: TypeAlias = Callable[["HostPrograms", tuple[int, ...]], Players]
JUDGED = 1_000
"""What tells the randomness of evaluations apart from that of training."""
NEVER = -1e9
"""Logit of an action that a task does not have."""


class HostParams(NamedTuple):
    """What tells tasks apart inside compiled programs."""

    num_actions: Int[Array, "..."]
    floor: Float[Array, "..."]
    """What counts as the training return before an episode has ended."""


class HostSpaces(NamedTuple):
    """What a setting knows of environments that live elsewhere."""

    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    deterministic: bool = False


class BehaviourPolicy(NamedTuple):
    """What acts for one agent during a rollout."""

    network: Any
    statistics: Statistics
    key: PRNGKey


class HostPrograms(Programs):
    """What a run calls, for environments outside JAX."""

    def _make_env(self, curriculum: Curriculum) -> tuple[Any, Any]:
        self.tasks = HostTasks(curriculum)
        fit: SharedSpaces = self.tasks.fit
        sizes = jnp.asarray(fit.num_actions, jnp.int32)
        spaces = HostSpaces(fit.observation_space, fit.action_space)
        floors = jnp.asarray([task.floor or 0.0 for task in curriculum.tasks])
        return spaces, HostParams(sizes, floors)

    def __init__(
        self,
        curriculum: Curriculum,
        method: Any,
        seeds: tuple[int, ...],
        devices: int | None = None,
        make_players: MakePlayers | None = None,
    ):
        super().__init__(curriculum, method, seeds, devices)
        self._acting = self.lanes.compile(self._acting_of_agent)
        self._judged = self.lanes.compile(self._judged_of_agent)
        self._update = self.lanes.compile(self._update_agent)
        make = make_players or PLAYERS[curriculum.hosting.stepping]
        self.players = make(self, seeds)

    def _init_agent(self, key: PRNGKey, _: Any) -> BetweenTasks:
        resting = super()._init_agent(key, _)
        chosen = self._curriculum.normalise
        rows = 1 if chosen.shared else len(self._curriculum.tasks)
        inputs = math.prod(self.setting.env.observation_space.shape or ())
        statistics = Statistics(
            Moments.none(rows, (inputs,)) if chosen.observations else None,
            Moments.none(rows, ()) if chosen.rewards else None,
        )
        return resting._replace(statistics=statistics)

    def _begin_agent(self, agent: Any, shared: Any) -> tuple[Agent, None]:
        (resting, key), (visit, task) = agent, shared
        visit_key = jax.random.fold_in(jax.random.fold_in(key, LIFE), visit)
        method_key, _, run_key = jax.random.split(visit_key, 3)
        brought = jnp.stack([task.params.floor, jnp.zeros(())])
        begun = device.begin_with(
            self.setting, resting, task, brought, method_key, run_key
        )
        return begun, None

    def _acting_of_agent(self, agent: Agent, task: TaskData) -> BehaviourPolicy:
        keys = jax.random.split(agent.live.key, 4)
        live = agent.live
        network = self.setting.method.network(agent.method, live.trainable, keys[1])
        return BehaviourPolicy(network, live.statistics, keys[2])

    def _judged_of_agent(self, agent: Agent, task: TaskData) -> BehaviourPolicy:
        """Return what is evaluated on a task."""
        method, live = self.setting.method, agent.live
        network = method.policy(agent.method, live.trainable, task.number)
        return BehaviourPolicy(
            network, live.statistics, jax.random.fold_in(live.key, JUDGED)
        )

    def on_task(self, acting: BehaviourPolicy, task: TaskData) -> Network:
        """Return a network of a task's observations, as its environments show them."""
        return self._network(acting.network, acting.statistics, task)

    def _network(self, network: Network, seen: Statistics, task: TaskData) -> Network:
        encoder = self.setting.encoder

        def act(observation: Observation) -> tuple[Distribution, Scalar]:
            flat = seen.observed(task.number, shown(observation))
            recalls = isinstance(observation, WithPreviousStep)
            given = observation._replace(shown=flat) if recalls else flat
            policy, value = network(encoder(given, task.label))
            if isinstance(policy, Categorical):
                has = jnp.arange(policy.logits.size) < task.params.num_actions
                policy = Categorical(jnp.where(has, policy.logits, NEVER))
            return policy, value

        return act

    def _sees(self, agent: Agent, task: TaskData) -> InputPipeline:
        return lambda network: self._network(network, agent.live.statistics, task)

    def _update_agent(
        self,
        given: tuple[
            Agent, Any, Rollout, Float[Array, "..."], Float[Array, " measures"]
        ],
        task: TaskData,
    ) -> Any:
        """Learn from one rollout and memories, if there are any.

        `cut` is the value of what time limits cut off.
        """
        (agent_now, recalled, rollout, cut, brought), setting = given, self.setting
        state, live = agent_now.method, agent_now.live
        key, _, _, update_key = jax.random.split(live.key, 4)
        steps, seen = rollout.steps, live.statistics
        valid = jnp.ones_like(steps.done) if steps.valid is None else steps.valid
        scaled = seen.with_rewards(task.number, steps.reward, valid)
        reward = self._clipped(scaled.rewarded(task.number, steps.reward)) + cut
        rollout = rollout._replace(steps=steps._replace(reward=reward))
        pipeline, replay_term = self._sees(agent_now, task), None
        if recalled is not None:
            placed = self._sees_placed(agent_now)
            replay_term = device.replay_loss(setting, state, placed, recalled)

        def network_of(trainable: Any, key: PRNGKey) -> Network:
            return pipeline(setting.method.network(state, trainable, key))

        learner_state, trainable, metrics, samples = setting.learner.update(
            live.learner_state,
            live.trainable,
            network_of,
            lambda trainable: setting.method.penalty(state, trainable),
            rollout,
            live.progress(task),
            update_key,
            replay_term,
        )
        # What acted is what was updated: observations count from the next rollout on.
        seen_now = shown(steps.observation)
        grown = scaled.with_observations(task.number, seen_now, valid)
        # Where no episode has ended the last return stands.
        worlds = jnp.where(jnp.isnan(brought), live.envs, brought)
        scores = dict(zip(MEASURES, worlds, strict=True))
        if setting.protocol.measure != "success":
            del scores["success"]
        live = live._replace(
            envs=worlds,
            trainable=trainable,
            learner_state=learner_state,
            key=key,
            statistics=grown,
            iteration=live.iteration + 1,
        )
        kept: Any = samples if setting.method.traits.accumulates_gradient else None
        if setting.method.traits.replay is not None:
            network = network_of(agent_now.live.trainable, update_key)
            kept = device.kept_of(setting, network, task, rollout)
        norm = {"trainable_norm": device.norm(trainable)}
        return live, {**scores, **norm, **metrics}, kept

    def _clipped(self, rewards: Float[Array, "..."]) -> Float[Array, "..."]:
        bound = self._curriculum.normalise.clip_rewards
        return rewards if bound is None else jnp.clip(rewards, -bound, bound)

    @property
    def hosting(self) -> Hosting:
        """How environments are stepped."""
        return self._curriculum.hosting

    @property
    def evaluators(self) -> int:
        """How many chunks may be judged at a time, and lost if the run is killed."""
        return self.hosting.evaluators if self.players.judges_beside else 1

    @property
    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self._curriculum.tasks)

    def begin(
        self, resting: BetweenTasks, visit: int, learned: int
    ) -> tuple[Agent, None]:
        """Put all agents at the start of a visit, in fresh environments."""
        begun, _ = super().begin(resting, visit, learned)
        self.players.begin(visit)
        return begun, None

    def chunk(
        self, agents: Agent, visit: int, iterations: int
    ) -> tuple[Agent, ChunkResult]:
        """Train all agents for some iterations and evaluate them, at once or later."""
        metrics, experience = [], []
        for _ in range(iterations):
            agents, measured, kept = self.iterate(agents, visit)
            metrics.append(measured)
            experience.append(self.lanes.fetch(kept))
        fetched = self.lanes.fetch(metrics)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *fetched)
        looked_back_on = None
        if experience[0] is not None:
            looked_back_on = jax.tree.map(lambda *x: np.stack(x, 1), *experience)
        result = ChunkResult(
            stacked,
            None,
            looked_back_on,
            None if self.memory is None else self.memory.snapshot(),
            self.players.snapshot(),
            actors=self.players.report(),
            play=partial(self._play, agents, self.setting.protocol),
        )
        return agents, result if self.players.judges_beside else result.judged()

    def iterate(self, agents: Agent, visit: int) -> tuple[Agent, Any, Any]:
        """Collect one rollout and learn from it; return also what was measured, and
        what the method will look back on.

        What the devices measure is left there, so that nobody waits for it.
        """  # noqa: D205
        task = self.task(visit)
        acting = self._acting(agents, task)
        collected = self.players.collect(acting, visit)
        none_ended, none_told = np.isnan(collected.brought.T)
        judged = self.setting.protocol.measure
        if judged == "success" and (none_told & ~none_ended).any():
            raise self._untold(self.task_of(visit))
        placed = self.lanes.place(collected.to_learn)
        live, measured, kept = self._update((agents, self._recalled(), *placed), task)
        for leaf in measured.values():
            leaf.copy_to_host_async()
        if collected.lag is not None:
            lag = np.full(len(collected.brought), collected.lag, np.float32)
            measured = {**measured, "policy_lag": lag}
        if self.memory is not None:
            self.memory.add(kept)
            kept = None
        return Agent(agents.method, live), measured, kept

    def evaluate(self, agents: Agent, protocol: Evaluation) -> np.ndarray:
        """Play every task with all agents, `[agent, task, episode]`."""
        played = self._play(agents, protocol)
        return played.returns if played.success is None else played.success

    def _untold(self, index: int) -> PersonaeError:
        return PersonaeError(
            f"task {self.tasks.name(index)!r} is judged by success, but an episode "
            'ended without telling it: info["success"], at one of its steps at least'
        )

    def _play(self, agents: Agent, protocol: Evaluation) -> Played:
        """Play episodes of all exams."""
        returns, success = self.players.evaluate(
            lambda index: self._judged(agents, self.task_data(index)), protocol
        )
        counted, tasks = returns, self.num_tasks
        if protocol.measure == "success":
            for exam in np.flatnonzero(np.isnan(success).any((0, 2))):
                raise self._untold(self.tasks.exams[int(exam)].task)
            counted = success
        told = None if counted is returns else success[:, :tasks]
        unseen = counted[:, tasks:] if counted.shape[1] > tasks else None
        return Played(returns[:, :tasks], told, unseen)

    def film(self, agents: Agent, which: int, task: int, greedy: bool) -> Film:
        """Play one episode of a task with one agent, and draw each step."""
        acting = self._judged(agents, self.task_data(task))
        return self.players.film(acting, which, task, greedy)

    def _prepare_training(
        self, agents: Agent, visit: int, iterations: Iterable[int]
    ) -> None:
        task = self.task(visit)
        self._acting.prepare(agents, task)
        self._judged.prepare(agents, task)
        recalled = self._recalled_shapes(agents, visit)
        given = (agents, recalled, *self.players.rollout_shapes())
        self._update.prepare(given, task)

    def kept_shapes(self, agents: Agent, visit: int) -> Any:
        """Return the shapes of what may be remembered of a rollout of all agents."""
        given = (agents, None, *self.players.rollout_shapes())
        return self._update.shapes(given, self.task(visit))[2]

    def experience_shapes(self, agents: Agent, visit: int, iterations: int) -> Any:
        """Return the shapes of what so many iterations learn from."""
        samples = self.kept_shapes(agents, visit)

        def stacked(leaf: Any) -> Any:
            shape = (leaf.shape[0], iterations, *leaf.shape[1:])
            return jax.ShapeDtypeStruct(shape, leaf.dtype)

        return self.lanes.shapes_of_agents(jax.tree.map(stacked, samples))

    def spaces_of(self, task: int) -> tuple[Any, Any]:
        """Return what a task shows, and what actions it takes."""
        return self.tasks.fit.observations[task], self.tasks.fit.actions[task]

    def resume_worlds(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Bring environments back to where they were."""
        self.players.resume(visit, saved)

    def close(self) -> None:
        """End all environments, and finish writing memories."""
        self.players.close()
        super().close()
