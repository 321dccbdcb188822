"""The consoles that the commands print to, and the type of their switches."""

from typing import Annotated, TypeAlias

import tyro
from rich.console import Console

OUTPUT = Console()
"""Standard output, for results."""
ERRORS = Console(stderr=True)
"""Standard error, for errors and problems."""

# Settings that are on by default need a flag for each value, as `--no-greedy` alone
# would be explained by the help text of its opposite. Switches are always off at first.
Switch: TypeAlias = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""A flag that takes no value and has no opposite."""


def say(console: Console, text: str) -> None:
    """Print a line without interpreting names in it as markup."""
    # rich would otherwise read brackets in a message as a style and drop them.
    # Wrapped lines would break paths, which are there to be copied.
    console.print(text, highlight=False, soft_wrap=True, markup=False)


def names_in(text: str) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
