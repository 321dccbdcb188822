"""Agents that act by themselves in other processes, rollout by rollout."""

import math
from collections.abc import Callable, Mapping
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from personae.backbones.batching import apply_network, each
from personae.backend import available_cores
from personae.curricula import Evaluation
from personae.envs.episode_stats import MEASURES, mean_of_finished
from personae.errors import require
from personae.policy.architecture import InputSpec, assemble
from personae.policy.jax.translate import architecture_of, arrays_of
from personae.policy.runtime import TaskPolicy
from personae.rollouts.collector import (
    Collected,
    pack,
    say_not_repeated,
    unpack_actions,
)
from personae.rollouts.env_worker import Part, Saved
from personae.rollouts.host_tasks import EVALUATION, TRAINING
from personae.rollouts.vector_actors import Players
from personae.rollouts.worker_pool import Crew, Episode
from personae.types import Rollout, Transition

if TYPE_CHECKING:
    from personae.training.host_trainer import BehaviourPolicy, HostPrograms


class CrewPlayers(Players):
    """Players whose environments and policies are in processes, one for each core."""

    def __init__(self, programs: "HostPrograms", seeds: tuple[int, ...]):
        super().__init__(programs, seeds)
        require(
            programs.tasks.seeded,
            "environments of EnvPool have threads of their own: leave out "
            "hosting.stepping",
        )
        require(
            programs.setting.encoder.recalled is None,
            "agents that act by themselves (hosting.stepping actors) do not recall the "
            "last action and reward: leave out inputs.previous_step",
        )
        require(
            not any(exam.unseen for exam in programs.tasks.exams),
            "agents that act by themselves (hosting.stepping actors) are judged on "
            "what they train on only: leave out unseen of all tasks",
        )
        self._look = jax.jit(self._look_all)
        self._crew: Crew | None = None

    def _look_all(
        self, acting: "BehaviourPolicy", task: Any, seen: Any, done: Any
    ) -> Any:
        """Return log-probability and value of what was done, `[agent, time, env]`."""

        def of_agent(acting: "BehaviourPolicy", seen: Any, done: Any) -> Any:
            network = self.programs.on_task(acting, task)
            policy, value = apply_network(network, seen, axes=2)
            return policy.log_prob(done), value

        return each(of_agent, seen, 3)(acting, seen, done)

    @property
    def crew(self) -> Crew:
        """The processes, started when they are first needed."""
        if self._crew is None:
            tasks = self.programs.tasks
            self._crew = Crew(self._size, tasks.makes, tasks.fit)
        return self._crew

    @property
    def _size(self) -> int:
        """As many as there are cores, or things to do at a time."""
        episodes = len(self.seeds) * self.programs.setting.protocol.episodes
        return min(available_cores(), max(self._num_slots, episodes))

    @property
    def _num_slots(self) -> int:
        return len(self.seeds) * self._num_envs

    def _share(self, of_slot: Callable[[int], Any]) -> list[dict[int, Any]]:
        """Return something of each slot, by the process that has it."""
        size = self.crew.size
        return [
            {slot: of_slot(slot) for slot in range(worker, self._num_slots, size)}
            for worker in range(size)
        ]

    def _seats(self, visit: int) -> list[dict[int, Any]]:
        """Return the seeds of each slot's episodes."""

        def seeds(slot: int) -> tuple[int, ...]:
            agent, env = divmod(slot, self._num_envs)
            return TRAINING, self.seeds[agent], visit, env

        return self._share(seeds)

    def _open_seats(self, visit: int) -> None:
        index = self.programs.task_of(visit)
        self.crew.ask("open", [(index, list(each)) for each in self._seats(visit)])

    def begin(self, visit: int) -> None:
        """Open the environments of a visit."""
        self._open_seats(visit)
        self.crew.ask("start", [(each,) for each in self._seats(visit)])

    def collect(self, acting: "BehaviourPolicy", visit: int) -> Collected:
        """Have all act for one rollout."""
        acting, task = self.here(acting), self.programs.task(visit)
        parts = self._played(acting, self.programs.task_of(visit))
        seen = self._stacked([part.observations for part in parts])
        done = self._stacked([part.actions for part in parts])
        flags = [part.terminated | part.truncated for part in parts]
        log_prob, value = map(np.asarray, self._look(acting, task, seen, done))
        numbers: Any = (
            seen,
            done,
            log_prob,
            value,
            self._stacked([part.rewards for part in parts]),
            self._stacked(flags),
        )
        last = np.stack([part.last for part in parts])
        last = last.reshape(len(self.seeds), self._num_envs, *last.shape[1:])
        rollout = Rollout(Transition(*numbers), last)
        cut = self._cut_off(acting, task, parts, seen)
        return Collected(rollout, cut, self._brought(parts))

    def _played(self, acting: "BehaviourPolicy", index: int) -> list[Part]:
        policies, keys = self._policies(acting, index), _words(acting)

        def draws(slot: int) -> list[int]:
            agent, env = divmod(slot, self._num_envs)
            return [*keys[agent], env]

        shares = zip(
            self._share(lambda slot: policies[slot // self._num_envs]),
            self._share(draws),
            strict=True,
        )
        answers = self.crew.ask("play", [(*share, self._length) for share in shares])
        played = {slot: part for answer in answers for slot, part in answer.items()}
        return [played[slot] for slot in range(self._num_slots)]

    def _stacked(self, of_slots: list[np.ndarray]) -> np.ndarray:
        """Turn `[slot, time, ...]` into `[agent, time, env, ...]`."""
        each = np.stack(of_slots)
        each = each.reshape(len(self.seeds), self._num_envs, *each.shape[1:])
        return each.swapaxes(1, 2)

    def _cut_off(
        self, acting: "BehaviourPolicy", task: Any, parts: list[Part], seen: np.ndarray
    ) -> np.ndarray:
        """Return the discounted value of what time limits cut off at each step."""
        learner = self.programs.setting.learner
        cut = np.zeros(seen.shape[:3], np.float32)
        if not learner.bootstrap_truncated or not any(part.cut for part in parts):
            return cut
        last = np.zeros_like(seen)
        for slot, part in enumerate(parts):
            agent, env = divmod(slot, self._num_envs)
            for t, observation in part.cut.items():
                last[agent, t, env] = observation
                cut[agent, t, env] = learner.discount
        flat = last.reshape(len(last), -1, *last.shape[3:])
        return cut * np.asarray(self.value(acting, task, flat)).reshape(cut.shape)

    def _brought(self, parts: list[Part]) -> np.ndarray:
        """Return the mean of each agent's episodes that ended, `[agent, measure]`."""
        means = []
        for agent in range(len(self.seeds)):
            own = parts[agent * self._num_envs : (agent + 1) * self._num_envs]
            ended = [each for part in own for each in part.brought]
            means.append(mean_of_finished(np.array(ended).reshape(-1, len(MEASURES)).T))
        return np.stack(means).astype(np.float32)

    def _policies(self, acting: "BehaviourPolicy", index: int) -> list[TaskPolicy]:
        """Return what each agent does on a task."""
        everyone = acting._replace(network=jax.device_get(acting.network))
        return [
            self._policy(jax.tree.map(itemgetter(agent), everyone), index)
            for agent in range(len(self.seeds))
        ]

    def _policy(self, acting: "BehaviourPolicy", index: int) -> TaskPolicy:
        encoder, task = self.programs.setting.encoder, self.programs.task_data(index)
        num_actions = self.programs.tasks.fit.num_actions[index]
        moments, mean, deviation = acting.statistics.observations, None, None
        if moments is not None:
            row = moments.row_of(task.number)
            mean = np.asarray(moments.mean[row])
            deviation = np.asarray(moments.deviation(row))
        label = np.eye(1, encoder.label_dim, int(task.label), dtype=np.float32)[0]
        sight = InputSpec(label, encoder.scale, num_actions, mean, deviation)
        network = acting.network
        return assemble(architecture_of(network), arrays_of(network), sight)

    def evaluate(
        self, acting_of: Callable[[int], "BehaviourPolicy"], protocol: Evaluation
    ) -> np.ndarray:
        """Play episodes of all tasks, shared out over all processes."""
        tasks, agents = range(self.programs.num_tasks), range(len(self.seeds))
        policies: dict[tuple[int, int], TaskPolicy] = {}
        episodes = []
        slots = min(protocol.episodes, self._num_envs)
        each = math.ceil(protocol.episodes / slots)
        for task in tasks:
            acting = self.here(acting_of(task))
            keys = _words(acting)
            for agent, policy in enumerate(self._policies(acting, task)):
                policies[task, agent] = policy
            for agent, number in product(agents, range(protocol.episodes)):
                seeds = (EVALUATION, self.seeds[agent], task, *divmod(number, each))
                draws = None if protocol.greedy else [*keys[agent], task, number]
                episodes.append(Episode(task, agent, seeds, draws))
        brought = self._judged(policies, episodes)
        shape = (len(tasks), len(agents), protocol.episodes, len(MEASURES))
        return brought.reshape(shape).transpose(3, 1, 0, 2)

    def _judged(
        self, policies: Mapping[tuple[int, int], TaskPolicy], episodes: list[Episode]
    ) -> np.ndarray:
        size, orders = self.crew.size, []
        for worker in range(size):
            own = episodes[worker::size]
            needed = {(each.task, each.agent) for each in own}
            orders.append(({key: policies[key] for key in needed}, own))
        brought = np.zeros((len(episodes), len(MEASURES)), np.float32)
        for worker, answers in enumerate(self.crew.ask("judge", orders)):
            for place, answer in enumerate(answers):
                number = worker + place * size
                if answer is None:
                    raise self.never_ends(episodes[number].task)
                brought[number] = answer
        return brought

    def snapshot(self) -> Mapping[str, np.ndarray] | None:
        """Return what brings the environments back: episodes, and actions in them."""
        answers = self.crew.ask("save", [()] * self.crew.size)
        saved = {slot: each for answer in answers for slot, each in answer.items()}
        seats: list[Saved] = [saved[slot] for slot in range(self._num_slots)]
        seen = np.stack([seat.observation for seat in seats])
        return pack(
            np.array([seat.episode for seat in seats]),
            [seat.actions for seat in seats],
            seen.reshape(len(self.seeds), -1, *seen.shape[1:]),
        )

    def resume(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Bring environments back to where they were."""
        if saved is None:
            self.begin(visit)
            return
        self._open_seats(visit)
        logs, seen = unpack_actions(saved), saved["observations"]
        seen = seen.reshape(self._num_slots, *seen.shape[2:])

        def seat(slot: int) -> Saved:
            return Saved(int(saved["episodes"][slot]), logs[slot], seen[slot])

        orders = list(zip(self._seats(visit), self._share(seat), strict=True))
        if not all(self.crew.ask("repeat", orders)):
            say_not_repeated()

    def close(self) -> None:
        """End all processes."""
        super().close()
        if self._crew is not None:
            self._crew.close()
        self._crew = None


def _words(acting: "BehaviourPolicy") -> list[list[int]]:
    """Return the numbers of each agent's key."""
    words: list[list[int]] = np.asarray(jax.random.key_data(acting.key)).tolist()
    return words
