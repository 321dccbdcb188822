"""The command line: a file per command, and the program that chooses among them."""

from personae.cli.program import main as main
from personae.cli.program import run as run
