"""Warm starts: a method takes the backbone and the masks of an agent's file."""

import hashlib
from dataclasses import asdict, dataclass
from functools import partial

import equinox as eqx
import numpy as np

from personae.backbones.weights import fingerprint
from personae.errors import UsageError, require
from personae.methods.contract import Method
from personae.methods.masked import Masked, MaskOptions
from personae.methods.warm_start import WarmStart
from personae.policy.agent import Agent, loads
from personae.policy.architecture import Architecture
from personae.policy.jax.translate import architecture_of
from personae.serialise import PlainData, first_difference, from_plain, to_plain

NOT_OF_MASKS = ("unseen", "per_layer")
"""Options of masks that change when a mask is used, and not the mask."""


@dataclass(frozen=True)
class InputSettings:
    """Settings of a network's inputs, which a warm start cannot change."""

    label_dim: int
    scale: float
    previous_step: bool
    normalised: bool


def num_warm_start_masks(method: Method) -> int:
    """Return the number of masks that a method has from a warm start."""
    warm_start = method.warm_start if isinstance(method, Masked) else None
    return warm_start.number if warm_start else 0


def digest(data: bytes) -> str:
    """Return a digest of a file's content."""
    return hashlib.sha256(data).hexdigest()


def with_warm_start(method: Method, inputs: InputSettings, data: bytes) -> Masked:
    """Return a method that starts with the backbone and the masks of an agent.

    Args:
        method: A method of masks.
        inputs: The settings of the new network's inputs.
        data: The content of the agent's file.
    """
    agent = loads(data, "warm-start.persona")
    manifest = agent.manifest
    require(
        manifest.scores,
        f"the agent of {manifest.curriculum} was exported without its scores, which "
        "new masks are composed from: export it with --with-scores",
    )
    if not isinstance(method, Masked):
        raise UsageError(
            "only methods of masks have a warm start (mask-blc, mask-lc ...)"
        )
    _check_settings(agent, method, inputs)
    scores, backbone = (_arrays_under(agent, part) for part in ("scores", "backbone"))
    # Under another backbone the masks would be noise, and nothing else would tell.
    require(
        fingerprint(backbone) == manifest.fingerprint,
        "the agent's backbone is not the one that its masks were learned on",
    )
    check_network = partial(check_architecture, manifest.architecture)
    return method.with_warm_start(WarmStart(backbone, scores, check_network))


def check_architecture(architecture: Architecture, network: eqx.Module) -> None:
    """Raise an error unless a network has an architecture."""
    difference = first_difference(
        to_plain(architecture), to_plain(architecture_of(network))
    )
    if difference is not None:
        field, value, network_value = difference
        raise UsageError(
            f"the network of the warm start is another one: its {field} is {value}, "
            f"this curriculum's is {network_value}"
        )


def _check_settings(agent: Agent, method: Masked, inputs: InputSettings) -> None:
    """Raise an error unless an agent's masks and inputs are those of a new run."""
    manifest = agent.manifest
    run_settings: PlainData = asdict(inputs) | {"masks": _of_masks(method.options)}
    settings = {name: getattr(manifest, name) for name in run_settings}
    # Read through the options, so that an option left out equals its default.
    settings["masks"] = _of_masks(from_plain(MaskOptions, manifest.masks, "masks"))
    difference = first_difference(settings, run_settings)
    if difference is not None:
        field, value, run_value = difference
        raise UsageError(
            f"the warm start's {field} is {value!r}, this curriculum's is "
            f"{run_value!r}: network, inputs and masks must be the same"
        )


def _of_masks(options: MaskOptions) -> PlainData:
    """Return the options that decide which mask scores make."""
    fields = to_plain(options).items()
    return {name: value for name, value in fields if name not in NOT_OF_MASKS}


def _arrays_under(agent: Agent, part: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names start with a part, without it."""
    prefix = f"{part}/"
    arrays = agent.arrays.items()
    return {n.removeprefix(prefix): a for n, a in arrays if n.startswith(prefix)}
