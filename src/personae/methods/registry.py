"""The registry of methods, by the names that users type."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from personae.errors import nearest_match_error
from personae.masks.generate import RuleName
from personae.methods.clear import CLEAR, CLEAROptions
from personae.methods.contract import Method
from personae.methods.ewc import EWC, EWCOptions
from personae.methods.finetune import FineTune
from personae.methods.l2 import L2, L2Options
from personae.methods.masked import Masked, MaskOptions
from personae.methods.online_ewc import OnlineEWC, OnlineEWCOptions
from personae.methods.packnet import PackNet, PackNetOptions
from personae.methods.progress_compress import (
    ProgressCompress,
    ProgressCompressOptions,
)


@dataclass(frozen=True)
class MethodOptions:
    """The options of all methods; each method reads its own field."""

    masks: MaskOptions = MaskOptions()
    ewc: EWCOptions = EWCOptions()
    l2: L2Options = L2Options()
    packnet: PackNetOptions = PackNetOptions()
    online_ewc: OnlineEWCOptions = OnlineEWCOptions()
    progress_compress: ProgressCompressOptions = ProgressCompressOptions()
    clear: CLEAROptions = CLEAROptions()


LayerRules: TypeAlias = tuple[tuple[str, RuleName], ...]
CONTINUOUS_HEADS: LayerRules = (("actor", "continuous"), ("critic", "continuous"))


def _masked_ri(
    options: MethodOptions, rule: RuleName, layer_rules: LayerRules = ()
) -> Masked:
    masks = dataclasses.replace(options.masks, rule=rule, layer_rules=layer_rules)
    return Masked("ri", masks)


class MethodEntry(NamedTuple):
    """A method in the registry."""

    build: Callable[[MethodOptions], Method]
    """Builds the method from the options of all methods."""
    settings: str | None
    """Name of the field of `MethodOptions` that the method reads; None if none."""
    learner: str | None = None
    """Name of the learner that the method is tied to; None if any will do."""


METHODS: dict[str, MethodEntry] = {
    "mask-ri": MethodEntry(lambda options: Masked("ri", options.masks), "masks"),
    "mask-lc": MethodEntry(lambda options: Masked("lc", options.masks), "masks"),
    "mask-blc": MethodEntry(lambda options: Masked("blc", options.masks), "masks"),
    "mask-ri-top-k": MethodEntry(lambda options: _masked_ri(options, "top-k"), "masks"),
    # These fix the rule, to be compared with the continuous masks of CW10's preset.
    "mask-ri-binary": MethodEntry(
        lambda options: _masked_ri(options, "threshold"), "masks"
    ),
    "mask-ri-mixed": MethodEntry(
        lambda options: _masked_ri(options, "threshold", CONTINUOUS_HEADS), "masks"
    ),
    # Fine-tuning goes by the name of its learner, as in the paper's tables.
    "ppo": MethodEntry(lambda options: FineTune(), None, "ppo"),
    "ppo-mh": MethodEntry(lambda options: FineTune(multi_head=True), None, "ppo"),
    "impala": MethodEntry(lambda options: FineTune(), None, "impala"),
    "expert": MethodEntry(lambda options: FineTune(restart=True), None),
    "ewc-sh": MethodEntry(lambda options: FineTune(EWC(options.ewc)), "ewc"),
    "ewc-mh": MethodEntry(lambda o: FineTune(EWC(o.ewc), multi_head=True), "ewc"),
    "l2": MethodEntry(lambda options: FineTune(L2(options.l2), multi_head=True), "l2"),
    "packnet": MethodEntry(lambda options: PackNet(options.packnet), "packnet"),
    "online-ewc": MethodEntry(
        lambda o: FineTune(OnlineEWC(o.online_ewc)), "online_ewc"
    ),
    # Names with -cora stand for the public implementation, its slips included.
    "online-ewc-cora": MethodEntry(
        lambda o: FineTune(OnlineEWC(o.online_ewc.as_published())), "online_ewc"
    ),
    "progress-compress": MethodEntry(
        lambda o: ProgressCompress(o.progress_compress), "progress_compress"
    ),
    "progress-compress-cora": MethodEntry(
        lambda o: ProgressCompress(o.progress_compress.as_published()),
        "progress_compress",
    ),
    "clear": MethodEntry(lambda options: FineTune(CLEAR(options.clear)), "clear"),
}
"""The methods by name; docs/methods.md describes them."""


def make_method(name: str, options: MethodOptions = MethodOptions()) -> Method:
    """Build a method by name.

    Args:
        name: A name in `METHODS`, such as "mask-blc".
        options: The options of all methods; the method reads its own field.

    Raises:
        UsageError: There is no such method; the message names the nearest one.
    """
    if name not in METHODS:
        raise nearest_match_error("method", name, METHODS)
    return METHODS[name].build(options)


def unread_settings(name: str) -> set[str]:
    """Return the names of the options that a method does not read."""
    # Left out of a run's configuration, these do not keep it from being resumed.
    names = {field.name for field in dataclasses.fields(MethodOptions)}
    return names - {METHODS[name].settings}
