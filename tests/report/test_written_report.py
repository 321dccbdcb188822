"""Tests of the files of a report and of its messages about unusable runs."""

import json
import shutil

import pytest

from personae.errors import UsageError
from personae.report import collect, write_report
from personae.report.render import write


@pytest.fixture
def runs(lives, baselines, tmp_path):
    for method in ("mask-ri", "mask-lc"):
        shutil.copytree(lives[method].directory, tmp_path / method)
    shutil.copytree(baselines["expert"].directory, tmp_path / "expert")
    return tmp_path


def test_figures_and_tables_in_every_form(runs):
    write_report(collect([runs]), runs)
    figures = {path.stem for path in (runs / "figures").iterdir()}
    assert figures == {
        "lifelong",
        "training",
        "evaluation",
        "steps-to-75",
        "forward-transfer",
        "coefficients-mask-lc",
        "similarity-mask-ri",
        "similarity-mask-lc",
        *(f"reuse-{visit}" for visit in range(1, 5)),
    }
    for path in (runs / "figures").iterdir():
        start = b"\x89PNG" if path.suffix == ".png" else b"%PDF"
        assert path.read_bytes().startswith(start)
    total = "total-evaluation-on-test-tiny-v3-ideal-20"
    for suffix, part in (
        ("md", "| mask-lc |"),
        ("tex", r"\toprule"),
        ("csv", "method,"),
    ):
        assert part in (runs / "tables" / f"{total}.{suffix}").read_text()
    assert "### Forward transfer" in (runs / "comparison.md").read_text()


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_reported(
    runs, personae_command
):
    (runs / "mask-lc" / "metrics.jsonl").write_text("")
    (runs / "foreign").mkdir()
    (runs / "foreign" / "run.json").write_text('{"schema": 99}')
    code, output, errors = personae_command("report", runs)
    assert code == 0
    assert "mask-lc is left out" in errors
    assert "has no evaluation yet" in errors
    assert "foreign is left out" in errors
    assert "has schema 99" in errors
    assert "report.html" in output


def test_an_unfinished_run_is_drawn_but_not_in_tables(runs, personae_command):
    run = json.loads((runs / "mask-lc" / "run.json").read_text())
    (runs / "mask-lc" / "run.json").write_text(json.dumps(run | {"status": "running"}))
    code, _, errors = personae_command("report", runs, "--out", runs / "out")
    assert code == 0
    assert "mask-lc is left out of comparisons" in errors
    assert "| mask-lc |" not in (runs / "out" / "comparison.md").read_text()
    assert "mask-lc" in (runs / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("where", "message"),
    [("nowhere", "there is no directory"), ("empty", "there is no run.json in it")],
)
def test_a_directory_without_runs_is_named(tmp_path, personae_command, where, message):
    (tmp_path / "empty").mkdir()
    code, _, errors = personae_command("report", tmp_path / where)
    assert code == 2
    assert message in errors


def test_a_report_without_runs_is_an_error(runs, personae_command):
    for method in ("mask-ri", "mask-lc"):
        (runs / method / "metrics.jsonl").write_text("")
    code, _, errors = personae_command("report", runs / "mask-ri")
    assert code == 1
    assert "there is no method to report on" in errors


def test_runs_of_other_curricula_are_refused(runs):
    run = json.loads((runs / "mask-lc" / "run.json").read_text())
    run["config"]["curriculum"]["ppo"]["epochs"] = 7
    (runs / "mask-lc" / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match=r"ppo\.epochs is"):
        collect([runs])


def test_other_settings_are_compared_with_despite(runs, personae_command):
    run = json.loads((runs / "mask-lc" / "run.json").read_text())
    run["config"]["curriculum"]["ppo"]["epochs"] = 7
    (runs / "mask-lc" / "run.json").write_text(json.dumps(run))
    code, _, errors = personae_command("report", runs)
    assert code != 0
    assert "--despite ppo.epochs" in errors
    code, *_ = personae_command(
        "report", "--despite", "ppo.epochs, l2, ppo.learning-rate", runs
    )
    assert code == 0
    unfinished = json.loads((runs / "mask-ri" / "run.json").read_text())
    unfinished["status"] = "running"
    (runs / "mask-ri" / "run.json").write_text(json.dumps(unfinished))
    code, *_ = personae_command("report", "--despite", "ppo.epochs, l2", runs)
    assert code == 0
    page = (runs / "comparison.md").read_text()
    assert "Settings differ. ppo.epochs: 1 (mask-ri, expert), 7 (mask-lc)." in page


def test_without_plotly_the_error_names_the_extra(runs, monkeypatch, personae_command):
    monkeypatch.setattr(write, "find_spec", lambda name: None)
    code, output, _ = personae_command("report", runs)
    assert code == 0
    assert "personae[report]" in output
    assert (runs / "comparison.md").exists()
    assert not (runs / "report.html").exists()
    with pytest.raises(UsageError, match=r"personae\[report\]"):
        write.make_page([collect([runs])])


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (["config", "curriculum", "evaluation"], {}),
        (["config", "curriculum", "evaluation", "interval"], 0),
        (["config", "curriculum", "ppo"], None),
        (["config", "curriculum", "ppo", "num_envs"], "many"),
        (["config", "curriculum", "cycles"], None),
        (["config", "seeds"], None),
        (["evaluations"], None),
    ],
)
def test_runs_with_bad_settings_are_left_out_and_named(runs, setting, value):
    path = runs / "mask-lc" / "run.json"
    run = json.loads(path.read_text())
    inner = run
    for name in setting[:-1]:
        inner = inner[name]
    inner[setting[-1]] = value
    path.write_text(json.dumps(run))
    collection = collect([runs])
    assert [record.method for record in collection.records] == ["mask-ri"]
    assert "does not hold the data of a run" in " ".join(collection.problems)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", b'{"schema": 1, "config": {}, "status": "running"}', "curriculum"),
        ("run.json", b'{"schema": "[/x]"}', "[/x]"),
        ("metrics.jsonl", b"\xff\xfe\n", "line 1, is damaged"),
        ("metrics.jsonl", b"{}\n", "does not hold the data of a run"),
    ],
)
def test_a_damaged_run_is_left_out_and_named(runs, file, content, message):
    (runs / "mask-lc" / file).write_bytes(content)
    collection = collect([runs])
    assert [record.method for record in collection.records] == ["mask-ri"]
    assert message in " ".join(collection.problems)


def test_a_damaged_mask_costs_its_analyses_only(runs):
    (runs / "mask-lc" / "masks" / "001-d1-1.safetensors").write_bytes(b"cut")
    collection = collect([runs])
    assert set(collection.masks) == {"mask-ri"}
    assert "no masks of mask-lc" in " ".join(collection.problems)
    assert set(collection.comparison.records) == {"mask-ri", "mask-lc"}


def test_problems_are_printed_without_markup(runs, personae_command):
    """Markup in a stranger's file is printed as text."""
    (runs / "mask-lc" / "run.json").write_text('{"schema": "[/x]"}')
    code, _, errors = personae_command("report", runs)
    assert code == 0
    assert "has schema '[/x]'" in errors


def test_a_strangers_method_cannot_choose_where_files_are_written(runs):
    path = runs / "mask-lc" / "run.json"
    run = json.loads(path.read_text())
    run["config"]["method"] = "x/../../../../strangers-folder/$\\q$"
    path.write_text(json.dumps(run))
    write_report(collect([runs]), runs / "deep" / "out")
    folders = {path.parent for path in runs.parent.rglob("*strangers-folder*")}
    assert folders == {runs / "deep" / "out" / "figures"}


def test_a_reference_that_is_not_finished_is_replaced_and_named(runs):
    run = json.loads((runs / "mask-lc" / "run.json").read_text())
    (runs / "mask-lc" / "run.json").write_text(json.dumps(run | {"status": "running"}))
    collection = collect([runs], "mask-lc")
    assert collection.comparison.reference == "mask-ri"
    assert "mask-lc is not among the whole runs" in " ".join(collection.problems)
