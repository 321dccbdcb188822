"""How much faster a task is learned by one who has learned others before."""

import numpy as np
from jaxtyping import Float


def area(
    returns: Float[np.ndarray, "*agents iterations"],
) -> Float[np.ndarray, "*agents"]:
    """Return the area under a training curve, as the mean return of its iterations."""
    return np.asarray(np.mean(returns, axis=-1))


def forward_transfer(
    areas: Float[np.ndarray, "agents tasks"],
    expert_areas: Float[np.ndarray, "experts tasks"],
    best: Float[np.ndarray, " tasks"] | float = 1.0,
) -> Float[np.ndarray, "agents tasks"]:
    """Return (A - B) / (best - B) of each agent and task (Wolczyk et al., 2021).

    A is the area under the agent's training curve and B that of agents that learn the
    task alone, averaged over them. One is learning at once, zero is no transfer;
    there is no lower bound. Where the experts have the best area already, nothing can
    be gained, and the result is not a number.
    """
    alone = expert_areas.mean(0)
    room = np.broadcast_to(best - alone, alone.shape)
    return (areas - alone) / np.where(room > 0, room, np.nan)
