"""Forward transfer: the gain in learning speed from tasks learned before."""

import numpy as np
from jaxtyping import Float


def area(
    returns: Float[np.ndarray, "*agents iterations"],
) -> Float[np.ndarray, "*agents"]:
    """Return the area under each training curve: the mean return of its iterations."""
    return np.asarray(np.mean(returns, axis=-1))


def forward_transfer(
    areas: Float[np.ndarray, "agents tasks"],
    expert_areas: Float[np.ndarray, "experts tasks"],
    best: Float[np.ndarray, " tasks"] | float = 1.0,
) -> Float[np.ndarray, "agents tasks"]:
    """Return each agent's forward transfer on each task, (A - B) / (best - B).

    A is the area under the agent's training curve, and B the mean area of the experts,
    which learn the task alone (Wolczyk et al., 2021). It is 1 for learning at once, 0
    for no transfer, and has no lower bound. Where the experts reach the best area, an
    agent cannot gain anything, and the result is not a number.

    Args:
        areas: Areas of the agents, `[agent, task]`.
        expert_areas: Areas of the experts, `[expert, task]`.
        best: The largest possible area, of each task or of all.
    """
    # Agents and experts are not paired, so the experts are averaged first.
    expert_means = expert_areas.mean(0)
    possible_gain = np.broadcast_to(best - expert_means, expert_means.shape)
    return (areas - expert_means) / np.where(possible_gain > 0, possible_gain, np.nan)
