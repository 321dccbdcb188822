"""Gymnasium finds this by its entry point, so that `gymnasium.make` knows our ids.

Imported whenever Gymnasium is, hence without JAX.
"""

import gymnasium as gym

IDS = ("personae/CTGraph-v0",)


def register_envs() -> None:
    """Register every environment family with Gymnasium."""
    for env_id in IDS:
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="personae.envs.gymnasium:make_adapter",
                kwargs={"family": env_id},
            )
