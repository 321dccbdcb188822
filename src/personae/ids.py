"""Versioned ids: namespace/Name-vN."""

import re

from personae.errors import require


def short_name(identifier: str) -> str:
    """Return an id without namespace and version, in lower case."""
    return re.sub(r"-v\d+$", "", identifier.rsplit("/", 1)[-1]).lower()


def check_file_name(what: str, name: str) -> None:
    """Refuse a name that cannot be a file's as well."""
    require(
        re.fullmatch(r"[A-Za-z0-9._+-]+", name) is not None,
        f"the {what} {name!r} is also a file name: use letters, digits and . _ + - "
        "only",
    )


def version(identifier: str) -> int:
    """Return the number after the last -v, or 0 without one."""
    match = re.search(r"-v(\d+)$", identifier)
    return int(match.group(1)) if match else 0
