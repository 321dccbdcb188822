"""Environments in pure JAX, and their Gymnasium faces."""

from personae.envs.base import Environment as Environment
from personae.envs.registry import FAMILIES as FAMILIES
from personae.envs.registry import find_family as find_family
