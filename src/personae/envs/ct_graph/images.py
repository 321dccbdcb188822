"""The pictures of the CT-graph: rotated 4x4 patterns in three shades, 12x12 pixels.

Picture i depends on the seed and on i alone, so that graphs of different depth share
their first pictures. For the paper's settings the bytes equal those of the published
environment.
"""

import numpy as np
from jaxtyping import Float, UInt8

SIZE = 12
WHITE = 254
CUE = slice(SIZE // 2 - 3, SIZE // 2 + 3)
"""Rows and columns of a leaf's picture that show its reward."""


def rotate(image: Float[np.ndarray, "n n"], degrees: int) -> Float[np.ndarray, "n n"]:
    """Rotate counter-clockwise about the centre; bilinear, zero outside.

    Note: written out because the rounding has to match the published pictures before
    they are cut to integers; `scipy.ndimage` differs there by one.
    """
    n = image.shape[0]
    centre = n / 2 - 0.5
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    dy, dx = np.mgrid[:n, :n] - centre
    x, y = cos * dx - sin * dy + centre, sin * dx + cos * dy + centre
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = x - column, y - row
    margin = n  # a corner moves outwards by less than this
    padded = np.pad(image, margin)

    def pixels(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return padded[rows + margin, columns + margin]

    above = (1 - fx) * pixels(row, column) + fx * pixels(row, column + 1)
    below = (1 - fx) * pixels(row + 1, column) + fx * pixels(row + 1, column + 1)
    return (1 - fy) * above + fy * below


def draw_images(
    count: int, seed: int, noise: int = 0
) -> UInt8[np.ndarray, "count 12 12"]:
    """Draw the pictures; read noise up to `noise` lowers white to make room for it."""
    # The legacy generator and the order of its draws are the published environment's.
    random = np.random.RandomState(seed)
    images = np.zeros((count, SIZE, SIZE), np.uint8)
    for image in images:
        shades = random.randint(0, 3, size=16).reshape(4, 4)
        pattern = np.kron(shades, np.ones((3, 3))) * (WHITE - noise) / 2
        image[:] = rotate(pattern, random.randint(0, 359)).astype(np.uint8)
    return images
