"""Tests of films: long episodes become short, and small frames large."""

import numpy as np
from PIL import Image

from personae.report import save_film
from personae.report.render.film import (
    FRAME_TIME,
    LAST_FRAME_TIME,
    MAX_FILM_TIME,
    MAX_FRAMES,
)


def make_frames(number, side):
    """Return frames of a point on a diagonal; the last frame has a red corner."""
    frames = np.zeros((number, side, side, 3), np.uint8)
    for t in range(number):
        frames[t, t * side // number, t * side // number] = 255
    frames[-1, 0, 0] = (255, 0, 0)
    return list(frames)


def read_film(path):
    with Image.open(path) as film:
        pauses, sheets = [], []
        for t in range(film.n_frames):
            film.seek(t)
            pauses.append(film.info["duration"])
            sheets.append(np.asarray(film.convert("RGB")))
    return pauses, sheets


def test_a_short_film_shows_all_frames(tmp_path):
    pauses, sheets = read_film(save_film(make_frames(7, 300), tmp_path / "a.gif"))
    assert pauses == [FRAME_TIME] * 6 + [LAST_FRAME_TIME]
    assert sheets[0].shape == (300, 300, 3)


def test_a_long_film_shows_some_frames_and_the_last(tmp_path):
    pauses, sheets = read_film(save_film(make_frames(501, 300), tmp_path / "a.gif"))
    assert len(sheets) == MAX_FRAMES
    assert sum(pauses[:-1]) <= MAX_FILM_TIME
    red = sheets[-1][0, 0].astype(int)
    assert red[0] > 200 > 60 > red[1]


def test_small_pictures_are_enlarged_with_sharp_edges(tmp_path):
    _, sheets = read_film(save_film(make_frames(3, 64), tmp_path / "a.gif"))
    assert sheets[0].shape == (256, 256, 3)
    assert (sheets[0][:4, :4] > 200).all()
    assert (sheets[0][4:] < 60).all()
