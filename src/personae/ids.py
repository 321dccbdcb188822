"""Versioned ids of the form namespace/Name-vN."""

import re

from personae.errors import require


def short_name(identifier: str) -> str:
    """Return an id without namespace and version, in lower case."""
    return re.sub(r"-v\d+$", "", identifier.rsplit("/", 1)[-1]).lower()


def check_file_name(kind: str, name: str) -> None:
    """Raise a usage error unless a name can also be the name of a file."""
    require(
        re.fullmatch(r"[A-Za-z0-9._+-]+", name) is not None,
        f"the {kind} {name!r} is also a file name: use letters, digits and . _ + - "
        "only",
    )


def version(identifier: str) -> int:
    """Return the version number at the end of an id, or 0 if it has none."""
    match = re.search(r"-v(\d+)$", identifier)
    # A number, since as text v10 would come before v9.
    return int(match.group(1)) if match else 0
