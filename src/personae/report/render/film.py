"""Films of episodes as GIFs, which every viewer shows."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from personae.files import write_atomically

FRAME_TIME, LAST_FRAME_TIME, MAX_FILM_TIME = 250, 1500, 10_000
"""Milliseconds of a frame in a short film, of the last frame, and of all frames of a
long film together."""
MAX_FRAMES, COLOURS, MIN_SIZE = 100, 128, 256
"""Frames of a film, its colours, and the pixels to which a small one is enlarged."""
MAX_COLUMNS, ROW_WIDTH, MAX_WIDTH, GAP, WHITE = 5, 720, 288, 4, 255
"""Films in a row, pixels of a row, of the widest film in it, and between two films."""
Picture = UInt8[np.ndarray, "_ _ 3"]


def save_film(frames: Sequence[Picture], path: Path) -> Path:
    """Write frames as one film that starts over; return the path.

    Long episodes are shown by `MAX_FRAMES` of their frames, the last one included.
    """
    indices = _frame_indices(len(frames))
    first, *others = [_picture(frames[index]) for index in indices]
    pause = min(MAX_FILM_TIME // (len(others) + 1), FRAME_TIME)
    data = io.BytesIO()
    first.save(
        data,
        "GIF",
        save_all=True,
        append_images=others,
        duration=[pause] * len(others) + [LAST_FRAME_TIME],
        loop=0,
    )
    write_atomically(path, data.getvalue())
    return path


def _frame_indices(length: int) -> list[int]:
    """Return the indices of the frames to show: the first, the last, some between."""
    indices = np.linspace(0, length - 1, min(length, MAX_FRAMES))
    return [int(index) for index in indices]


def _picture(frame: Picture) -> Image.Image:
    """Return a picture with few colours, large enough to be looked at."""
    picture = Image.fromarray(frame)
    factor = MIN_SIZE // max(picture.size)
    if factor > 1:
        # Whole factors and no interpolation: the cells of a grid keep sharp edges.
        size = picture.width * factor, picture.height * factor
        picture = picture.resize(size, Image.Resampling.NEAREST)
    # Dithering would make every frame differ everywhere, and the file several times
    # as large.
    return picture.quantize(
        COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )


def side_by_side(films: Sequence[Sequence[Picture]]) -> list[Picture]:
    """Return one film of several, smaller; shorter ones stop at their last frame."""
    columns = min(MAX_COLUMNS, len(films))
    width = min(MAX_WIDTH, ROW_WIDTH // columns)
    indices = _frame_indices(max(map(len, films)))
    small = [
        [_resized(film[min(index, len(film) - 1)], width) for index in indices]
        for film in films
    ]
    height = max(frame.shape[0] for film in small for frame in film)
    rows = math.ceil(len(films) / columns)
    frames = []
    for pictures in zip(*small, strict=True):
        shape = (rows * (height + GAP), columns * (width + GAP), 3)
        sheet = np.full(shape, WHITE, np.uint8)
        for number, picture in enumerate(pictures):
            row, column = divmod(number, columns)
            top, left = row * (height + GAP), column * (width + GAP)
            sheet[top : top + picture.shape[0], left : left + width] = picture
        frames.append(sheet)
    return frames


def _resized(frame: Picture, width: int) -> Picture:
    height = max(round(frame.shape[0] * width / frame.shape[1]), 1)
    resized = Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(resized)
