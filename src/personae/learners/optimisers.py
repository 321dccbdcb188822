"""Optimisers with torch's conventions, and the schedules of their step size."""

from typing import Literal

import optax

from personae.types import Scalar

OptimiserName = Literal["rmsprop", "adam"]


def linear_decay(learning_rate: float, progress: Scalar | float) -> Scalar | float:
    """Return the step size at a point of a visit, which falls linearly to 0.

    Args:
        learning_rate: The step size at the start of the visit.
        progress: The share of the visit that is over.
    """
    return learning_rate * (1 - progress)


def make_optimiser(
    name: OptimiserName,
    learning_rate: Scalar | float,
    eps: float,
    max_gradient_norm: float,
) -> optax.GradientTransformation:
    """Build gradient clipping followed by RMSprop or Adam with torch's conventions.

    Torch's RMSprop has decay 0.99 and adds `eps` outside the root; optax's defaults are
    0.9 and inside.

    Args:
        name: rmsprop or adam.
        learning_rate: The step size; a traced one does not change the state's form.
        eps: The term in the denominator.
        max_gradient_norm: The global norm to which gradients are clipped.

    Note: torch's clipping divides by `norm + 1e-6`, optax's by `norm`.
    """
    if name == "rmsprop":
        step = optax.rmsprop(learning_rate, decay=0.99, eps=eps, eps_in_sqrt=False)
    else:
        # Optax's defaults are torch's here: the betas, and `eps` outside the root.
        step = optax.adam(learning_rate, eps=eps)
    # Clipping comes first: RMSprop's steps hardly depend on the gradient's norm.
    return optax.chain(optax.clip_by_global_norm(max_gradient_norm), step)
