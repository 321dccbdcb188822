"""The command line: one module per command, and the program that runs them."""

from personae.cli.program import main as main
from personae.cli.program import run as run
