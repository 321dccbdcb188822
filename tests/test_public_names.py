"""Tests of the names that `import personae` offers."""

import ast
from pathlib import Path

import personae


def imports_for_type_checkers():
    """Return the names that type checkers see, each with its module."""
    tree = ast.parse(Path(personae.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.asname: statement.module
        for block in blocks
        for statement in block.body
        for alias in statement.names
    }


def test_type_checkers_and_the_interpreter_find_the_same_names():
    assert imports_for_type_checkers() == personae._MODULES
    assert dir(personae) == sorted(personae._MODULES)
