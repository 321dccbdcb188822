"""The masks that a run left on disk, task by task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from personae.rundir import RunDirectory, read_tensors

HEADS = ("actor", "critic")
"""Layers that come after all others."""


@dataclass(frozen=True)
class KeptMasks:
    """Masks by layer; tasks are in the order in which they were learned."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Float[np.ndarray, "agents tasks weights"]]
    """Consolidated scores, real-valued."""
    masks: Mapping[str, Bool[np.ndarray, "agents tasks weights"]]
    """Which weights are on; empty for rules that are not binary."""
    coefficients: Mapping[str, Float[np.ndarray, "agents tasks tasks"]]
    """Weight (after the softmax) of each earlier mask, and on the diagonal of the new
    one, at the end of each task; not a number where there is none. Empty for RI."""


def read_masks(directory: Path | str) -> KeptMasks | None:
    """Read a run's masks, or return None if its method leaves none."""
    visits: dict[str, dict[str, np.ndarray]] = {}
    for path in sorted(RunDirectory(directory).masks.glob("*.safetensors")):
        tensors, metadata = read_tensors(path)
        # A task that came again has new scores, but was composed at its first visit.
        visits[metadata["task"]] = visits.get(metadata["task"], {}) | tensors
    names = [name for kept in visits.values() for name in kept]
    scored = [n.split("/", 1)[1] for n in dict.fromkeys(names) if "scores/" in n]
    layers = sorted(scored, key=lambda layer: (layer.startswith(HEADS), layer))
    if not layers:
        return None
    lives = list(visits.values())
    composed = any(name.startswith("coefficients") for name in names)
    binary = any(name.startswith("bits") for name in names)
    return KeptMasks(
        tasks=tuple(visits),
        scores={layer: _flat(lives, layer) for layer in layers},
        masks={layer: _bits(lives, layer) for layer in layers} if binary else {},
        coefficients={layer: _weights(lives, layer) for layer in layers}
        if composed
        else {},
    )


def _flat(lives: list[dict[str, np.ndarray]], layer: str) -> np.ndarray:
    scores = [kept[f"scores/{layer}"] for kept in lives]
    return np.stack([array.reshape(len(array), -1) for array in scores], axis=1)


def _bits(lives: list[dict[str, np.ndarray]], layer: str) -> np.ndarray:
    count = lives[0][f"scores/{layer}"][0].size
    bits = [
        np.unpackbits(kept[f"bits/{layer}"], axis=-1, count=count) for kept in lives
    ]
    return np.stack(bits, axis=1).astype(bool)


def _weights(lives: list[dict[str, np.ndarray]], layer: str) -> np.ndarray:
    agents = len(lives[0][f"scores/{layer}"])
    weights = np.full((agents, len(lives), len(lives)), np.nan)
    for task, kept in enumerate(lives):
        found = kept.get(f"coefficients/{layer}")
        if found is not None:  # one entry per slot, in the order of learning
            weights[:, task, :task] = found[:, :task]
            weights[:, task, task] = found[:, -1]
    return weights
