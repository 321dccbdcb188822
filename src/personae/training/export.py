"""An agent of a run as a file that acts anywhere (`personae.policy.load`)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from safetensors.numpy import save as encode_tensors

from personae.backbones.weights import fingerprint
from personae.errors import require
from personae.files import write_atomically
from personae.methods.finetune import FineTune
from personae.methods.masked import Masked
from personae.policy.agent import Agent as Shipped
from personae.policy.agent import load, loads
from personae.policy.architecture import Architecture
from personae.policy.compact import pack, pack_numbers
from personae.policy.jax.translate import architecture_of, arrays_of
from personae.policy.manifest import FORMAT, VERSION, LayerSpec, Manifest, TaskSpec
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.serialise import to_plain
from personae.training.restore import RestoredRun
from personae.training.update import Agent

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Skill:
    """What an agent has learned of one task."""

    spec: TaskSpec
    weights: Arrays
    """The network's, by place, as it acts on the task."""
    statistics: Arrays
    """The mean and the deviation of what it shows, if that is normalised."""
    scores: Arrays
    """What its mask was made from, by layer, if that is wanted."""


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
        seed: Which agent; the first if left out.
        with_scores: Also write the scores of its masks, so that a new life can go on
            from them (`personae learn NEXT --warm-start FILE`).
        half: Store weights that are no bits with 16 bits, not with 32.
    """
    revival = RestoredRun(run)
    seed = revival.config.seeds[0] if seed is None else seed
    revival.check(revival.tasks[0].name, seed)
    manifest, arrays = _contents(revival, seed, with_scores, half)
    return write_agent(Path(out), manifest, arrays)


def write_agent(path: Path, manifest: Manifest, arrays: Arrays) -> Path:
    """Write a file, once it is known that it can be read."""
    text = json.dumps(to_plain(manifest), separators=(",", ":"))
    contiguous = {n: np.asarray(array, order="C") for n, array in arrays.items()}
    data = encode_tensors(contiguous, {"personae": text})
    loads(data, str(path))
    write_atomically(path, data)
    return path


def _contents(
    revival: RestoredRun, seed: int, with_scores: bool, half: bool
) -> tuple[Manifest, dict[str, np.ndarray]]:
    config, programs = revival.config, revival.programs
    curriculum, setting = config.curriculum, programs.setting
    method = setting.method
    index = config.seeds.index(seed)
    agent = revival.programs.lanes.pick(revival.agents, index)
    fixed = {n: np.asarray(a) for n, a in method.fixed(agent.method).items()}
    form, skills = _skills(revival, agent, index, with_scores)
    if config.warm_start is not None:
        names = [skill.spec.name for skill in skills]
        before = load(revival.files.warm_start_file)
        skills = [*_earlier_skills(before, names, with_scores), *skills]
    layers, arrays = _stored(form, skills, fixed, half)
    run = revival.files.read_run()
    seen = setting.env.observation_space.shape
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        form=form,
        layers=layers,
        inputs=int(np.prod(seen)),
        scale=setting.encoder.scale,
        label_dim=curriculum.label_dim,
        tasks=tuple(skill.spec for skill in skills),
        curriculum=curriculum.id,
        method=config.method,
        seed=seed,
        previous_step=curriculum.inputs.previous_step,
        normalised=bool(skills[0].statistics),
        greedy=curriculum.evaluation.greedy,
        masks=to_plain(method.options) if isinstance(method, Masked) else None,
        fingerprint=fingerprint(fixed) if fixed else None,
        scores=with_scores,
        versions=run["versions"],
        commit=run.get("commit"),
    )
    if with_scores:
        arrays |= {f"backbone/{name}": array for name, array in fixed.items()}
    return manifest, arrays


def _check_can_ship(revival: RestoredRun, with_scores: bool) -> None:
    """Refuse what a file cannot hold."""
    setting = revival.programs.setting
    recalls = revival.config.curriculum.inputs.previous_step
    require(
        not (recalls and isinstance(setting.env.action_space, gym.spaces.Box)),
        "an agent that pipeline its last action and acts with real numbers cannot be "
        "shipped: it would have to be told what it meant before it was clipped",
    )
    require(
        not with_scores or isinstance(setting.method, Masked),
        f"{revival.config.method} has no scores: masks have (mask-ri, mask-blc ...)",
    )


def _skills(
    revival: RestoredRun, agent: Agent, index: int, with_scores: bool
) -> tuple[Architecture, list[Skill]]:
    """Return what the agent has learned so far."""
    _check_can_ship(revival, with_scores)
    method, evaluation = revival.programs.setting.method, _evaluation(revival, index)
    trainable, skills = agent.live.trainable, []
    # An expert starts anew on each task: only its last network is left.
    forgets = isinstance(method, FineTune) and method.restart
    for task in (revival.current,) if forgets else revival.learned:
        number = jnp.asarray(task, jnp.int32)
        network = jax.jit(method.policy)(agent.method, trainable, number)
        form, arrays = architecture_of(network), arrays_of(network)
        wanted = {f"{n}.{part}" for n in form.layers for part in ("weight", "bias")}
        weights = {place: arrays[place] for place in wanted & arrays.keys()}
        scores: Arrays = {}
        if with_scores and isinstance(method, Masked):
            found = method.scores_of(agent.method, trainable, number)
            scores = {name: np.asarray(layer) for name, layer in found.items()}
        spec = _task_spec(revival, task, evaluation[task])
        skills.append(Skill(spec, weights, _statistics(agent, number), scores))
    return form, skills


def names_beside(warm_start: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of earlier tasks; one that is taken now gets an ending."""
    taken, found = {*names}, []
    for name in warm_start:
        while name in taken:
            name = f"{name}-earlier"
        taken.add(name)
        found.append(name)
    return found


def _earlier_skills(
    before: Shipped, names: Sequence[str], with_scores: bool
) -> list[Skill]:
    """Return what the agent knew before."""
    skills, called = [], names_beside(before.tasks, names)
    for index, spec in enumerate(before.manifest.tasks):
        arrays = before.arrays
        named = ("mean", "deviation") if before.manifest.normalised else ()
        prefix = "scores/"
        scores = [n for n in arrays if n.startswith(prefix) and with_scores]
        skills.append(
            Skill(
                replace(spec, name=called[index]),
                before.weights(index),
                {each: arrays[each][index] for each in named},
                {n.removeprefix(prefix): arrays[n][index] for n in scores},
            )
        )
    return skills


def _statistics(agent: Agent, task: Int[Array, ""]) -> Arrays:
    statistics = agent.live.statistics
    if statistics is None or statistics.observations is None:
        return {}
    moments = statistics.observations
    row = moments.row_of(task)
    found = {"mean": moments.mean[row], "deviation": moments.deviation(row)}
    return {name: np.asarray(values) for name, values in found.items()}


def _stored(
    form: Architecture, skills: Sequence[Skill], fixed: Arrays, half: bool
) -> tuple[tuple[LayerSpec, ...], dict[str, np.ndarray]]:
    """Return how each layer is stored, and all arrays."""
    layers: list[LayerSpec] = []
    arrays: dict[str, np.ndarray] = {}
    for name in form.layers:
        weights = [skill.weights[f"{name}.weight"] for skill in skills]
        backbone = _backbone(name, weights[0].shape, fixed)
        stored, found = pack(name, weights, backbone, half)
        arrays |= found
        if f"{name}.bias" in skills[0].weights:
            biases = [skill.weights[f"{name}.bias"] for skill in skills]
            stored["bias"], arrays[f"biases/{name}"] = pack_numbers(biases, half)
        layers.append(LayerSpec(name, weights[0].shape, **stored))
    for name in skills[0].statistics:
        arrays[name] = np.stack([skill.statistics[name] for skill in skills])
    for name in skills[0].scores:
        arrays[f"scores/{name}"] = np.stack([skill.scores[name] for skill in skills])
    return tuple(layers), arrays


def _backbone(name: str, shape: tuple[int, ...], fixed: Arrays) -> np.ndarray | None:
    """Return the weights of a layer before any mask, if they are signed constants."""
    if f"signs/{name}" not in fixed:
        return None
    signs = np.unpackbits(fixed[f"signs/{name}"], count=int(np.prod(shape)))
    constant = np.float32(fixed[f"constants/{name}"])
    return np.where(signs.reshape(shape), constant, -constant)


def _evaluation(revival: RestoredRun, index: int) -> Sequence[float | None]:
    """Return what the agent had on each task when its checkpoint was taken."""
    last: Sequence[float | None] = [None] * len(revival.tasks)
    for record in revival.files.read_metrics():
        done = record["kind"] == "evaluation"
        if done and record["iteration"] <= revival.position.iteration:
            measured = "success" if "success" in record else "returns"
            last = record[measured][index]
    return [None if value is None or isnan(value) else value for value in last]


def _task_spec(revival: RestoredRun, index: int, evaluation: float | None) -> TaskSpec:
    task = revival.tasks[index]
    shown, taken = revival.programs.spaces_of(index)
    return TaskSpec(
        name=task.name,
        env=task.env,
        shown=shown_of(shown),
        taken=taken_of(taken),
        label=revival.config.curriculum.labels[index],
        options=task.options,
        attributes=task.attributes,
        wrappers=task.wrappers,
        target=task.target,
        evaluation=evaluation,
        measure=revival.config.curriculum.evaluation.measure or "return",
    )


def shown_of(space: gym.Space[Any]) -> ObservationSpec:
    """Return what a space shows."""
    if isinstance(space, gym.spaces.Discrete):
        return ObservationSpec((), int(space.n), int(space.start))
    return ObservationSpec(tuple(space.shape or ()))


def taken_of(space: gym.Space[Any]) -> ActionSpec:
    """Return what actions a space has."""
    shape, kind = tuple(space.shape or ()), np.dtype(space.dtype).name
    if isinstance(space, gym.spaces.Discrete):
        return ActionSpec("discrete", (), (int(space.n),), (int(space.start),))
    if isinstance(space, gym.spaces.MultiDiscrete):
        sizes, start = (tuple(map(int, np.ravel(x))) for x in (space.nvec, space.start))
        return ActionSpec("multi-discrete", shape, sizes, start, dtype=kind)
    assert isinstance(space, gym.spaces.Box)
    low, high = map(_finite, (space.low, space.high))
    return ActionSpec("box", shape, low=low, high=high, dtype=kind)


def _finite(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(float(v) if np.isfinite(v) else None for v in np.ravel(values))
