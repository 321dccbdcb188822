"""Export of an agent out of a run, as a file that acts anywhere (`personae.policy`)."""

import tempfile
from collections.abc import Sequence
from math import isnan
from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from personae.backbones.weights import fingerprint
from personae.errors import require
from personae.files import Arrays
from personae.methods.finetune import FineTune
from personae.methods.masked import Masked
from personae.policy.agent import load, loads
from personae.policy.architecture import Architecture
from personae.policy.jax.export import (
    Skill,
    action_spec,
    observation_spec,
    pack_layers,
    warm_start_skills,
    write_agent,
)
from personae.policy.jax.translate import architecture_of, arrays_of
from personae.policy.manifest import FORMAT, VERSION, Manifest, TaskSpec
from personae.policy.tensors import read_file
from personae.runs.directory import RunDirectory
from personae.runs.warm_start import read_warm_start
from personae.serialise import to_plain
from personae.training.restore import RestoredRun
from personae.training.state import Agent


def export_agent(
    run: Path | str,
    out: Path | str,
    *,
    seed: int | None = None,
    with_scores: bool = False,
    half: bool = False,
) -> Path:
    """Write one agent of a run, with all tasks it has learned so far, as one file.

    Args:
        run: The run's directory.
        out: The file, agent.persona.
        seed: The agent's seed; by default the run's first.
        with_scores: Also write the scores of its masks, so that a run can begin with
            them (`personae learn NEXT --warm-start FILE`).
        half: Store weights that are no bits with 16 bits, not with 32.
    """
    restored = RestoredRun(run)
    seed = restored.config.seeds[0] if seed is None else seed
    restored.check(restored.tasks[0].name, seed)
    manifest, arrays = _contents(restored, seed, with_scores, half)
    return write_agent(Path(out), manifest, arrays)


def load_warm_start(source: Path | str) -> bytes:
    """Return the content of an agent's file, or of that of a run's first agent."""
    path = Path(source)
    if not path.is_dir():
        data = read_file(path)
        loads(data, str(path))
        return data
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "warm-start.persona"
        return export_agent(path, file, with_scores=True).read_bytes()


def resolve_warm_start(
    source: Path | str | None, directory: RunDirectory, resume: bool
) -> bytes | None:
    """Return the agent that a run begins with, or None if there is none.

    Args:
        source: An agent's file, or the directory of another run.
        directory: The run's own directory, which has the agent if it is resumed.
        resume: Whether an existing run continues.
    """
    if not (resume and directory.exists()):
        return None if source is None else load_warm_start(source)
    if not directory.warm_start_file.exists():
        require(
            source is None,
            f"the run in {directory.root} began without an agent: leave out "
            "--warm-start",
        )
        return None
    data = read_warm_start(directory)
    # The other run may have learned more since: its export need not be the same now.
    is_file = source is not None and not Path(source).is_dir()
    require(
        not is_file or load_warm_start(Path(source or "")) == data,
        f"the run in {directory.root} began with another agent than --warm-start "
        f"{source}; leave it out to resume",
    )
    return data


def _contents(
    restored: RestoredRun, seed: int, with_scores: bool, half: bool
) -> tuple[Manifest, dict[str, np.ndarray]]:
    """Return the manifest and the arrays of an agent's file."""
    config, programs = restored.config, restored.training.programs
    curriculum, method, spec = config.curriculum, restored.method, programs.spec
    index = config.seeds.index(seed)
    agent = programs.sharding.select(restored.agents, index)
    fixed = method.fixed(agent.method_state)
    backbone = {name: np.asarray(array) for name, array in fixed.items()}
    architecture, skills = _skills(restored, agent, index, with_scores)
    if config.warm_start is not None:
        names = [skill.spec.name for skill in skills]
        before = load(restored.files.warm_start_file)
        skills = [*warm_start_skills(before, names, with_scores), *skills]
    layers, arrays = pack_layers(architecture, skills, backbone, half)
    run = restored.files.read_run()
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        architecture=architecture,
        layers=layers,
        observation_size=int(np.prod(spec.observation_space.shape or ())),
        scale=spec.pipeline.encoder.scale,
        label_dim=curriculum.label_dim,
        tasks=tuple(skill.spec for skill in skills),
        curriculum=curriculum.id,
        method=config.method,
        seed=seed,
        previous_step=curriculum.inputs.previous_step,
        normalised=bool(skills[0].statistics),
        greedy=curriculum.evaluation.greedy,
        masks=to_plain(method.options) if isinstance(method, Masked) else None,
        fingerprint=fingerprint(backbone) if backbone else None,
        scores=with_scores,
        versions=run["versions"],
        commit=run.get("commit"),
    )
    if with_scores:
        arrays |= {f"backbone/{name}": array for name, array in backbone.items()}
    return manifest, arrays


def _check_exportable(restored: RestoredRun, with_scores: bool) -> None:
    """Raise an error unless a file can hold the agents of a run."""
    spec = restored.training.programs.spec
    previous_step = restored.config.curriculum.inputs.previous_step
    # In training, the previous action is the one before clipping. An agent of a file
    # has the environment's action only.
    require(
        not (previous_step and isinstance(spec.action_space, gym.spaces.Box)),
        "an agent whose inputs include its last action cannot be exported if its "
        "actions are real numbers: it would need the action before it was clipped",
    )
    require(
        not with_scores or isinstance(restored.method, Masked),
        f"{restored.config.method} has no scores: masks have (mask-ri, mask-blc ...)",
    )


def _skills(
    restored: RestoredRun, agent: Agent, index: int, with_scores: bool
) -> tuple[Architecture, list[Skill]]:
    """Return the architecture, and the tasks that the agent has learned so far."""
    _check_exportable(restored, with_scores)
    method, state = restored.method, agent.method_state
    evaluation = _last_evaluation(restored, index)
    trainable, skills = agent.train.trainable, []
    # An expert starts anew on each task: only its last network is left.
    last_only = isinstance(method, FineTune) and method.restart
    for task in (restored.current_task,) if last_only else restored.learned:
        number = jnp.asarray(task, jnp.int32)
        network = jax.jit(method.policy)(state, trainable, number)
        architecture, arrays = architecture_of(network), arrays_of(network)
        names = [
            f"{name}.{part}"
            for name in architecture.layers
            for part in ("weight", "bias")
        ]
        weights = {name: arrays[name] for name in names if name in arrays}
        scores: Arrays = {}
        if with_scores and isinstance(method, Masked):
            layers = method.scores_of(state, trainable, number)
            scores = {name: np.asarray(layer) for name, layer in layers.items()}
        spec = _task_spec(restored, task, evaluation[task])
        skills.append(Skill(spec, weights, _statistics(agent, number), scores))
    return architecture, skills


def _statistics(agent: Agent, task: Int[Array, ""]) -> Arrays:
    """Return mean and deviation of a task's observations, if they are normalised."""
    moments = agent.train.statistics.observations
    if moments is None:
        return {}
    row = moments.row_of(task)
    arrays = {"mean": moments.mean[row], "deviation": moments.deviation(row)}
    return {name: np.asarray(values) for name, values in arrays.items()}


def _last_evaluation(restored: RestoredRun, index: int) -> Sequence[float | None]:
    """Return an agent's result on each task at the time of its checkpoint."""
    last: Sequence[float | None] = [None] * len(restored.tasks)
    for record in restored.files.read_metrics():
        # A run that still trains may have written evaluations since.
        if (
            record["kind"] == "evaluation"
            and record["iteration"] <= restored.position.iteration
        ):
            measure = "success" if "success" in record else "returns"
            last = record[measure][index]
    return [None if value is None or isnan(value) else value for value in last]


def _task_spec(restored: RestoredRun, index: int, evaluation: float | None) -> TaskSpec:
    task, curriculum = restored.tasks[index], restored.config.curriculum
    observation_space, action_space = restored.training.evaluation.spaces_of(index)
    return TaskSpec(
        name=task.name,
        env=task.env,
        observation=observation_spec(observation_space),
        action=action_spec(action_space),
        label=curriculum.labels[index],
        options=task.options,
        attributes=task.attributes,
        wrappers=task.wrappers,
        target=task.target,
        evaluation=evaluation,
        measure=curriculum.evaluation.measure or "return",
    )
