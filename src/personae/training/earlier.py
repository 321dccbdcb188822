"""What an earlier life has left, for a new one to go on from."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from personae.curricula.spec import Curriculum
from personae.errors import PersonaeError, UsageError, require
from personae.methods.base import Method
from personae.methods.earlier import Earlier
from personae.methods.masked import Masked
from personae.plain import first_difference, to_plain
from personae.policy.agent import Agent, load, loads
from personae.rundir import RunDirectory

NOT_OF_MASKS = ("unseen", "per_layer")
"""Settings that do not change what a mask is."""


def earlier_file(source: Path | str) -> bytes:
    """Return the agent that a file, or the first agent of a run, is."""
    path = Path(source)
    if not path.is_dir():
        load(path)
        return path.read_bytes()
    from personae.training.shipping import export_agent  # which reads runs like this

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "earlier.persona"
        return export_agent(path, file, with_scores=True).read_bytes()


def digest(data: bytes) -> str:
    """Return what identifies a file."""
    return hashlib.sha256(data).hexdigest()


def read_earlier(directory: RunDirectory) -> bytes:
    """Return the agent that a run goes on from, as the run keeps it."""
    try:
        return directory.earlier_file.read_bytes()
    except OSError as error:
        raise PersonaeError(
            f"the agent that the run goes on from cannot be read: {error}"
        ) from error


def continued(
    method: Method, curriculum: Curriculum, data: bytes, wanted: str
) -> Method:
    """Return a method that goes on from an agent, if it is the one that is wanted."""
    require(
        digest(data) == wanted,
        "the agent in earlier.persona is not the one that this run goes on from: one "
        "of them was changed",
    )
    agent = loads(data, "earlier.persona")
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
        "masks": to_plain(method.options),
        "label_dim": curriculum.label_dim,
        "scale": curriculum.inputs.scale,
        "recall": curriculum.inputs.recall,
        "normalised": curriculum.normalise.observations,
    }
    theirs = {name: getattr(manifest, name) for name in ours}
    for each in (ours, theirs):
        kept = dict(each["masks"] or {}).items()
        each["masks"] = {n: v for n, v in kept if n not in NOT_OF_MASKS}
    difference = first_difference(theirs, ours)
    if difference is not None:
        where, then, now = difference
        raise UsageError(
            f"the earlier life's {where} is {then!r}, this curriculum's is {now!r}: a "
            "life goes on with the same network, inputs and masks"
        )
    scores, backbone = (_named(agent, part) for part in ("scores", "backbone"))
    return method.going_on(Earlier(backbone, scores))


def _named(agent: Agent, part: str) -> dict[str, np.ndarray]:
    prefix = f"{part}/"
    arrays = agent.arrays.items()
    return {n.removeprefix(prefix): a for n, a in arrays if n.startswith(prefix)}
