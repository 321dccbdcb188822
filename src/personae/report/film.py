"""Films of episodes as GIFs, which everything shows."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from personae.rundir import write_atomically

FRAME, LAST_FRAME = 250, 1500
"""Milliseconds that a picture stays, and the last one."""
ACROSS, SIDE, GAP, WHITE = 5, 144, 4, 255
"""Films in a row, the longer side of each, and what is between them, in pixels."""
Picture = UInt8[np.ndarray, "_ _ 3"]


def save_film(frames: Sequence[Picture], path: Path) -> Path:
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


def side_by_side(films: Sequence[Sequence[Picture]]) -> list[Picture]:
    """Return one film of several, smaller; the shorter ones wait for the others."""
    across = min(ACROSS, len(films))
    shape = (math.ceil(len(films) / across) * (SIDE + GAP), across * (SIDE + GAP), 3)
    small = [[_shrunk(frame) for frame in film] for film in films]
    frames = []
    for moment in range(max(map(len, films))):
        sheet = np.full(shape, WHITE, np.uint8)
        for number, film in enumerate(small):
            picture = film[min(moment, len(film) - 1)]
            top, left = (n * (SIDE + GAP) for n in divmod(number, across))
            height, width = picture.shape[:2]
            sheet[top : top + height, left : left + width] = picture
        frames.append(sheet)
    return frames


def _shrunk(frame: Picture) -> Picture:
    height, width = frame.shape[:2]
    factor = SIDE / max(height, width)
    size = (max(round(width * factor), 1), max(round(height * factor), 1))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS))
