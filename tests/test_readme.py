"""The README's examples run, and links between pages lead to files."""

import re
import shlex
from pathlib import Path

import pytest

from personae.cli import main
from personae.methods import METHODS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/*/*.md")]
PAGES += [ROOT / "results" / "README.md"]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (toml,) = blocks("toml")
    (tmp_path / "mine.toml").write_text(toml)
    return tmp_path


@pytest.mark.slow
def test_the_python_examples_run(workplace, capsys):
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), {})
    assert "of 36" in capsys.readouterr().out
    assert (workplace / "runs" / "quick" / "curve.png").exists()


@pytest.mark.slow
def test_the_commands_run(workplace):
    make, commands = blocks("console")
    assert [line.split()[:2] for line in make.splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "personae"
        if arguments[0] in ("learn", "compare"):  # shorter, to save time
            arguments += ["--steps-per-task", "512", "--ppo.num-minibatches", "2"]
        if arguments[0] == "learn":  # eight tasks would compile five more programs
            arguments[1] = "mine.toml"
        if arguments[0] == "compare":
            assert set(arguments[3].split(",")) < set(METHODS)
            arguments[1:4] = ["mine.toml", "--methods", "ppo"]
        assert main(arguments) == 0
    assert (workplace / "runs" / "ct8-blc" / "lifelong.png").exists()
    assert (workplace / "runs" / "mine-mask-lc" / "lifelong.png").exists()
    assert (workplace / "runs" / "ct8" / "report.html").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_files(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
