"""Where the commands print."""

from rich.console import Console

OUTPUT = Console()
ERRORS = Console(stderr=True)


def say(console: Console, text: str) -> None:
    """Print a line as it is: names in it are no markup."""
    console.print(text, highlight=False, soft_wrap=True, markup=False)
