"""`python -m personae.cli` is `personae`."""

from personae.cli.program import run

run()
