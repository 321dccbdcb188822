"""CLEAR: training on new experience together with a fair sample of all the old."""

from dataclasses import dataclass

from jaxtyping import Array, Float, PyTree

from personae.errors import require
from personae.methods.contract import ReplaySpec
from personae.methods.finetune import Regulariser
from personae.types import PolicyAndValue, ReplayedSteps


# The store lies on disk, as 5M frames of ProcGen are 65 GB. Cloning has CORA's weights.
@dataclass(frozen=True)
class CLEAROptions:
    """Options of CLEAR: the size of its store, and the strength of cloning."""

    frames: int = 5_000_000
    """Largest number of stored steps, on disk. Published: a thirtieth of all steps."""
    share: float = 1.0
    """Replayed unrolls in an update for each new one."""
    policy_cloning: float = 0.01
    """Weight of the divergence of the policy from the stored one."""
    value_cloning: float = 0.005
    """Weight of the squared difference of the value from the stored one."""

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
    drawn towards the policy and the value that it had at the time.
    """

    options: CLEAROptions = CLEAROptions()

    @property
    def replay(self) -> ReplaySpec:
        """A store of a fair sample of all experience."""
        # With a share of 1 gradients, being sums, are up to twice as large as without,
        # but they are clipped at the same norm, as in the published runs.
        return ReplaySpec(
            self.options.frames,
            retain="any",
            share=self.options.share,
            off_policy=True,
            with_policy=True,
        )

    def replay_loss(
        self, state: PyTree[Array], outputs: PolicyAndValue, steps: ReplayedSteps
    ) -> Float[Array, " steps"]:
        """Return the weighted distances from the stored policies and values."""
        policy, value = outputs
        # `with_policy` asks for it.
        assert steps.policy is not None
        # KL has a direction: from the stored policy to the current one, as published.
        divergence = steps.policy.divergence(policy)
        return (
            self.options.policy_cloning * divergence
            + self.options.value_cloning * (steps.value - value) ** 2
        )
