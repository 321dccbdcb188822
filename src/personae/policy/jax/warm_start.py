"""What an earlier life has left, for a new one to go on from."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from personae.backbones.weights import fingerprint
from personae.curricula.curriculum import Curriculum
from personae.errors import PersonaeError, UsageError, require
from personae.methods.contract import Method
from personae.methods.masked import Masked, MaskOptions
from personae.methods.warm_start import WarmStart
from personae.policy.agent import Agent, loads
from personae.policy.tensors import read_file
from personae.runs.directory import RunDirectory
from personae.serialise import first_difference, from_plain, to_plain

NOT_OF_MASKS = ("unseen", "per_layer")
"""Settings that do not change what a mask is."""


def warm_start_file(source: Path | str) -> bytes:
    """Return the agent that a file, or the first agent of a run, is."""
    path = Path(source)
    if not path.is_dir():
        data = read_file(path)
        loads(data, str(path))
        return data
    from personae.training.export import export_agent  # which reads runs like this

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "warm-start.persona"
        return export_agent(path, file, with_scores=True).read_bytes()


def warm_start_of(
    source: Path | str | None, directory: RunDirectory, resume: bool
) -> bytes | None:
    """Return the agent that a run goes on from; one that is resumed has it already."""
    if not (resume and directory.exists()):
        return None if source is None else warm_start_file(source)
    if not directory.warm_start_file.exists():
        require(
            source is None,
            f"the run in {directory.root} began without an agent: leave out --warm-start",
        )
        return None
    own = read_warm_start(directory)
    file = source is not None and not Path(source).is_dir()
    require(
        not file or warm_start_file(Path(source or "")) == own,
        f"the run in {directory.root} goes on from another agent than --warm-start {source}; "
        "leave it out to resume",
    )
    return own


def num_warm_start_masks(method: Method) -> int:
    """Return how many masks a method has from an earlier life."""
    before = isinstance(method, Masked) and method.warm_start
    return before.number if before else 0


def digest(data: bytes) -> str:
    """Return what identifies a file."""
    return hashlib.sha256(data).hexdigest()


def read_warm_start(directory: RunDirectory) -> bytes:
    """Return the agent that a run goes on from, as the run keeps it."""
    try:
        return directory.warm_start_file.read_bytes()
    except OSError as error:
        raise PersonaeError(
            f"the agent that the run goes on from cannot be read: {error}"
        ) from error


def apply_warm_start(
    method: Method, curriculum: Curriculum, data: bytes, wanted: str
) -> Method:
    """Return a method that goes on from an agent, if it is the one that is wanted."""
    require(
        digest(data) == wanted,
        "the agent in warm-start.persona is not the one that this run goes on from: one "
        "of them was changed",
    )
    agent = loads(data, "warm-start.persona")
    manifest = agent.manifest
    require(
        manifest.scores,
        f"the agent of {manifest.curriculum} was exported without its scores, which "
        "new masks are composed from: export it with --with-scores",
    )
    if not isinstance(method, Masked):
        raise UsageError(
            "only masks go on from an earlier life (mask-blc, mask-lc ...)"
        )
    ours: dict[str, Any] = {
        "masks": _of_masks(method.options),
        "label_dim": curriculum.label_dim,
        "scale": curriculum.inputs.scale,
        "previous_step": curriculum.inputs.previous_step,
        "normalised": curriculum.normalise.observations,
    }
    theirs = {name: getattr(manifest, name) for name in ours}
    theirs["masks"] = _of_masks(from_plain(MaskOptions, manifest.masks, "masks"))
    difference = first_difference(theirs, ours)
    if difference is not None:
        where, then, now = difference
        raise UsageError(
            f"the earlier life's {where} is {then!r}, this curriculum's is {now!r}: a "
            "life goes on with the same network, inputs and masks"
        )
    scores, backbone = (_named(agent, part) for part in ("scores", "backbone"))
    require(
        fingerprint(backbone) == manifest.fingerprint,
        "the agent's backbone is not the one that its masks were learned on",
    )
    return method.with_warm_start(WarmStart(backbone, scores, manifest.form))


def _of_masks(options: MaskOptions) -> dict[str, Any]:
    """Return the settings that make a mask what it is."""
    plain = to_plain(options).items()
    return {name: value for name, value in plain if name not in NOT_OF_MASKS}


def _named(agent: Agent, part: str) -> dict[str, np.ndarray]:
    prefix = f"{part}/"
    arrays = agent.arrays.items()
    return {n.removeprefix(prefix): a for n, a in arrays if n.startswith(prefix)}
