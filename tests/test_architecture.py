"""Imports point one way, and reading a run needs no JAX."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "personae"

# Each room may import from the rooms to its left, and from those beside it.
FLOORS = [
    {"errors", "ids", "pace", "plain", "rundir", "types"},
    {"analysis", "backbones", "masks", "envs", "metrics", "policy"},
    {"methods", "learners"},
    {"curricula"},
    {"training", "report"},
    {"cluster"},
    {"api"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("personae."):
                yield name.split(".")[1]


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_point_one_way(path):
    room = path.relative_to(SOURCE).with_suffix("").parts[0]
    if room == "__init__":
        return
    upwards = {other for other in imported_rooms(path) if FLOOR[other] > FLOOR[room]}
    assert not upwards


@pytest.mark.parametrize(
    "module",
    ["personae", "personae.report", "personae.metrics", "personae.policy"],
)
def test_reading_a_run_does_not_import_jax(module):
    program = f"import sys, {module}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_public_names_are_all_there():
    import personae

    for name in dir(personae):
        assert getattr(personae, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = personae.lern
