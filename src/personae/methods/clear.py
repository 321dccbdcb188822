"""CLEAR: new experience beside a fair sample of the old, and its old policies."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Float

from personae.errors import require
from personae.methods.contract import ReplaySpec
from personae.methods.finetune import Regulariser
from personae.types import PolicyAndValue, ReplayedSteps


@dataclass(frozen=True)
class CLEAROptions:
    """How much is remembered, and how strongly old policies hold on."""

    frames: int = 5_000_000
    """Steps that are remembered at most, on disk. Published: a thirtieth of a life."""
    share: float = 1.0
    """Remembered unrolls in an update for each new one."""
    policy_cloning: float = 0.01
    """Weight of the divergence of the policy from the one that is remembered."""
    value_cloning: float = 0.005
    """Weight of the squared difference of the value from the one that is remembered."""

    def __post_init__(self) -> None:
        require(self.frames >= 1, f"frames must be at least 1, not {self.frames}")
        require(self.share > 0, f"share must be positive, not {self.share}")
        for name in ("policy_cloning", "value_cloning"):
            value = getattr(self, name)
            require(value >= 0, f"{name} cannot be negative: {value}")


@dataclass(frozen=True)
class CLEAR(Regulariser):
    """Continual learning with experience and replay (Rolnick et al., 2019).

    All unrolls, new and old, go through the learner's own loss, which therefore must
    be one that corrects for old policies (V-trace). On old ones the network is also
    held to what its policy and its value were.
    """

    options: CLEAROptions = CLEAROptions()

    @property
    def replay(self) -> ReplaySpec:
        """A fair sample of the whole life."""
        return ReplaySpec(
            self.options.frames,
            retain="any",
            share=self.options.share,
            off_policy=True,
            with_policy=True,
        )

    def replay_loss(
        self, state: Any, now: PolicyAndValue, steps: ReplayedSteps
    ) -> Float[Array, " steps"]:
        """Return the price of thinking otherwise now than then."""
        policy, value = now
        assert steps.policy is not None
        apart = steps.policy.divergence(policy)
        return (
            self.options.policy_cloning * apart
            + self.options.value_cloning * (steps.value - value) ** 2
        )
