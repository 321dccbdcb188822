"""The masks that a run left on disk, task by task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from personae.bits import unpack_bits
from personae.errors import PersonaeError
from personae.files import read_tensors
from personae.runs.directory import RunDirectory

HEADS = ("actor", "critic")
"""Layers that come after all others."""
Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class LearnedMasks:
    """Masks by layer; tasks are in the order in which they were learned."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Float[np.ndarray, "agents tasks _"]]
    """Consolidated scores, real-valued."""
    masks: Mapping[str, Bool[np.ndarray, "agents tasks _"]]
    """Which weights are on, in layers whose rule is binary."""
    coefficients: Mapping[str, Float[np.ndarray, "agents tasks tasks"]]
    """Weight (after the softmax) of each earlier mask, and on the diagonal of the new
    one, at the end of each task's first visit; not a number where there is none. Empty
    for RI; under the name "all layers" where layers share them."""


def read_learned_masks(directory: Path | str) -> LearnedMasks | None:
    """Read a run's masks, or return None if its method leaves none."""
    learned, warm_start = _read_tasks(RunDirectory(directory))
    lives = list(learned.values())
    names = set().union(*lives) if lives else set()
    scored = [name.split("/", 1)[1] for name in names if name.startswith("scores/")]
    layers = sorted(scored, key=lambda layer: (layer.startswith(HEADS), layer))
    if not layers:
        return None
    composed = [n for n in ("all layers", *layers) if _key(n) in names]
    return LearnedMasks(
        tasks=tuple(learned),
        scores={layer: _flat(lives, layer) for layer in layers},
        masks={
            layer: _bits(lives, layer) for layer in layers if f"bits/{layer}" in names
        },
        coefficients={name: _weights(lives, name, warm_start) for name in composed},
    )


def _key(name: str) -> str:
    return "coefficients" if name == "all layers" else f"coefficients/{name}"


def _read_tasks(directory: RunDirectory) -> tuple[dict[str, Tensors], int]:
    """Return what each task left, the newest of all but its coefficients.

    Also return how many masks were there before.
    """
    learned: dict[str, Tensors] = {}
    warm_start = 0
    for expected, path in enumerate(sorted(directory.masks.glob("*.safetensors"))):
        tensors, metadata = read_tensors(path)
        if metadata.get("visit") != expected:
            raise PersonaeError(
                f"{directory.masks} lacks what visit {expected} left: the masks of "
                "later visits cannot be told apart without it"
            )
        task, warm_start = str(metadata["task"]), int(metadata.get("warm_start", 0))
        first = {n: t for n, t in learned.get(task, {}).items() if "coeffi" in n}
        if task in learned:  # trained on: what it was composed of is of its first visit
            tensors = {n: t for n, t in tensors.items() if "coeffi" not in n}
        learned[task] = tensors | first
    return learned, warm_start


def _flat(lives: list[Tensors], layer: str) -> np.ndarray:
    scores = [kept[f"scores/{layer}"] for kept in lives]
    return np.stack([array.reshape(len(array), -1) for array in scores], axis=1)


def _bits(lives: list[Tensors], layer: str) -> np.ndarray:
    count = lives[0][f"scores/{layer}"][0].size
    bits = [unpack_bits(tensors[f"bits/{layer}"], (count,)) for tensors in lives]
    return np.stack(bits, axis=1)


def _weights(lives: list[Tensors], name: str, warm_start: int) -> np.ndarray:
    agents = len(next(iter(lives[0].values())))
    weights = np.full((agents, len(lives), len(lives)), np.nan)
    for task, kept in enumerate(lives):
        found = kept.get(_key(name))
        if found is not None:  # one entry per slot, in the order of learning
            weights[:, task, :task] = found[:, warm_start : warm_start + task]
            weights[:, task, task] = found[:, -1]
    return weights
