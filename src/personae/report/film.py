"""Films of episodes as GIFs, which everything shows."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from personae.rundir import write_atomically

FRAME, LAST_FRAME = 250, 1500
"""Milliseconds that a picture stays, and the last one."""


def save_film(
    frames: Sequence[UInt8[np.ndarray, "height width 3"]], path: Path
) -> Path:
    """Write pictures as one film that starts over; return the path."""
    first, *others = [Image.fromarray(frame) for frame in frames]
    data = io.BytesIO()
    first.save(
        data,
        "GIF",
        save_all=True,
        append_images=others,
        duration=[FRAME] * len(others) + [LAST_FRAME],
        loop=0,
    )
    write_atomically(path, data.getvalue())
    return path
