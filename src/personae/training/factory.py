"""Puts together what trains a curriculum: on the device or on the host."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import jax
import numpy as np

from personae.curricula import Curriculum, Evaluation, Hosting, Task
from personae.envs.contract import Family
from personae.envs.registry import FAMILIES, find_family
from personae.errors import require
from personae.methods.contract import Method
from personae.rollouts.contract import Actors, EnvSnapshot, Evaluator, MakeActors
from personae.rollouts.device import DeviceActor
from personae.rollouts.evaluation import EvaluationResult
from personae.rollouts.evaluator import VectorEvaluator
from personae.rollouts.film import Film
from personae.rollouts.host_context import HostContext, make_host_context
from personae.rollouts.pipeline import make_pipeline
from personae.rollouts.policies import HostPolicies
from personae.rollouts.processes import (
    LazyPool,
    ProcessActors,
    ProcessEvaluator,
    check_processes,
)
from personae.rollouts.task_data import TaskTable
from personae.rollouts.threads import ThreadedActors
from personae.rollouts.vector_actors import VectorActors
from personae.runs.replay import ReplayStore
from personae.training.device_trainer import (
    DeviceEvaluation,
    DeviceTrainer,
    ReplayTrainer,
    UnseenVariants,
    begin_on_device,
)
from personae.training.host_trainer import HostEvaluation, HostTrainer, begin_on_host
from personae.training.programs import AgentPrograms
from personae.training.sharding import Sharding
from personae.training.state import Agent, AgentSpec, Chunk
from personae.training.update import Updated
from personae.types import Space


@runtime_checkable
class Trainer(Protocol):
    """Trains all agents chunk by chunk."""

    def prepare(self, agents: Agent, visit: int, lengths: Iterable[int]) -> None:
        """Compile the training of a visit, for agents of these shapes."""
        ...

    def chunk(
        self, agents: Agent, visit: int, iterations: int, store: ReplayStore | None
    ) -> tuple[Agent, Chunk]:
        """Train for some iterations, up to an evaluation."""
        ...

    def update_shapes(self, agents: Agent, visit: int) -> Updated:
        """Return the shapes of the results of one update."""
        ...


@runtime_checkable
class AgentEvaluation(Protocol):
    """Evaluates and films agents as they are."""

    def evaluate(self, agents: Agent, protocol: Evaluation) -> EvaluationResult:
        """Play every task with all agents."""
        ...

    def film(self, agents: Agent, index: int, task: int, greedy: bool) -> Film:
        """Play one episode of a task with one agent, and render each step."""
        ...

    def spaces_of(self, task: int) -> tuple[Space, Space]:
        """Return the spaces of a task's observations and actions."""
        ...

    def close(self) -> None:
        """Close all environments."""
        ...


@dataclass(frozen=True)
class Training:
    """Everything that a run trains, evaluates and films with."""

    programs: AgentPrograms
    trainer: Trainer
    evaluation: AgentEvaluation
    actors: Actors | None
    """They act in environments on the host, if there are any."""
    max_pending: int
    """Chunks that may be unsaved while the next one is trained, and lost if the run is
    killed."""

    def begin_visit(self, visit: int) -> None:
        """Open the environments of a visit, if they are on the host."""
        if self.actors is not None:
            self.actors.begin(visit)

    def resume_envs(self, visit: int, snapshot: EnvSnapshot | None) -> None:
        """Bring environments on the host back to where a checkpoint was taken."""
        if self.actors is not None:
            self.actors.resume(visit, snapshot)

    def close(self) -> None:
        """Close all environments on the host."""
        if self.actors is not None:
            self.actors.close()
        self.evaluation.close()


def on_device(curriculum: Curriculum) -> bool:
    """Tell whether all environments of a curriculum run on the device."""
    return all(task.env in FAMILIES for task in curriculum.tasks)


def check_settings(curriculum: Curriculum) -> None:
    """Refuse settings that have no effect where the environments run.

    This is for new runs. Runs of version 0.1, which ignored such settings, can be read.
    """
    if not on_device(curriculum):
        return
    for task in curriculum.tasks:
        settings = {"attributes": task.attributes, "wrappers": task.wrappers}
        for name, value in settings.items():
            require(not value, _refusal(task, name))
    require(
        curriculum.hosting == Hosting(),
        f"{curriculum.id!r} runs in environments that are compiled with the agents: "
        "leave out hosting, which says how environments on the host are stepped",
    )
    require(
        curriculum.inputs.fit is None,
        f"the tasks of {curriculum.id!r} are compiled together and have one shape: "
        "leave out inputs.fit",
    )


def _refusal(task: Task, name: str) -> str:
    return (
        f"task {task.name!r}: {name} belong to Gymnasium environments; {task.env} is "
        f"compiled with the agents and takes options only: leave out {name}"
    )


def make_training(
    curriculum: Curriculum,
    method: Method,
    seeds: tuple[int, ...],
    max_devices: int | None = None,
    make_actors: MakeActors | None = None,
) -> Training:
    """Put together what trains a curriculum.

    Args:
        curriculum: The tasks and all settings.
        method: The lifelong method.
        seeds: One for each agent.
        max_devices: Devices to spread agents over; all there are if left out.
        make_actors: Makes the actors on the host, in place of the curriculum's choice.

    Raises:
        UsageError: Environments, method and learner do not fit together.
    """
    # First: devices that do not exist are an error before any environment is made.
    sharding = Sharding(len(seeds), max_devices)
    if not on_device(curriculum):
        return _on_host(curriculum, method, seeds, sharding, make_actors)
    require(
        make_actors is None,
        f"{curriculum.id} acts and learns in one program on this machine; --on is for "
        "environments on the host. Whole runs go to a cluster by `personae compare`",
    )
    return _on_device(curriculum, method, seeds, sharding)


def _on_device(
    curriculum: Curriculum,
    method: Method,
    seeds: tuple[int, ...],
    sharding: Sharding,
) -> Training:
    protocol, learner = curriculum.evaluation, curriculum.chosen_learner
    by_success = protocol.measure == "success"
    family = _family_of(curriculum)
    env, params = family([task.options for task in curriculum.tasks])
    table = TaskTable(curriculum, params)
    pipeline = make_pipeline(curriculum, env.action_space)
    spec = AgentSpec(method, learner, pipeline, env.observation_space, env.action_space)
    actor = DeviceActor(env, pipeline, learner, by_success)
    if by_success:
        _check_success(actor, table, curriculum)
    begin = begin_on_device(spec, actor)
    programs = AgentPrograms(curriculum, spec, table, sharding, seeds, begin)
    variants = _unseen_variants(curriculum, family, actor)
    evaluation = DeviceEvaluation(programs, actor, protocol, seeds, variants)
    has_replay = method.traits.replay is not None
    # The store is on disk, which a compiled chunk cannot read.
    kind = ReplayTrainer if has_replay else DeviceTrainer
    trainer = kind(programs, actor, evaluation)
    return Training(programs, trainer, evaluation, actors=None, max_pending=1)


def _family_of(curriculum: Curriculum) -> Family:
    """Return the one family that all tasks belong to."""
    families = {task.env for task in curriculum.tasks}
    require(
        len(families) == 1,
        f"the tasks of {curriculum.id!r} come from several environment families "
        f"({', '.join(sorted(families))}); one is supported",
    )
    return find_family(families.pop())


def _unseen_variants(
    curriculum: Curriculum, family: Family, actor: DeviceActor
) -> UnseenVariants | None:
    """Return the unseen variants of the tasks, if they have any."""
    if all(task.unseen is None for task in curriculum.tasks):
        return None
    options = [{**task.options, **(task.unseen or {})} for task in curriculum.tasks]
    env, params = family(options)
    for name in ("observation_space", "action_space"):
        own, trained = getattr(env, name), getattr(actor.env, name)
        require(
            own == trained,
            f"{curriculum.id!r}: the {name.replace('_', ' ')} of unseen variants is "
            f"{own}, that of the tasks {trained}; they share a network",
        )
    return UnseenVariants(replace(actor, env=env), TaskTable(curriculum, params))


def _check_success(
    actor: DeviceActor, table: TaskTable, curriculum: Curriculum
) -> None:
    """Refuse success as the measure of an environment that does not report it."""
    envs = jax.eval_shape(actor.start, table.task(0), jax.random.key(0))
    # Only shapes are needed, so nothing is computed.
    one = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), envs.states
    )
    action = np.asarray(actor.env.action_space.sample())
    _, step = jax.eval_shape(
        actor.env.step, table.task(0).params, one, action, jax.random.key(0)
    )
    require(
        step.success is not None,
        f"{curriculum.tasks[0].env} does not report success: leave out "
        "evaluation.measure",
    )


def _on_host(
    curriculum: Curriculum,
    method: Method,
    seeds: tuple[int, ...],
    sharding: Sharding,
    make_actors: MakeActors | None,
) -> Training:
    context = make_host_context(curriculum, seeds)
    spaces, protocol = context.tasks.spaces, curriculum.evaluation
    spec = AgentSpec(
        method,
        curriculum.chosen_learner,
        context.pipeline,
        spaces.observation_space,
        spaces.action_space,
    )
    begin = begin_on_host(spec)
    programs = AgentPrograms(curriculum, spec, context.table, sharding, seeds, begin)
    policies = HostPolicies(context)
    actors, evaluator = _host_actors(context, policies, make_actors)
    evaluation = HostEvaluation(programs, context, policies, evaluator)
    trainer = HostTrainer(programs, context, policies, actors, evaluation, protocol)
    beside = actors.acts_during_training
    # Where actors wait for evaluations, a second one would have nothing to do.
    max_pending = context.hosting.evaluators if beside else 1
    return Training(programs, trainer, evaluation, actors, max_pending)


def _host_actors(
    context: HostContext, policies: HostPolicies, make_actors: MakeActors | None
) -> tuple[Actors, Evaluator]:
    """Return actors and evaluator as the curriculum's `hosting.stepping` says."""
    if make_actors is None and context.hosting.stepping == "actors":
        # Before processes are started, which takes seconds.
        check_processes(context)
        pool = LazyPool(context)
        return ProcessActors(context, policies, pool), ProcessEvaluator(context, pool)
    evaluator = VectorEvaluator(context, policies)
    if make_actors is not None:
        return make_actors(context), evaluator
    if context.hosting.stepping == "threads":
        return ThreadedActors(context, policies), evaluator
    return VectorActors(context, policies), evaluator
