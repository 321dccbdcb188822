"""Colours that colour-blind readers tell apart too (Okabe and Ito)."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Colour-blind readers see this scale as others do, and it prints well in grey.
SCALE = "cividis"
"""The colour scale of maps, by its name in Matplotlib and in Plotly."""

T = TypeVar("T")


def with_colours(items: Iterable[T]) -> Iterator[tuple[T, str]]:
    """Yield each item with its colour; after the last colour the first one follows."""
    return zip(items, itertools.cycle(PALETTE), strict=False)
