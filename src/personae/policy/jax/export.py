"""Agents as files: how their arrays are packed, and how the file is written.

`personae.training.export` takes an agent out of a run and uses this module.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
from safetensors.numpy import save as encode_tensors

from personae.bits import unpack_bits
from personae.files import write_atomically
from personae.policy.agent import Agent, loads
from personae.policy.architecture import Architecture
from personae.policy.compact import pack_numbers, pack_weights
from personae.policy.manifest import LayerSpec, Manifest, TaskSpec
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.policy.tensors import Arrays
from personae.serialise import to_plain
from personae.types import Space


@dataclass(frozen=True)
class Skill:
    """One task that an agent has learned, with the arrays that it acts with."""

    spec: TaskSpec
    weights: Arrays
    """The network's arrays on the task, by name."""
    statistics: Arrays
    """Mean and deviation of the task's observations, if they are normalised."""
    scores: Arrays
    """The scores of the task's mask by layer, if they are exported."""


def write_agent(path: Path, manifest: Manifest, arrays: Arrays) -> Path:
    """Write an agent's file, once its content has been read back."""
    text = json.dumps(to_plain(manifest), separators=(",", ":"))
    contiguous = {n: np.asarray(array, order="C") for n, array in arrays.items()}
    data = encode_tensors(contiguous, {"personae": text})
    # A file that strict reading refuses must not replace one that it accepts.
    loads(data, str(path))
    write_atomically(path, data)
    return path


def pack_layers(
    architecture: Architecture, skills: Sequence[Skill], backbone: Arrays, half: bool
) -> tuple[tuple[LayerSpec, ...], dict[str, np.ndarray]]:
    """Return the storage of each layer, and all arrays of all skills.

    Args:
        architecture: The network's architecture.
        skills: All that the agent has learned.
        backbone: The backbone's arrays, as `describe_backbone` returns them; empty
            for methods without one.
        half: Store numbers with 16 bits.
    """
    layers: list[LayerSpec] = []
    arrays: dict[str, np.ndarray] = {}
    for name in architecture.layers:
        weights = [skill.weights[f"{name}.weight"] for skill in skills]
        shape = weights[0].shape
        signed = _backbone_weights(name, shape, backbone)
        packed = pack_weights(name, weights, signed, half)
        arrays |= packed.arrays
        bias = None
        if f"{name}.bias" in skills[0].weights:
            biases = [skill.weights[f"{name}.bias"] for skill in skills]
            bias, arrays[f"biases/{name}"] = pack_numbers(biases, half)
        layers.append(LayerSpec(name, shape, packed.storage, packed.constant, bias))
    # Either all skills have statistics and scores, or none has.
    for name in skills[0].statistics:
        arrays[name] = np.stack([skill.statistics[name] for skill in skills])
    for name in skills[0].scores:
        arrays[f"scores/{name}"] = np.stack([skill.scores[name] for skill in skills])
    return tuple(layers), arrays


def _backbone_weights(
    name: str, shape: tuple[int, ...], backbone: Arrays
) -> np.ndarray | None:
    """Return the weights of a layer before any mask, if they are signed constants."""
    if f"signs/{name}" not in backbone:
        return None
    signs = unpack_bits(backbone[f"signs/{name}"], shape)
    constant = np.float32(backbone[f"constants/{name}"])
    return np.where(signs, constant, -constant)


def warm_start_skills(
    agent: Agent, new_names: Sequence[str], with_scores: bool
) -> list[Skill]:
    """Return all skills of the agent that a run began with.

    Args:
        agent: That agent.
        new_names: Names of the tasks that the run itself has learned.
        with_scores: Include the scores of masks.
    """
    skills, names = [], unique_names(agent.tasks, new_names)
    statistics = ("mean", "deviation") if agent.manifest.normalised else ()
    prefix, arrays = "scores/", agent.arrays
    scores = [n for n in arrays if n.startswith(prefix) and with_scores]
    for index, spec in enumerate(agent.manifest.tasks):
        skills.append(
            Skill(
                replace(spec, name=names[index]),
                agent.weights(index),
                {name: arrays[name][index] for name in statistics},
                {n.removeprefix(prefix): arrays[n][index] for n in scores},
            )
        )
    return skills


def unique_names(names: Sequence[str], new_names: Sequence[str]) -> list[str]:
    """Return names of old tasks; one that a new task has too gets an ending."""
    used, unique = {*new_names}, []
    for name in names:
        # Several times, if earlier runs had a task of this name too.
        while name in used:
            name = f"{name}-earlier"
        used.add(name)
        unique.append(name)
    return unique


def observation_spec(space: Space) -> ObservationSpec:
    """Return the specification of a space of observations."""
    if isinstance(space, gym.spaces.Discrete):
        return ObservationSpec((), int(space.n), int(space.start))
    return ObservationSpec(tuple(space.shape or ()))


def action_spec(space: Space) -> ActionSpec:
    """Return the specification of a space of actions."""
    shape, dtype = tuple(space.shape or ()), np.dtype(space.dtype).name
    if isinstance(space, gym.spaces.Discrete):
        return ActionSpec("discrete", (), (int(space.n),), (int(space.start),))
    if isinstance(space, gym.spaces.MultiDiscrete):
        sizes, start = (tuple(map(int, np.ravel(x))) for x in (space.nvec, space.start))
        return ActionSpec("multi-discrete", shape, sizes, start, dtype=dtype)
    assert isinstance(space, gym.spaces.Box)
    low, high = map(_finite, (space.low, space.high))
    return ActionSpec("box", shape, low=low, high=high, dtype=dtype)


def _finite(values: np.ndarray) -> tuple[float | None, ...]:
    # JSON has no infinity.
    return tuple(float(v) if np.isfinite(v) else None for v in np.ravel(values))
