"""Methods by the names that users type."""

from collections.abc import Callable

from personae.errors import nearest_match_error
from personae.methods.base import Method
from personae.methods.masked import Masked, MaskOptions

METHODS: dict[str, Callable[[MaskOptions], Method]] = {
    "mask-ri": lambda options: Masked("ri", options),
    "mask-lc": lambda options: Masked("lc", options),
    "mask-blc": lambda options: Masked("blc", options),
}
"""What each name builds. RI draws every mask afresh, LC composes it with all earlier
ones at equal weights, BLC gives the new mask half of the weight."""


def make_method(name: str, options: MaskOptions = MaskOptions()) -> Method:
    """Build a method by name."""
    if name not in METHODS:
        raise nearest_match_error("method", name, METHODS)
    return METHODS[name](options)
