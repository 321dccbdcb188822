"""Methods by the names that users type."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from personae.errors import nearest_match_error
from personae.methods.base import Method
from personae.methods.ewc import EWC, EWCOptions
from personae.methods.finetune import FineTune
from personae.methods.l2 import L2, L2Options
from personae.methods.masked import Masked, MaskOptions
from personae.methods.packnet import PackNet, PackNetOptions


@dataclass(frozen=True)
class MethodOptions:
    """The settings of all methods; each reads its own."""

    masks: MaskOptions = MaskOptions()
    ewc: EWCOptions = EWCOptions()
    l2: L2Options = L2Options()
    packnet: PackNetOptions = PackNetOptions()


def _top_k(options: MaskOptions) -> MaskOptions:
    return dataclasses.replace(options, rule="top-k")


METHODS: dict[str, Callable[[MethodOptions], Method]] = {
    "mask-ri": lambda options: Masked("ri", options.masks),
    "mask-lc": lambda options: Masked("lc", options.masks),
    "mask-blc": lambda options: Masked("blc", options.masks),
    "mask-ri-top-k": lambda options: Masked("ri", _top_k(options.masks)),
    "ppo": lambda options: FineTune(),
    "expert": lambda options: FineTune(restart=True),
    "ewc-sh": lambda options: FineTune(EWC(options.ewc)),
    "ewc-mh": lambda options: FineTune(EWC(options.ewc), multi_head=True),
    "l2": lambda options: FineTune(L2(options.l2), multi_head=True),
    "packnet": lambda options: PackNet(options.packnet),
}
"""What each name builds; docs/methods.md tells them apart."""


def make_method(name: str, options: MethodOptions = MethodOptions()) -> Method:
    """Build a method by name."""
    if name not in METHODS:
        raise nearest_match_error("method", name, METHODS)
    return METHODS[name](options)
