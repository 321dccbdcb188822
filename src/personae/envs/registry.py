"""Families of environments on the device, by versioned id.

All other ids are Gymnasium's or EnvPool's: `envs/adapters/` makes those.
"""

import gymnasium as gym

from personae.envs.contract import Family
from personae.envs.crossing import env as crossing
from personae.envs.ct_graph import env as ct_graph
from personae.errors import nearest_match_error

FAMILIES: dict[str, Family] = {
    "personae/CTGraph-v0": ct_graph.build,
    "personae/Crossing-v0": crossing.build,
    "personae/RandomCrossing-v0": crossing.build_random,
}
"""The JAX environments that a curriculum can name."""


def find_family(env_id: str) -> Family:
    """Return the family with this id; the error names the nearest id."""
    if env_id not in FAMILIES:
        raise nearest_match_error("environment", env_id, FAMILIES)
    return FAMILIES[env_id]


def register_with_gymnasium() -> None:
    """Register every environment with `gymnasium.make`; options are keywords."""
    # Entry points are text: nothing is imported before an environment is made, and
    # Meta-World may not be installed at all.
    gym.register("personae/MetaWorld-v0", "personae.envs.meta_world.env:make")
    for env_id in FAMILIES:
        gym.register(
            env_id,
            entry_point="personae.envs.adapters.to_gymnasium:make_adapter",
            kwargs={"family": env_id},
        )
