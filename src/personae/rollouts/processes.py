"""Actors in processes, which act by themselves for a rollout: `stepping` actors.

For slow environments: no environment waits for another at each step. Policies act in
NumPy there; the log-probabilities and values that an update needs are computed here.
"""

import math
from collections.abc import Callable, Mapping
from itertools import product
from operator import itemgetter
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import Float

from personae import encoding
from personae.backend import available_cores
from personae.curricula import Evaluation
from personae.envs.episode_stats import MEASURES, mean_of_finished
from personae.errors import require
from personae.policy.architecture import InputSpec, assemble
from personae.policy.jax.translate import architecture_of, arrays_of
from personae.policy.runtime import TaskPolicy
from personae.rollouts.collector import pack_episodes, unpack_actions, warn_of_drift
from personae.rollouts.contract import (
    BehaviourPolicy,
    CollectedRollout,
    EnvSnapshot,
    PolicyOfTask,
)
from personae.rollouts.env_worker import EpisodeSnapshot, WorkerRollout
from personae.rollouts.evaluation import endless_episode
from personae.rollouts.host_context import HostContext
from personae.rollouts.host_tasks import EVALUATION, TRAINING
from personae.rollouts.policies import HostPolicies
from personae.rollouts.worker_pool import EvalEpisode, WorkerPool
from personae.types import Rollout, Transition

T = TypeVar("T")


def check_processes(context: HostContext) -> None:
    """Refuse settings that policies in processes cannot honour."""
    require(
        context.tasks.seeded,
        "environments of EnvPool have threads of their own: leave out hosting.stepping",
    )
    require(
        context.pipeline.encoder.previous_action_space is None,
        "agents in processes of their own (hosting.stepping actors) do not see the "
        "previous action and reward: leave out inputs.previous_step",
    )
    require(
        not any(task.unseen for task in context.eval_tasks),
        "agents in processes of their own (hosting.stepping actors) are evaluated on "
        "the tasks as they are trained only: leave out unseen of all tasks",
    )


class LazyPool:
    """A pool of processes that starts when it is first needed."""

    def __init__(self, context: HostContext):
        self._context = context
        self._pool: WorkerPool | None = None

    @property
    def processes(self) -> WorkerPool:
        """The pool: one process for each core, fewer if there is less to do."""
        if self._pool is None:
            context = self._context
            episodes = context.num_agents * context.eval_episodes
            at_once = max(context.num_agents * context.num_envs, episodes)
            size = min(available_cores(), at_once)
            factories = context.tasks.factories
            self._pool = WorkerPool(size, factories, context.tasks.spaces)
        return self._pool

    def close(self) -> None:
        """End the processes, if they were started."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None


class ProcessActors:
    """Collects in processes; returns when all of them have finished their rollout."""

    def __init__(self, context: HostContext, policies: HostPolicies, pool: LazyPool):
        self._context, self._policies, self._pool = context, policies, pool
        self._num_slots = context.num_agents * context.num_envs

    @property
    def acts_during_training(self) -> bool:
        """Processes wait while agents learn."""
        return False

    def _share_out(self, of_slot: Callable[[int], T]) -> list[dict[int, T]]:
        """Return a value of each slot, by the process that has the slot."""
        # Dealt out in turn, so that each process has environments of most agents.
        size = self._pool.processes.size
        return [
            {slot: of_slot(slot) for slot in range(first, self._num_slots, size)}
            for first in range(size)
        ]

    def _seeds(self, visit: int) -> list[dict[int, tuple[int, ...]]]:
        """Return the numbers that identify episodes, by process and slot."""

        def seeds(slot: int) -> tuple[int, ...]:
            agent, env = divmod(slot, self._context.num_envs)
            return TRAINING, self._context.seeds[agent], visit, env

        return self._share_out(seeds)

    def _open(self, visit: int) -> None:
        index = self._context.table.index_of_visit(visit)
        requests = [(index, list(slots)) for slots in self._seeds(visit)]
        self._pool.processes.ask("open", requests)

    def begin(self, visit: int) -> None:
        """Open the environments of a visit."""
        self._open(visit)
        requests = [(seeds,) for seeds in self._seeds(visit)]
        self._pool.processes.ask("start", requests)

    def collect(self, policy: BehaviourPolicy, visit: int) -> CollectedRollout:
        """Act for one rollout in all processes."""
        context, task = self._context, self._context.table.of_visit(visit)
        rollouts = self._collect_in_processes(policy, visit)
        observations = self._stack([rollout.observations for rollout in rollouts])
        actions = self._stack([rollout.actions for rollout in rollouts])
        done = [rollout.terminated | rollout.truncated for rollout in rollouts]
        # NumPy and JAX round differently; the update must see its own numbers.
        answer = self._policies.log_prob_and_value(policy, task, observations, actions)
        numbers: Any = (
            observations,
            actions,
            np.asarray(answer.log_prob),
            np.asarray(answer.value),
            self._stack([rollout.rewards for rollout in rollouts]),
            self._stack(done),
        )
        last: Any = context.by_agent(np.stack([rollout.last for rollout in rollouts]))
        bootstrap = self._bootstrap(policy, visit, rollouts, observations)
        rollout = Rollout(Transition(*numbers), last)
        return CollectedRollout(rollout, bootstrap, self._mean_measures(rollouts))

    def _collect_in_processes(
        self, policy: BehaviourPolicy, visit: int
    ) -> list[WorkerRollout]:
        """Return the rollouts of all slots, in order."""
        num_envs = self._context.num_envs
        index = self._context.table.index_of_visit(visit)
        policies = numpy_policies(self._context, policy, index)
        keys = key_words(policy)

        def action_seed(slot: int) -> list[int]:
            agent, env = divmod(slot, num_envs)
            return [*keys[agent], env]

        shares = zip(
            self._share_out(lambda slot: policies[slot // num_envs]),
            self._share_out(action_seed),
            strict=True,
        )
        requests = [(*share, self._context.rollout_length) for share in shares]
        answers = self._pool.processes.ask("collect", requests)
        by_slot = {slot: part for answer in answers for slot, part in answer.items()}
        return [by_slot[slot] for slot in range(self._num_slots)]

    def _stack(self, of_slots: list[np.ndarray]) -> np.ndarray:
        """Turn `[slot, time, ...]` into `[agent, time, env, ...]`."""
        return self._context.by_agent(np.stack(of_slots)).swapaxes(1, 2)

    def _bootstrap(
        self,
        policy: BehaviourPolicy,
        visit: int,
        rollouts: list[WorkerRollout],
        observations: np.ndarray,
    ) -> np.ndarray:
        """Return the discounted values of states that time limits cut off."""
        context = self._context
        bootstrap = np.zeros(observations.shape[:3], np.float32)
        cut_any = any(rollout.cut for rollout in rollouts)
        # Most rollouts have no time limit in them, and need no values.
        if not context.bootstrap_truncated or not cut_any:
            return bootstrap
        last = np.zeros_like(observations)
        for slot, rollout in enumerate(rollouts):
            agent, env = divmod(slot, context.num_envs)
            for time, observation in rollout.cut.items():
                last[agent, time, env] = observation
                bootstrap[agent, time, env] = context.discount
        flat = last.reshape(len(last), -1, *last.shape[3:])
        task = context.table.of_visit(visit)
        values = np.asarray(self._policies.value(policy, task, flat))
        return bootstrap * values.reshape(bootstrap.shape)

    def _mean_measures(
        self, rollouts: list[WorkerRollout]
    ) -> Float[np.ndarray, "agents measures"]:
        """Return the means of each agent's episodes that ended."""
        means = []
        for agent in range(self._context.num_agents):
            first = agent * self._context.num_envs
            own = rollouts[first : first + self._context.num_envs]
            ended = [episode for rollout in own for episode in rollout.measures]
            by_measure = np.array(ended).reshape(-1, len(MEASURES)).T
            means.append(mean_of_finished(by_measure))
        return np.stack(means).astype(np.float32)

    def report(self) -> Mapping[str, list[float]] | None:
        """Return nothing: processes of one machine are much alike."""
        return None

    def snapshot(self) -> EnvSnapshot | None:
        """Return the running episodes, and the actions in them."""
        pool = self._pool.processes
        answers = pool.ask("save", [()] * pool.size)
        by_slot = {slot: part for answer in answers for slot, part in answer.items()}
        episodes: list[EpisodeSnapshot] = [
            by_slot[slot] for slot in range(self._num_slots)
        ]
        observations = np.stack([episode.observation for episode in episodes])
        return pack_episodes(
            np.array([episode.episode for episode in episodes]),
            [episode.actions for episode in episodes],
            self._context.by_agent(observations),
        )

    def resume(self, visit: int, snapshot: EnvSnapshot | None) -> None:
        """Bring environments back, or begin anew if there is no snapshot."""
        if snapshot is None:
            self.begin(visit)
            return
        self._open(visit)
        actions, observations = unpack_actions(snapshot), snapshot["observations"]
        flat = observations.reshape(self._num_slots, *observations.shape[2:])

        def episode(slot: int) -> EpisodeSnapshot:
            number = int(snapshot["episodes"][slot])
            return EpisodeSnapshot(number, actions[slot], flat[slot])

        requests = zip(self._seeds(visit), self._share_out(episode), strict=True)
        if not all(self._pool.processes.ask("repeat", list(requests))):
            warn_of_drift()

    def close(self) -> None:
        """End all processes."""
        self._pool.close()


class ProcessEvaluator:
    """Plays episodes in the processes that actors use."""

    def __init__(self, context: HostContext, pool: LazyPool):
        self._context, self._pool = context, pool

    def evaluate(
        self, policy_of: PolicyOfTask, protocol: Evaluation
    ) -> Float[np.ndarray, "measures agents tasks episodes"]:
        """Return the measures of each episode, shared out over all processes."""
        context = self._context
        tasks, agents = range(context.table.num_tasks), range(context.num_agents)
        policies: dict[tuple[int, int], TaskPolicy] = {}
        episodes = []
        slots = min(protocol.episodes, context.num_envs)
        per_slot = math.ceil(protocol.episodes / slots)
        for task in tasks:
            policy = policy_of(task)
            keys = key_words(policy)
            for agent, own in enumerate(numpy_policies(context, policy, task)):
                policies[task, agent] = own
            # With the seeds of `VectorEvaluator`, so that both play the same episodes.
            for agent, number in product(agents, range(protocol.episodes)):
                position = divmod(number, per_slot)
                seeds = (EVALUATION, context.seeds[agent], task, *position)
                action_seed = None if protocol.greedy else [*keys[agent], task, number]
                episodes.append(EvalEpisode(task, agent, seeds, action_seed))
        measures = self._play(policies, episodes)
        shape = (len(tasks), len(agents), protocol.episodes, len(MEASURES))
        return measures.reshape(shape).transpose(3, 1, 0, 2)

    def _play(
        self,
        policies: Mapping[tuple[int, int], TaskPolicy],
        episodes: list[EvalEpisode],
    ) -> Float[np.ndarray, "episodes measures"]:
        pool, requests = self._pool.processes, []
        for first in range(pool.size):
            share = episodes[first :: pool.size]
            # A policy is as large as its network: only those that are used travel.
            needed = {(episode.task, episode.agent) for episode in share}
            requests.append(({key: policies[key] for key in needed}, share))
        measures = np.zeros((len(episodes), len(MEASURES)), np.float32)
        for first, answers in enumerate(pool.ask("evaluate", requests)):
            for index, answer in enumerate(answers):
                number = first + index * pool.size
                if answer is None:
                    name = self._context.tasks.name(episodes[number].task)
                    raise endless_episode(name)
                measures[number] = answer
        return measures

    def close(self) -> None:
        """Do nothing: the actors end the processes that both use."""


def numpy_policies(
    context: HostContext, policy: BehaviourPolicy, index: int
) -> list[TaskPolicy]:
    """Return each agent's policy on a task, as it acts in NumPy."""
    # Fetched once for all agents, which is much faster than one by one.
    on_host = policy._replace(network=jax.device_get(policy.network))
    return [
        _numpy_policy(context, jax.tree.map(itemgetter(agent), on_host), index)
        for agent in range(context.num_agents)
    ]


def _numpy_policy(
    context: HostContext, policy: BehaviourPolicy, index: int
) -> TaskPolicy:
    encoder, task = context.pipeline.encoder, context.table.task(index)
    moments, mean, deviation = policy.statistics.observations, None, None
    if moments is not None:
        row = moments.row_of(task.position)
        mean = np.asarray(moments.mean[row])
        deviation = np.asarray(moments.deviation(row))
    # Labels and statistics are constant here, so NumPy can fold them into biases.
    label = encoding.one_hot(np.asarray(task.label), encoder.label_dim)
    num_actions = context.tasks.spaces.num_actions[index]
    inputs = InputSpec(label, encoder.scale, num_actions, mean, deviation)
    network = policy.network
    return assemble(architecture_of(network), arrays_of(network), inputs)


def key_words(policy: BehaviourPolicy) -> list[list[int]]:
    """Return the numbers of each agent's random key."""
    words: list[list[int]] = np.asarray(jax.random.key_data(policy.key)).tolist()
    return words
