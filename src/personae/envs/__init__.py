"""Environments in pure JAX, and adapters to and from other libraries.

Importing this registers them: `gymnasium.make("personae/CTGraph-v0", depth=3, ...)`.
"""

from personae.envs.contract import Environment as Environment
from personae.envs.registry import FAMILIES as FAMILIES
from personae.envs.registry import find_family as find_family
from personae.envs.registry import register_with_gymnasium

register_with_gymnasium()
