"""Films of episodes as GIFs, which everything shows."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from personae.files import write_atomically

FRAME, LAST_FRAME, FILM = 250, 1500, 10_000
"""Milliseconds that a picture stays in a short film, the last one, and all pictures of
a long film."""
MOST_FRAMES, COLOURS, SMALLEST = 100, 128, 256
"""Pictures of a film, its colours, and the pixels to which a small one is enlarged."""
ACROSS, WIDTH, WIDEST, GAP, WHITE = 5, 720, 288, 4, 255
"""Films in a row, pixels of a row, of the widest film in it, and between two films."""
Picture = UInt8[np.ndarray, "_ _ 3"]


def save_film(frames: Sequence[Picture], path: Path) -> Path:
    """Write pictures as one film that starts over; return the path.

    Of a long episode only some are kept.
    """
    first, *others = [_picture(frames[moment]) for moment in _moments(len(frames))]
    pause = min(FILM // (len(others) + 1), FRAME)
    data = io.BytesIO()
    first.save(
        data,
        "GIF",
        save_all=True,
        append_images=others,
        duration=[pause] * len(others) + [LAST_FRAME],
        loop=0,
    )
    write_atomically(path, data.getvalue())
    return path


def _moments(length: int) -> list[int]:
    """Return which pictures of a film are kept: the first, the last, some between."""
    kept = np.linspace(0, length - 1, min(length, MOST_FRAMES))
    return [int(moment) for moment in kept]


def _picture(frame: Picture) -> Image.Image:
    """Return a picture with few colours, large enough to be looked at."""
    picture = Image.fromarray(frame)
    times = SMALLEST // max(picture.size)
    if times > 1:
        size = picture.width * times, picture.height * times
        picture = picture.resize(size, Image.Resampling.NEAREST)
    return picture.quantize(
        COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )


def side_by_side(films: Sequence[Sequence[Picture]]) -> list[Picture]:
    """Return one film of several, smaller; the shorter ones wait for the others."""
    across = min(ACROSS, len(films))
    width = min(WIDEST, WIDTH // across)
    moments = _moments(max(map(len, films)))
    shown = [[film[min(at, len(film) - 1)] for at in moments] for film in films]
    small = [[_shrunk(frame, width) for frame in film] for film in shown]
    height = max(frame.shape[0] for film in small for frame in film)
    down = math.ceil(len(films) / across)
    frames = []
    for pictures in zip(*small, strict=True):
        shape = (down * (height + GAP), across * (width + GAP), 3)
        sheet = np.full(shape, WHITE, np.uint8)
        for number, picture in enumerate(pictures):
            row, column = divmod(number, across)
            top, left = row * (height + GAP), column * (width + GAP)
            sheet[top : top + picture.shape[0], left : left + width] = picture
        frames.append(sheet)
    return frames


def _shrunk(frame: Picture, width: int) -> Picture:
    height = max(round(frame.shape[0] * width / frame.shape[1]), 1)
    resized = Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(resized)
