"""Acting in environments outside JAX: rollouts to learn from, episodes to be judged."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import jax
import numpy as np

from personae.curricula.spec import Evaluation
from personae.envs.host import SeededWorlds, Step, VectorWorlds
from personae.envs.tally import MEASURES, Tally, mean_of_ended
from personae.errors import PersonaeError
from personae.training.film import LONGEST_FILM, Film
from personae.training.host_tasks import EVALUATION, TRAINING, episode_seed
from personae.training.recall import Recall, action_layout
from personae.training.seat import LONGEST_EPISODE
from personae.types import Recalled, Rollout, Transition, shown

if TYPE_CHECKING:
    from personae.training.host import Acting, HostPrograms


class Players:
    """All agents in all their environments; slot i belongs to agent i // slots."""

    def __init__(self, programs: "HostPrograms", seeds: tuple[int, ...]):
        self._programs = programs
        self._seeds = seeds
        learner = programs.setting.learner
        self._num_envs, self._length = learner.num_envs, learner.rollout_length
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self._value = jax.jit(self._value_all)
        self._worlds: SeededWorlds | VectorWorlds | None = None
        self._judges: dict[int, SeededWorlds | VectorWorlds] = {}
        self._observations: Any = np.zeros(0)
        self._recall: Recall | None = None
        self._tally = Tally(0)

    def _acts(
        self, acting: "Acting", task: Any, greedy: bool
    ) -> Callable[[np.ndarray, int], Any]:
        """Return what acts on observations at a time.

        Nothing is left to be taken apart at each step, which would take as long as the
        network does.
        """
        leaves, form = jax.tree.flatten((acting, task))

        def act(leaves: Any, observations: Any, t: Any) -> Any:
            acting, task = jax.tree.unflatten(form, leaves)
            return self._act_all(acting, task, observations, t, greedy)

        compiled = self._compiled.setdefault((form, greedy), jax.jit(act))
        return partial(compiled, leaves)

    def _act_all(
        self, acting: "Acting", task: Any, observations: Any, t: Any, greedy: bool
    ) -> Any:
        """Return action, log-probability and value, `[agent, env, ...]`."""

        def of_agent(acting: "Acting", seen: Any) -> Any:
            network = self._programs.on_task(acting, task)
            policy, value = jax.vmap(network)(seen)
            key = jax.random.fold_in(acting.key, t)
            action = policy.mode() if greedy else policy.sample(key)
            return action, policy.log_prob(action), value

        return jax.vmap(of_agent)(acting, observations)

    def _value_all(self, acting: "Acting", task: Any, observations: Any) -> Any:
        def of_agent(acting: "Acting", seen: Any) -> Any:
            return jax.vmap(self._programs.on_task(acting, task))(seen)[1]

        return jax.vmap(of_agent)(acting, observations)

    def begin(self, visit: int) -> None:
        """Open the environments of a visit."""
        self._open(visit)
        assert self._worlds is not None
        self._recall = self._make_recall(self._num_envs)
        self._see(visit, self._worlds.start())
        self._tally = Tally(len(self._seeds) * self._num_envs)

    def _make_recall(self, slots: int) -> Recall | None:
        space = self._programs.setting.encoder.recalled
        return None if space is None else Recall(space, len(self._seeds) * slots)

    def _open(self, visit: int) -> None:
        self._close_worlds()

        def seed_of(slot: int, episode: int) -> int:
            agent, env = divmod(slot, self._num_envs)
            return episode_seed(TRAINING, self._seeds[agent], visit, env, episode)

        num = len(self._seeds) * self._num_envs
        index = self._programs.task_of(visit)
        self._worlds = self._programs.tasks.make_worlds(index, num, seed_of)

    def _see(self, visit: int, shown: np.ndarray) -> None:
        index = self._programs.task_of(visit)
        self._observations = self._seen(index, shown.copy(), self._recall)

    def _seen(self, index: int, shown: np.ndarray, recall: Recall | None) -> Any:
        """Return what networks see in all environments, `[agent, env, ...]`."""
        seen: Any = self._programs.tasks.fit.observe(index, shown)
        return jax.tree.map(self._by_agent, recall.beside(seen) if recall else seen)

    def collect(
        self, acting: "Acting", visit: int
    ) -> tuple[Rollout, np.ndarray, np.ndarray]:
        """Act for one rollout.

        Return it with the agents in front, the discounted value of what time limits
        cut off at each step, and the mean of the episodes that ended, `[measure,
        agent]`, which is not a number where none did.
        """
        index, agents = self._programs.task_of(visit), len(self._seeds)
        task, acting = self._programs.task(visit), self._here(acting)
        learner = self._programs.setting.learner
        steps: list[Transition] = []
        cuts = []
        brought = []
        act = self._acts(acting, task, greedy=False)
        for t in range(self._length):
            seen = self._observations
            given = act(seen, t)
            action, log_prob, value = map(np.asarray, given)
            step = self._step(index, action)
            done = self._by_agent(step.terminated | step.truncated)
            valid = self._by_agent(step.valid)
            reward = self._by_agent(step.rewards).astype(np.float32)
            cut = np.zeros_like(reward)
            lost = self._by_agent(step.truncated & ~step.terminated)
            if learner.bootstrap_truncated and lost.any():
                last = self._seen(index, step.last, self._recall)
                after = np.asarray(self._value(acting, task, last))
                cut = np.where(lost, learner.discount * after, 0).astype(np.float32)
            if self._recall is not None:
                self._recall.note(action.reshape(-1, *action.shape[2:]), step)
            self._see(visit, step.observations)
            brought.append(_brought(self._tally, step))
            checked = None if self._programs.tasks.seeded else valid
            numbers: Any = (seen, action, log_prob, value, reward, done, checked)
            steps.append(Transition(*numbers))
            cuts.append(cut)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *steps)
        ended = np.stack(brought, -1).reshape(len(MEASURES), agents, -1)
        rollout = Rollout(stacked, self._observations)
        return rollout, np.stack(cuts, 1), mean_of_ended(ended)

    def _here(self, acting: "Acting") -> "Acting":
        """Bring what acts to one device: a call per step is cheaper there."""
        keys = acting.key[: len(self._seeds)]
        rest = jax.tree.map(lambda x: x[: len(self._seeds)], acting._replace(key=keys))
        return jax.device_put(rest, jax.devices()[0])

    def _step(self, index: int, action: np.ndarray) -> Step:
        assert self._worlds is not None
        flat = action.reshape(-1, *action.shape[2:])
        return self._worlds.step(self._programs.tasks.fit.act(index, flat))

    def _by_agent(self, flat: np.ndarray) -> np.ndarray:
        return flat.reshape(len(self._seeds), -1, *flat.shape[1:])

    def evaluate(
        self, acting_of: Callable[[int], "Acting"], protocol: Evaluation
    ) -> np.ndarray:
        """Play episodes of every task with each agent, the same ones each time.

        Return what they brought, `[measure, agent, task, episode]`.
        """
        tasks = range(self._programs.num_tasks)
        played = [self._evaluate(acting_of(index), index, protocol) for index in tasks]
        return np.stack(played, 2)

    def _evaluate(
        self, acting: "Acting", index: int, protocol: Evaluation
    ) -> np.ndarray:
        slots = min(protocol.episodes, max(self._num_envs, 1))
        worlds = self._judge(index, slots)
        agents, acting = len(self._seeds), self._here(acting)
        task = self._programs.task_data(index)
        fit, recall = self._programs.tasks.fit, self._make_recall(slots)
        episodes: list[list[np.ndarray]] = [[] for _ in range(agents * slots)]
        wanted = -(-protocol.episodes // slots)
        tally = Tally(agents * slots)
        shown = worlds.start()
        act = self._acts(acting, task, protocol.greedy)
        for t in range(LONGEST_EPISODE):
            given = act(self._seen(index, shown, recall), t)
            flat = np.asarray(given[0]).reshape(agents * slots, *given[0].shape[2:])
            step = worlds.step(fit.act(index, flat))
            if recall is not None:
                recall.note(flat, step)
            brought = _brought(tally, step)
            for slot in np.flatnonzero(step.terminated | step.truncated):
                episodes[slot].append(brought[:, slot])
            if all(len(played) >= wanted for played in episodes):
                break
            shown = step.observations
        else:
            raise self._never_ends(index)
        played = np.array([each[:wanted] for each in episodes])
        played = played.reshape(agents, -1, len(MEASURES))[:, : protocol.episodes]
        return np.moveaxis(played, -1, 0).astype(np.float32)

    def _never_ends(self, index: int) -> PersonaeError:
        return PersonaeError(
            f"an episode of task {self._programs.tasks.name(index)!r} did not end "
            f"within {LONGEST_EPISODE} steps; give the environment a time limit "
            "(max_episode_steps)"
        )

    def _judge(self, index: int, slots: int) -> SeededWorlds | VectorWorlds:
        """Return the environments that a task is evaluated in, made once.

        They are never processes of their own: there would be one for each task.
        """

        def seed_of(slot: int, episode: int) -> int:
            agent, place = divmod(slot, slots)
            seed = self._seeds[agent]
            return episode_seed(EVALUATION, seed, index, place, episode)

        if index not in self._judges:
            num = len(self._seeds) * slots
            made = self._programs.tasks.make_worlds(index, num, seed_of, "sync")
            self._judges[index] = made
        return self._judges[index]

    def film(self, acting: "Acting", which: int, index: int, greedy: bool) -> Film:
        """Play one episode of a task with one agent, and draw each step."""
        tasks = self._programs.tasks
        acting = jax.tree.map(lambda x: x[which : which + 1], self._here(acting))
        with closing(tasks.make_filmed(index)) as env:
            return self._film(env, acting, which, index, greedy)

    def _film(
        self, env: Any, acting: "Acting", which: int, index: int, greedy: bool
    ) -> Film:
        tasks, task = self._programs.tasks, self._programs.task_data(index)
        seed = episode_seed(EVALUATION, self._seeds[which], index, 0, 0)
        observation, _ = env.reset(seed=seed)
        frames, total = [_drawn(env, tasks.name(index))], 0.0
        act = self._acts(acting, task, greedy)
        space = self._programs.setting.encoder.recalled
        recall = None if space is None else Recall(space, 1)
        for t in range(LONGEST_FILM):
            seen: Any = tasks.fit.observe(index, np.asarray(observation)[None])
            seen = recall.beside(seen) if recall else seen
            given = act(jax.tree.map(lambda leaf: leaf[None], seen), t)
            chosen = np.asarray(given[0])[0]
            action = tasks.fit.act(index, chosen)[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            if recall is not None:
                recall.remember(chosen, np.array([reward]), np.array([True]))
            frames.append(_drawn(env, tasks.name(index)))
            total += float(reward)
            if terminated or truncated:
                return Film(frames, total, whole=True)
        return Film(frames, total, whole=False)

    def snapshot(self) -> Mapping[str, np.ndarray] | None:
        """Return what brings the environments back: episodes, and actions in them."""
        if not isinstance(self._worlds, SeededWorlds):
            return None
        episodes = self._worlds.episodes.copy()
        seen = np.asarray(shown(self._observations))
        packed = pack(episodes, self._worlds.actions, seen)
        return packed | (self._recall.save() if self._recall else {})

    def resume(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Bring environments back to where they were, or begin anew if none can."""
        if saved is None:
            self.begin(visit)
            return
        self._open(visit)
        assert isinstance(self._worlds, SeededWorlds)
        logs = unpack_actions(saved)
        self._tally = Tally(len(logs))
        self._recall = self._make_recall(self._num_envs)
        if self._recall is not None:
            self._recall.restore(saved)
        self._see(visit, self._worlds.repeat(saved["episodes"], logs, self._tally))
        if not np.array_equal(shown(self._observations), saved["observations"]):
            say_not_repeated()

    def rollout_shapes(self) -> Any:
        """Return the shapes of a rollout, and of the values of what was cut off."""
        env = self._programs.setting.env
        seen, many = env.observation_space, (len(self._seeds), self._length)
        each = (*many, self._num_envs)

        def shape(*parts: int, dtype: Any = np.float32) -> Any:
            return jax.ShapeDtypeStruct(parts, dtype)

        number = shape(*each)
        flag = shape(*each, dtype=np.bool_)
        size, kind = action_layout(env.action_space)

        def observation(*axes: int) -> Any:
            shown = shape(*axes, *seen.shape, dtype=seen.dtype)
            if self._programs.setting.encoder.recalled is None:
                return shown
            return Recalled(shown, shape(*axes, *size, dtype=kind), shape(*axes))

        steps = Transition(
            observation(*each),
            shape(*each, *size, dtype=kind),
            number,
            number,
            number,
            flag,
            None if self._programs.tasks.seeded else flag,
        )
        last = observation(len(self._seeds), self._num_envs)
        return self._programs.lanes.shapes_placed((Rollout(steps, last), number))

    def _close_worlds(self) -> None:
        if self._worlds is not None:
            self._worlds.close()
        self._worlds = None

    def close(self) -> None:
        """End all environments."""
        self._close_worlds()
        for worlds in self._judges.values():
            worlds.close()
        self._judges = {}


def pack(
    episodes: np.ndarray, actions: Sequence[Sequence[Any]], observations: np.ndarray
) -> dict[str, np.ndarray]:
    """Return what brings environments back, as arrays."""
    done = [action for log in actions for action in log]
    return {
        "episodes": episodes,
        "lengths": np.array([len(log) for log in actions]),
        "actions": np.stack(done) if done else np.zeros(0),
        "observations": observations,
    }


def unpack_actions(saved: Mapping[str, np.ndarray]) -> list[list[Any]]:
    """Return what was done in each environment's episode."""
    ends = np.cumsum(saved["lengths"])[:-1]
    return [list(log) for log in np.split(saved["actions"], ends)]


def say_not_repeated() -> None:
    """Warn of environments that cannot be brought back."""
    print(
        "environments are not where they were, though they did the same: they do not "
        "repeat themselves, and the run is not that of an uninterrupted one from here "
        "on",
        file=sys.stderr,
    )


def _brought(tally: Tally, step: Step) -> np.ndarray:
    """Count a step; return what episodes brought where they ended, else nan."""
    tally.count(step.rewards, step.success, step.valid)
    return tally.end(step.terminated | step.truncated)


def _drawn(env: Any, task: str) -> np.ndarray:
    try:
        frame = env.render()
    except gym.error.DependencyNotInstalled as error:
        raise PersonaeError(f"task {task!r} cannot be filmed: {error}") from error
    if not isinstance(frame, np.ndarray):
        raise PersonaeError(
            f"task {task!r} cannot be filmed: its environment draws no rgb_array"
        )
    return frame.astype(np.uint8)
