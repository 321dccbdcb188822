"""The entry point of `python -m personae.cli`, which is the same as `personae`."""

from personae.cli.program import run

run()
