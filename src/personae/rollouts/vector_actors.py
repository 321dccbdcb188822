"""Acting in environments outside JAX: rollouts to learn from, episodes to be judged."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from queue import LifoQueue
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from personae.backbones.batching import apply_network, each
from personae.curricula import Evaluation
from personae.envs.episode_stats import MEASURES
from personae.envs.vector import render_frame
from personae.errors import PersonaeError
from personae.rollouts.collector import Collected, Recorded, Stage, Tape
from personae.rollouts.env_worker import LONGEST_EPISODE
from personae.rollouts.evaluator import ActIn, Exams, Judge
from personae.rollouts.film import LONGEST_FILM, Film
from personae.rollouts.host_tasks import EVALUATION, Exam, episode_seed
from personae.rollouts.previous_step import PreviousSteps, action_layout
from personae.types import Rollout, Transition, WithPreviousStep

if TYPE_CHECKING:
    from personae.training.host_trainer import BehaviourPolicy, HostPrograms


class Players:
    """All agents in all their environments."""

    def __init__(self, programs: "HostPrograms", seeds: tuple[int, ...]):
        self.programs = programs
        self.seeds = seeds
        learner = programs.setting.learner
        self._num_envs, self._length = learner.num_envs, learner.rollout_length
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self.value = jax.jit(self._value_all)
        self._here = SingleDeviceSharding(jax.devices()[0])
        # Told where, or what acts would be compiled again for tapes from elsewhere.
        self.blank_tape = jax.jit(self._make_tape, out_shardings=self._here)
        self._stage: Stage | None = None
        self.judges_beside = False
        """Whether agents are judged while the next chunk is trained."""
        self._judges = [Judge(self, n) for n in range(programs.hosting.evaluators)]
        self._idle: LifoQueue[Judge] = LifoQueue()  # the same again, if it is free
        for judge in reversed(self._judges):
            self._idle.put(judge)

    def acts(
        self, acting: "BehaviourPolicy", task: Any, greedy: bool
    ) -> Callable[[Any, int], Recorded]:
        """Return what acts on observations of one task, at a time."""
        return self._compile(self._act_all, acting, task, greedy)

    def records(
        self, acting: "BehaviourPolicy", task: Any
    ) -> Callable[[Tape, Any], tuple[Tape, Any]]:
        """Return what acts on a tape and observations, and fills the tape."""
        return self._compile(self._record_all, acting, task, greedy=False)

    def _compile(
        self,
        acts: Callable[..., Any],
        acting: "BehaviourPolicy",
        task: Any,
        greedy: bool,
    ) -> Callable[..., Any]:
        """Return a compiled function of what is new at each step.

        Nothing is left to be taken apart there, which would take as long as the
        network does.
        """
        leaves, form = jax.tree.flatten((acting, task))

        def act(leaves: Any, *now: Any) -> Any:
            acting, task = jax.tree.unflatten(form, leaves)
            return acts(acting, task, *now, greedy=greedy)

        tape = (1,) if acts == self._record_all else ()  # is filled where it lies
        compiled = jax.jit(act, donate_argnums=tape)
        return partial(
            self._compiled.setdefault((acts, form, greedy), compiled), leaves
        )

    def _act_all(
        self,
        acting: "BehaviourPolicy",
        task: Any,
        observations: Any,
        t: Any,
        greedy: bool,
    ) -> Recorded:
        """Return what all agents do, `[agent, env, ...]`."""

        def of_agent(acting: "BehaviourPolicy", seen: Any) -> Recorded:
            network = self.programs.on_task(acting, task)
            policy, value = apply_network(network, seen)
            key = jax.random.fold_in(acting.key, t)
            action = policy.mode() if greedy else policy.sample(key)
            return Recorded(seen, action, policy.log_prob(action), value)

        return each(of_agent, observations, 2)(acting, observations)

    def _record_all(
        self,
        acting: "BehaviourPolicy",
        task: Any,
        tape: Tape,
        observations: Any,
        greedy: bool,
    ) -> tuple[Tape, Any]:
        """Return the tape with what is done at its time, and the actions."""
        now = self._act_all(acting, task, observations, tape.time, greedy)

        def put(steps: Any, step: Any) -> Any:
            return jax.lax.dynamic_update_index_in_dim(steps, step, tape.time, 1)

        steps = jax.tree.map(put, tape.steps, now)
        return Tape(steps, tape.time + 1), now.action

    def _act_in_exams(
        self,
        acting: "BehaviourPolicy",
        tasks: Any,
        observations: Any,
        t: Any,
        greedy: bool,
    ) -> Any:
        """Return the actions in several exams at once, `[exam, agent, env, ...]`."""

        def of_exam(acting: "BehaviourPolicy", task: Any, seen: Any) -> Any:
            return self._act_all(acting, task, seen, t, greedy).action

        return each(of_exam, observations, 3)(acting, tasks, observations)

    def _value_all(
        self, acting: "BehaviourPolicy", task: Any, observations: Any
    ) -> Any:
        def of_agent(acting: "BehaviourPolicy", seen: Any) -> Any:
            return apply_network(self.programs.on_task(acting, task), seen)[1]

        return each(of_agent, observations, 2)(acting, observations)

    def make_recall(self, slots: int) -> PreviousSteps | None:
        """Return what remembers actions, if networks see them."""
        space = self.programs.setting.encoder.recalled
        return None if space is None else PreviousSteps(space, len(self.seeds) * slots)

    def seen(
        self, index: int, shown: np.ndarray, previous_step: PreviousSteps | None
    ) -> Any:
        """Return what networks see in environments of a task, `[agent, env, ...]`."""
        seen: Any = self.programs.tasks.fit.observe(index, shown)
        return jax.tree.map(
            self.by_agent, previous_step.beside(seen) if previous_step else seen
        )

    def by_agent(self, flat: np.ndarray) -> np.ndarray:
        """Split the slots of all agents, `[agent, env, ...]`."""
        return flat.reshape(len(self.seeds), -1, *flat.shape[1:])

    def begin(self, visit: int) -> None:
        """Open the environments of a visit."""
        self._open(visit).start()

    def _open(self, visit: int) -> Stage:
        self._close_stage()
        self._stage = Stage(self, visit)
        return self._stage

    def collect(self, acting: "BehaviourPolicy", visit: int) -> Collected:
        """Act for one rollout."""
        assert self._stage is not None
        return self._stage.collect(self.here(acting))

    def here(self, acting: "BehaviourPolicy") -> "BehaviourPolicy":
        """Bring what acts to one device: a call per step is cheaper there."""
        if self.programs.lanes.number > 1:  # of which the last may be repeated
            acting = self.programs.lanes.pick(acting, slice(len(self.seeds)))
        return jax.device_put(acting, self._here)

    def evaluate(
        self, acting_of: Callable[[int], "BehaviourPolicy"], protocol: Evaluation
    ) -> np.ndarray:
        """Play episodes of every exam with each agent, all exams at once.

        Return what they brought, `[measure, agent, exam, episode]`.
        """
        exams = self.programs.tasks.exams
        slots = min(protocol.episodes, self._num_envs)
        act_in = self._examined(acting_of, exams, protocol.greedy)
        judge = self._idle.get()
        try:
            sat = Exams(self, judge, exams, act_in, slots, protocol.episodes)
            for t in range(LONGEST_EPISODE):
                sat.act(t)
                if not sat.unfinished:
                    return sat.brought
        finally:
            self._idle.put(judge)
        raise self.never_ends(exams[sat.unfinished[0]].task)

    def _examined(
        self,
        acting_of: Callable[[int], "BehaviourPolicy"],
        exams: Sequence[Exam],
        greedy: bool,
    ) -> ActIn:
        """Return what gives what acts in some of the exams at once."""
        by_task = {exam.task: self.here(acting_of(exam.task)) for exam in exams}
        stack = partial(jax.tree.map, lambda *leaves: jnp.stack(leaves))

        def act_in(some: Sequence[Exam]) -> Callable[[Any, int], Any]:
            agents = [by_task[exam.task] for exam in some]
            data = [self.programs.task_data(exam.task) for exam in some]
            return self._compile(
                self._act_in_exams, stack(*agents), stack(*data), greedy
            )

        return act_in

    def never_ends(self, index: int) -> PersonaeError:
        """Return the error of an episode that goes on for ever."""
        return PersonaeError(
            f"an episode of task {self.programs.tasks.name(index)!r} did not end "
            f"within {LONGEST_EPISODE} steps; give the environment a time limit "
            "(max_episode_steps)"
        )

    def film(
        self, acting: "BehaviourPolicy", which: int, index: int, greedy: bool
    ) -> Film:
        """Play one episode of a task with one agent, and draw each step."""
        tasks = self.programs.tasks
        acting = jax.tree.map(lambda x: x[which : which + 1], self.here(acting))
        with closing(tasks.make_filmed(index)) as env:
            return self._film(env, acting, which, index, greedy)

    def _film(
        self, env: Any, acting: "BehaviourPolicy", which: int, index: int, greedy: bool
    ) -> Film:
        tasks, task = self.programs.tasks, self.programs.task_data(index)
        seed = episode_seed(EVALUATION, self.seeds[which], index, 0, 0)
        observation, _ = env.reset(seed=seed)
        frames, total = [render_frame(env, tasks.name(index))], 0.0
        act = self.acts(acting, task, greedy)
        space = self.programs.setting.encoder.recalled
        previous_step = None if space is None else PreviousSteps(space, 1)
        for t in range(LONGEST_FILM):
            seen: Any = tasks.fit.observe(index, np.asarray(observation)[None])
            seen = previous_step.beside(seen) if previous_step else seen
            done = act(jax.tree.map(lambda leaf: leaf[None], seen), t)
            chosen = np.asarray(done.action)[0]
            action = tasks.fit.act(index, chosen)[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            if previous_step is not None:
                previous_step.note(chosen, np.array([reward]))
            frames.append(render_frame(env, tasks.name(index)))
            total += float(reward)
            if terminated or truncated:
                return Film(frames, total, whole=True)
        return Film(frames, total, whole=False)

    def report(self) -> Mapping[str, list[float]] | None:
        """Return how each actor did since the last time, if there are several."""
        return None

    def snapshot(self) -> Mapping[str, np.ndarray] | None:
        """Return what brings the environments back, if anything can."""
        assert self._stage is not None
        return self._stage.save()

    def resume(self, visit: int, saved: Mapping[str, np.ndarray] | None) -> None:
        """Bring environments back to where they were, or begin anew if none can."""
        if saved is None:
            self.begin(visit)
        else:
            self._open(visit).repeat(saved)

    def _make_tape(self) -> Tape:
        """Return a tape on which nothing is recorded."""
        shapes = self._tape_shapes()
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return Tape(blank, jnp.int32(0))

    def _tape_shapes(self) -> Recorded:
        each = (len(self.seeds), self._length, self._num_envs)
        size, kind = action_layout(self.programs.setting.env.action_space)
        number: Any = jax.ShapeDtypeStruct(each, np.float32)
        action: Any = jax.ShapeDtypeStruct((*each, *size), kind)
        return Recorded(self._observation_shapes(*each), action, number, number)

    def _observation_shapes(self, *axes: int) -> Any:
        setting = self.programs.setting
        seen, recalled = setting.env.observation_space, setting.encoder.recalled
        kind = jax.dtypes.canonicalize_dtype(seen.dtype)
        shown: Any = jax.ShapeDtypeStruct((*axes, *(seen.shape or ())), kind)
        if recalled is None:
            return shown
        size, kind = action_layout(recalled)
        action: Any = jax.ShapeDtypeStruct((*axes, *size), kind)
        reward: Any = jax.ShapeDtypeStruct(axes, np.float32)
        return WithPreviousStep(shown, action, reward)

    def rollout_shapes(self) -> Any:
        """Return the shapes of what an update needs of `Collected`."""
        tape = self._tape_shapes()
        number = tape.value
        flag: Any = jax.ShapeDtypeStruct(number.shape, np.bool_)
        valid = None if self.programs.tasks.seeded else flag
        steps = Transition(*tape, number, flag, valid)
        last = self._observation_shapes(len(self.seeds), self._num_envs)
        brought = jax.ShapeDtypeStruct((len(self.seeds), len(MEASURES)), np.float32)
        shapes = Rollout(steps, last), number, brought
        return self.programs.lanes.shapes_placed(shapes)

    def _close_stage(self) -> None:
        if self._stage is not None:
            self._stage.close()
        self._stage = None

    def close(self) -> None:
        """End all environments."""
        self._close_stage()
        for judge in self._judges:
            judge.close()
