"""Versioned ids: namespace/Name-vN."""

import re


def short_name(identifier: str) -> str:
    """Return an id without namespace and version, in lower case."""
    return re.sub(r"-v\d+$", "", identifier.rsplit("/", 1)[-1]).lower()


def version(identifier: str) -> int:
    """Return the number after the last -v, or 0 without one."""
    match = re.search(r"-v(\d+)$", identifier)
    return int(match.group(1)) if match else 0
