"""Modulating masks: Mask RI, Mask LC and Mask BLC (the paper's Algorithm 1 and Eq. 2).

The backbone never changes. Each task trains its own scores and, in LC and BLC, the
coefficients that weigh them against the stored scores of other tasks. At a task's end
the weighted sum becomes the task's scores, so that the coefficients can be dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from personae.backbones.weights import (
    describe_backbone,
    named_weights,
    signed_constant,
    split_weights,
)
from personae.bits import pack_bits_in_jax
from personae.errors import nearest_match_error, require
from personae.masks import bank as banks
from personae.masks.compose import (
    Composition,
    compose,
    initial_logits,
    softmax_coefficients,
)
from personae.masks.generate import BINARY_RULES, Rule, RuleName, make_rule
from personae.masks.modulate import (
    choose_by_layer,
    generate_masks,
    init_scores,
    modulate,
)
from personae.methods.contract import Method, Traits
from personae.methods.warm_start import WarmStart
from personae.types import Network, PRNGKey


@dataclass(frozen=True)
class MaskOptions:
    """Options of masks: the rules that make them, and the masks of unlearned tasks."""

    rule: RuleName = "threshold"
    """g, from scores to masks, in every layer that `layer_rules` does not name."""
    epsilon: float = 0.0
    """Threshold of the threshold, continuous and ternary rules."""
    density: float = 0.5
    """Share of each layer's weights that the top-k rule selects."""
    layer_rules: tuple[tuple[str, RuleName], ...] = ()
    """Other rules by layer: (("actor", "continuous"), ("critic", "continuous"))."""
    per_layer: bool = True
    """One coefficient per mask and layer; otherwise one per mask."""
    unseen: Literal["first", "latest", "average"] = "first"
    """Scores for a task not learned yet: those of the first task (as published), those
    in training (latest), or the average of all learned ones."""

    def __post_init__(self) -> None:
        fits = 0 < self.density <= 1
        require(fits, f"density must lie in (0, 1], not {self.density}")


class MaskedTrainable(eqx.Module):
    """The parameters that a mask method trains on one task."""

    scores: PyTree[Array]
    logits: Float[Array, "rows entries"] | None
    """Coefficients before the softmax, a row per layer or one for all; None if there
    are no stored scores to compose."""


class MaskedState(eqx.Module):
    """A fixed backbone, the learned scores and the start of the current task."""

    backbone: eqx.Module
    bank: banks.Bank
    task: Int[Array, ""]
    active: Bool[Array, " slots"]
    """The slots of the bank that are composed with the current task's scores."""
    start: MaskedTrainable


@dataclass(frozen=True)
class Masked(Method):
    """A lifelong method that learns one mask per task over a fixed backbone."""

    composition: Composition
    options: MaskOptions = MaskOptions()
    # Not compared, since arrays have no single truth value.
    warm_start: WarmStart | None = field(default=None, compare=False)
    """The backbone and the scores to start from, if not from scratch."""

    def with_warm_start(self, warm_start: WarmStart) -> "Masked":
        """Return the same method with a backbone and scores to start from."""
        return replace(self, warm_start=warm_start)

    @property
    def traits(self) -> Traits:
        """The properties of the method."""
        # As published: in a fixed backbone all biases would stay zero.
        return Traits(use_bias=False)

    @property
    def _rule_name_of(self) -> Callable[[str], RuleName]:
        return choose_by_layer(self.options.rule, dict(self.options.layer_rules))

    def _rule_of(self, layer: str) -> Rule:
        name = self._rule_name_of(layer)
        return make_rule(name, self.options.epsilon, self.options.density)

    def init(self, network: eqx.Module, num_tasks: int, key: PRNGKey) -> MaskedState:
        """Return a signed-constant backbone with an empty bank.

        With a warm start the backbone and the first slots of the bank come from there.
        """
        weights, _ = split_weights(network)
        self._check_layers(list(named_weights(weights)))
        zeros = MaskedTrainable(jax.tree.map(jnp.zeros_like, weights), None)
        if self.warm_start is None:
            backbone = signed_constant(network, key)
            bank = banks.empty_bank(weights, num_tasks)
        else:
            backbone = self.warm_start.backbone_of(network)
            bank = banks.inherited_bank(self.warm_start.scores_like(weights), num_tasks)
        return MaskedState(
            backbone=backbone,
            bank=bank,
            task=jnp.asarray(0, jnp.int32),
            active=jnp.zeros(bank.capacity, bool),
            start=zeros,
        )

    def _check_layers(self, layers: list[str]) -> None:
        # A misspelt layer would silently be given the default rule.
        for prefix, _ in self.options.layer_rules:
            if not any(n == prefix or n.startswith(f"{prefix}.") for n in layers):
                raise nearest_match_error("layer in layer_rules", prefix, layers)

    def resize(self, state: MaskedState, learned: int) -> MaskedState:
        """Make room in the bank."""
        bank = banks.reserve(state.bank, learned)
        # One entry per slot; new slots are empty, so they take no part.
        active = jnp.pad(state.active, (0, bank.capacity - state.bank.capacity))
        return eqx.tree_at(lambda s: (s.bank, s.active), state, (bank, active))

    def begin_task(
        self, state: MaskedState, task: Int[Array, ""], key: PRNGKey
    ) -> MaskedState:
        """Draw fresh scores and coefficients; a learned task reuses its own scores."""
        is_learned = state.bank.has_learned(task)
        # The whole key is for the scores: RI, LC and BLC of a seed draw the same ones.
        scores = init_scores(state.backbone, key)
        # Decided when a program is compiled: an empty bank has no slot to look up.
        if state.bank.capacity > 0:
            own = state.bank.lookup(state.bank.slot_of_task[task])
            scores = jax.tree.map(lambda o, s: jnp.where(is_learned, o, s), own, scores)
        # The scores of a learned task were composed with the others at its first end.
        active = state.bank.occupied & ~is_learned & (self.composition != "ri")
        return MaskedState(
            backbone=state.backbone,
            bank=state.bank,
            task=task.astype(jnp.int32),
            active=active,
            start=MaskedTrainable(scores, self._initial_logits(scores, active)),
        )

    def _initial_logits(
        self, scores: PyTree[Array], active: Bool[Array, " slots"]
    ) -> Float[Array, "rows entries"] | None:
        # None instead of zeros, so that nothing is composed, trained or exported.
        if self.composition == "ri" or active.size == 0:
            return None
        logits = initial_logits(self.composition, active)
        rows = len(jax.tree.leaves(scores)) if self.options.per_layer else 1
        return jnp.tile(logits, (rows, 1))

    def trainable(self, state: MaskedState) -> MaskedTrainable:
        """Return the scores and coefficients at the start of the task."""
        return state.start

    def composed(self, state: MaskedState, trainable: MaskedTrainable) -> PyTree[Array]:
        """Return S^lc: the scores from which the current task's mask is generated."""
        if trainable.logits is None:
            return trainable.scores
        # The bank may have grown since the task began; its first slots are the same.
        slots = trainable.logits.shape[1] - 1
        stored = jax.tree.map(lambda layer: layer[:slots], state.bank.scores)
        return compose(trainable.scores, stored, trainable.logits, state.active[:slots])

    def network(
        self, state: MaskedState, trainable: MaskedTrainable, key: PRNGKey
    ) -> Network:
        """Return the backbone modulated for the current task."""
        scores = self.composed(state, trainable)
        return cast(Network, modulate(state.backbone, scores, self._rule_of, key))

    def end_task(
        self, state: MaskedState, trainable: MaskedTrainable, key: PRNGKey
    ) -> MaskedState:
        """Consolidate: store the composed scores as the task's own."""
        # Real-valued, as later tasks compose them; the mask that they give is the same.
        bank = state.bank.store(state.task, self.composed(state, trainable))
        return eqx.tree_at(lambda s: s.bank, state, bank)

    def policy(
        self, state: MaskedState, trainable: MaskedTrainable, task: Int[Array, ""]
    ) -> Network:
        """Return the backbone modulated for any task."""
        current = self.composed(state, trainable)
        scores = self._scores_for(state, current, task)
        # Without a key: random masks are evaluated in their most likely form.
        return cast(Network, modulate(state.backbone, scores, self._rule_of))

    def scores_of(
        self, state: MaskedState, trainable: MaskedTrainable, task: Int[Array, ""]
    ) -> dict[str, Array]:
        """Return the scores of a task's mask, by layer."""
        current = self.composed(state, trainable)
        return named_weights(self._scores_for(state, current, task))

    def _scores_for(
        self, state: MaskedState, current: PyTree[Array], task: Int[Array, ""]
    ) -> PyTree[Array]:
        bank = state.bank
        if bank.capacity == 0:
            return current
        unlearned = self._unlearned_scores(bank, current)
        # Without a slot the index is -1: the result is then not selected below.
        stored = bank.lookup(bank.slot_of_task[task])
        is_current, is_learned = task == state.task, bank.has_learned(task)

        # The current task first: on a second visit its stored scores are out of date.
        def select(current: Array, stored: Array, other: Array) -> Array:
            return jnp.where(is_current, current, jnp.where(is_learned, stored, other))

        return jax.tree.map(select, current, stored, unlearned)

    def _unlearned_scores(
        self, bank: banks.Bank, current: PyTree[Array]
    ) -> PyTree[Array]:
        match self.options.unseen:
            case "latest":
                return current
            case "first":
                # The first of this curriculum; before it the first of the warm start.
                has_first = bank.num_learned > bank.num_inherited
                return bank.lookup(jnp.where(has_first, bank.num_inherited, 0))
            case "average":
                # Never 0 / 0: a bank with slots holds a task whenever an agent acts.
                share = bank.occupied / bank.num_learned
                return jax.tree.map(
                    lambda layer: jnp.tensordot(share, layer, 1), bank.scores
                )

    def fixed(self, state: MaskedState) -> Mapping[str, Array]:
        """Return the backbone's signs and constants."""
        return describe_backbone(state.backbone)

    def export(
        self, state: MaskedState, trainable: MaskedTrainable
    ) -> Mapping[str, Array]:
        """Return the task's consolidated scores, its mask as bits, its coefficients."""
        scores = self.composed(state, trainable)
        masks = generate_masks(scores, self._rule_of)
        arrays = {f"scores/{name}": s for name, s in named_weights(scores).items()}
        # Bits are for acting; scores are saved too, as composing bits fails (App. F).
        for name, mask in named_weights(masks).items():
            if self._rule_name_of(name) in BINARY_RULES:
                arrays[f"bits/{name}"] = pack_bits_in_jax(mask != 0)
        if trainable.logits is not None:
            rows = softmax_coefficients(trainable.logits, state.active)
            arrays |= self._named_coefficients(rows, list(named_weights(scores)))
        return arrays

    def _named_coefficients(
        self, rows: Float[Array, "rows entries"], layers: list[str]
    ) -> dict[str, Array]:
        if not self.options.per_layer:
            return {"coefficients": rows[0]}
        named = zip(layers, rows, strict=True)
        return {f"coefficients/{layer}": row for layer, row in named}
