"""The rules of the source: imports, sizes, names and docstrings.

docs/design.md says why. Each test lists all places that break its rule.
"""

import ast
import graphlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "personae"

# From the lowest floor to the highest. A module may import from lower floors and from
# its own folder, but not from other folders of its floor; root modules share a floor.
ROOT_MODULES = {
    *("backend", "bits", "chunks", "encoding", "errors", "files", "ids"),
    *("keys", "migration", "serialise", "types"),
}
FLOORS = [
    ROOT_MODULES,
    {"analysis", "backbones", "envs", "metrics"},
    {"masks"},
    {"learners", "methods"},
    {"policy"},
    {"curricula"},
    {"runs"},
    {"rollouts"},
    {"training"},
    {"report"},
    {"launch"},
    {"api"},
    {"cli"},
    {"personae"},  # the package itself, which offers names of all others
]
FLOOR_OF = {folder: floor for floor, names in enumerate(FLOORS) for folder in names}

READABLE_WITHOUT_JAX = [
    "personae",
    "personae.runs.directory",
    "personae.metrics",
    "personae.report",
    "personae.policy",
]

# Names of earlier versions and their plain successors: docs/design.md, "Names".
OLD_NAMES = """
    recall Recall Recalled recalled stage Stage players Players seat Seat crew Crew
    exam Exam Exams judge Judge judges judged kept Kept keep_ seen told theirs found
    earlier going_on continued placed Placed Live Resting Setting Moment Now lanes Lanes
    fleet Fleet board shipping revival tally Tally pace plain legible foreign tenants
    relearned relearns rehearse rehearsing Rehearsal reviewed reviews
"""
HEADLESS = re.compile(
    r"(what|who|whom|whose|which|where|how|when|\w+ (what|who|whom|where))\b", re.I
)

MAX_TRAINING_FILES = 14
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_CLASS_METHODS = 25

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module(NamedTuple):
    """A module of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The folder, or the root module, that has a floor."""
        return folder_of(self.name)

    def at(self, line: int) -> str:
        """Return a place in the file as editors understand it."""
        return f"{self.path.relative_to(SOURCE.parents[1])}:{line}"


def folder_of(name: str) -> str:
    return name.removeprefix("personae.").split(".")[0]


def read_module(path: Path) -> Module:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    text = path.read_text()
    name = ".".join(parts).removesuffix(".__init__")
    return Module(name, path, text, ast.parse(text))


MODULES = {
    module.name: module for module in map(read_module, sorted(SOURCE.rglob("*.py")))
}


def imports(module: Module):
    """Yield the line and the module of each import from the package.

    Imports inside functions and for type checkers count. Relative ones are refused by
    ruff (TID252).
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        ours = [name for name in names if name.split(".")[0] == "personae"]
        # The last part may be a name that the module before it defines.
        targets = {n if n in MODULES else n.rpartition(".")[0] for n in ours}
        yield from ((node.lineno, target) for target in sorted(targets))


def assert_none(problems):
    assert not problems, "\n".join([f"{len(problems)} problems:", *problems])


def test_every_module_has_a_floor():
    assert {module.folder for module in MODULES.values()} <= FLOOR_OF.keys()


def test_imports_point_one_way():
    problems = []
    for module in MODULES.values():
        for line, target in imports(module):
            own, other = module.folder, folder_of(target)
            both_root = {own, other} <= ROOT_MODULES
            if own == other or both_root or FLOOR_OF[other] < FLOOR_OF[own]:
                continue
            problems.append(f"{module.at(line)}: {own} imports {target}")
    assert_none(problems)


def test_modules_import_each_other_without_cycles():
    graph = {
        module.name: {target for _, target in imports(module)} - {module.name}
        for module in MODULES.values()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@pytest.mark.slow
def test_reading_a_run_does_not_import_jax():
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'jax' in sys.modules:\n"
        "        sys.exit(f'{name} imports jax')"
    )
    subprocess.run([sys.executable, "-c", program, *READABLE_WITHOUT_JAX], check=True)


def test_no_identifier_is_an_old_name():
    problems = []
    for module in MODULES.values():
        old = set(OLD_NAMES.split())
        if "from rich.live import Live" in module.text:
            old.remove("Live")
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type == tokenize.NAME and token.string in old:
                problems.append(f"{module.at(token.start[0])}: {token.string}")
    assert_none(problems)


def docstrings(tree: ast.Module):
    """Yield the docstrings of the module, its classes, functions and attributes."""
    documented = (ast.Module, ast.ClassDef, *FUNCTIONS)
    for node in ast.walk(tree):
        if not isinstance(node, documented):
            continue
        previous = None
        for index, statement in enumerate(node.body):
            after_attribute = isinstance(previous, (ast.Assign, ast.AnnAssign))
            if index == 0 or after_attribute:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str() as text)):
                        yield statement.lineno, text.strip()
            previous = statement


def test_no_docstring_is_headless():
    problems = [
        f"{module.at(line)}: {text.splitlines()[0]}"
        for module in MODULES.values()
        for line, text in docstrings(module.tree)
        if HEADLESS.match(text)
    ]
    assert_none(problems)


def excess(node):
    """Return why a function or a class is too large, or None."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                return f"{node.name} has {lines} lines"
        case ast.ClassDef():
            methods = sum(isinstance(part, FUNCTIONS) for part in node.body)
            if methods > MAX_CLASS_METHODS:
                return f"{node.name} has {methods} methods"
    return None


def test_files_functions_and_classes_are_small():
    problems = []
    for module in MODULES.values():
        lines = module.text.count("\n")
        if lines > MAX_FILE_LINES:
            problems.append(f"{module.at(lines)}: the file has {lines} lines")
        for node in ast.walk(module.tree):
            if (problem := excess(node)) is not None:
                problems.append(f"{module.at(node.lineno)}: {problem}")
    assert_none(problems)


def test_training_is_a_few_files():
    names = [name for name in MODULES if folder_of(name) == "training"]
    assert len(names) <= MAX_TRAINING_FILES, names


def test_the_public_names_are_all_there():
    import personae

    for name in dir(personae):
        assert getattr(personae, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = personae.lern
