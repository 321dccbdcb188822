"""Films: long episodes become short ones, small pictures large ones."""

import numpy as np
from PIL import Image

from personae.report import save_film
from personae.report.render.film import FILM, FRAME, LAST_FRAME, MOST_FRAMES


def pictures(number, side):
    """Make a point move along a diagonal, in a colour of its own at the end."""
    frames = np.zeros((number, side, side, 3), np.uint8)
    for t in range(number):
        frames[t, t * side // number, t * side // number] = 255
    frames[-1, 0, 0] = (255, 0, 0)
    return list(frames)


def opened(path):
    with Image.open(path) as film:
        pauses, sheets = [], []
        for t in range(film.n_frames):
            film.seek(t)
            pauses.append(film.info["duration"])
            sheets.append(np.asarray(film.convert("RGB")))
    return pauses, sheets


def test_a_short_film_has_all_pictures(tmp_path):
    pauses, sheets = opened(save_film(pictures(7, 300), tmp_path / "a.gif"))
    assert pauses == [FRAME] * 6 + [LAST_FRAME]
    assert sheets[0].shape == (300, 300, 3)


def test_of_a_long_film_some_are_kept_and_always_the_last(tmp_path):
    pauses, sheets = opened(save_film(pictures(501, 300), tmp_path / "a.gif"))
    assert len(sheets) == MOST_FRAMES
    assert sum(pauses[:-1]) <= FILM
    red = sheets[-1][0, 0].astype(int)
    assert red[0] > 200 > 60 > red[1]


def test_small_pictures_are_enlarged_as_they_are(tmp_path):
    _, sheets = opened(save_film(pictures(3, 64), tmp_path / "a.gif"))
    assert sheets[0].shape == (256, 256, 3)
    assert (sheets[0][:4, :4] > 200).all()
    assert (sheets[0][4:] < 60).all()
