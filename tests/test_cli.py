import subprocess
import sys
from pathlib import Path

import pytest

from personae.cli.preset import with_preset
from personae.cli.program import parse_command
from personae.curricula import registered


@pytest.mark.slow
def test_learning_from_a_file(personae_command, tiny_file, tmp_path):
    out = tmp_path / "run"
    code, output, errors = personae_command(
        "learn", tiny_file, "--method", "mask-blc", "--seeds", 2, "--out", out
    )
    assert code == 0
    for task in ("d1-0", "d1-1", "d2-00", "d2-11"):
        assert task in output
    assert "of 20" in output
    assert str(out / "lifelong.png") in output
    assert (out / "lifelong.png").exists()
    lines = errors.strip().splitlines()
    assert len(lines) == 8
    for part in (
        "task 4/4 d2-11",
        "1,024/1,024 steps",
        "return",
        "steps/s",
        "ETA 0:00",
    ):
        assert part in lines[-1]

    code, _, errors = personae_command("learn", tiny_file, "--seeds", 2, "--out", out)
    assert code == 2
    assert "--resume" in errors
    code, output, errors = personae_command(
        "learn", tiny_file, "--seeds", 2, "--out", out, "--resume", "--quiet"
    )
    assert (code, errors) == (0, "")
    assert "d1-0" not in output


@pytest.mark.parametrize("name", ["learn", "compare"])
def test_tasks_come_round_as_often_as_told(name):
    command = parse_command([name, "procgen", "--cycles", "2"])
    chosen = with_preset(command.curriculum, command, ["impala"], command.cycles)
    assert len(chosen.visits) == 12
    assert chosen.steps_per_task == 5_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn", "ct9"], "unknown curriculum 'ct9'. Did you mean 'ct8'?"),
        (["learn", "ct8", "--method", "mask-bcl"], "Did you mean 'mask-blc'?"),
        (["learn", "ct8", "--seeds", "0"], "seeds must be one or more"),
        (["learn", "ct8", "--steps-per-task", "0"], "must be positive, not 0"),
        (["learn", "ct8", "--cycles", "0"], "cycles must be at least 1, not 0"),
        (["learn", "ct8", "--ppo.epoch", "3"], "--ppo.epochs"),
        (["learn", "ct8", "--ppo.num-minibatches", "7"], "cannot be cut into 7"),
        (["learn", "missing.toml"], "cannot read the curriculum missing.toml"),
        (["learn", "ct8", "--first-seed", "-1"], "must lie in 0..2**32-1, not [-1]"),
        (["learn", "ct8", "--resume", "--overwrite"], "choose one of"),
        (["learn", "ct8", "--masks.density", "0"], "(0, 1], not 0.0"),
        (["learn", "ct8", "--method", "lc"], "Did you mean 'mask-lc'?"),
        (["learn", "ct8", "--masks.rule", "treshold"], "Did you mean 'threshold'?"),
        (["learn", "ct8", "--ppo.optimiser=sgd"], "Allowed: adam, rmsprop"),
        (["learn", "ct8", "--seeds", "five"], "--seeds"),
        (["learn", "ct8", "--sedes", "5"], "--seeds"),
        (
            ["learn", "ct8", "--impala.learning-rate", "0.1"],
            "--impala.learning-rate is read by --learner impala only",
        ),
        (
            ["learn", "ct8", "--learner", "impala", "--ppo.epochs", "2"],
            "--ppo.epochs is read by --learner ppo only",
        ),
        (
            ["learn", "ct8", "--method", "ppo", "--online-ewc.batches", "3"],
            "--online-ewc.batches is not read by ppo, but by online-ewc",
        ),
        (
            ["compare", "ct8", "--methods", "ppo,packnet", "--ewc.strength", "3"],
            "--ewc.strength is not read by ppo, packnet, but by ewc-sh, ewc-mh",
        ),
        (
            ["learn", "ct8", "--method", "packnet", "--steps-per-task", "512"],
            "more than 5,120 steps (--steps-per-task)",
        ),
        (["lern", "ct8"], "unknown command 'lern'. Did you mean 'learn'?"),
        (["curricula", "ct13"], "Did you mean 'ct12'?"),
        ([], "learn"),
    ],
)
def test_a_bad_value_is_named_and_nothing_is_written(
    personae_command, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    code, output, errors = personae_command(*arguments)
    assert code == 2
    assert message in errors + output
    assert list(tmp_path.iterdir()) == []


def test_a_layer_that_does_not_exist_is_named(personae_command, tiny_file, tmp_path):
    out, rules = tmp_path / "run", ["--masks.layer-rules", "actr", "continuous"]
    code, _, errors = personae_command("learn", tiny_file, "--out", out, *rules)
    assert code == 2
    assert "unknown layer in layer_rules 'actr'" in errors
    assert not (out / "run.json").exists()


def test_an_output_that_is_a_file_is_named(personae_command, tiny_file):
    code, _, errors = personae_command("learn", tiny_file, "--out", tiny_file)
    assert code == 1
    assert "File exists" in errors or "Not a directory" in errors


def test_the_preset_counts_wherever_the_curriculum_stands(tiny_file, tiny):
    words = ["learn", "--quiet", str(tiny_file), "--masks.epsilon", "0.5"]
    command = parse_command(words)
    assert command.quiet
    assert command.ppo == tiny.ppo
    assert command.evaluation == tiny.evaluation
    assert command.masks.epsilon == 0.5


def test_help_shows_the_preset_of_the_curriculum(personae_command, tiny_file):
    code, output, _ = personae_command("learn", tiny_file, "--help")
    assert code == 0
    assert "0.01" in output
    code, output, _ = personae_command("learn", "ct8", "--help")
    assert "0.00015" in output


def test_listing_and_showing_curricula(personae_command):
    code, output, _ = personae_command("curricula")
    assert code == 0
    assert "ct8-md" in output
    code, output, _ = personae_command("curricula", "ct12")
    assert "personae/CT12-v0" in output
    assert output.index("d2-00") < output.index("d3-000") < output.index("d2-01")


def test_a_printed_curriculum_is_a_curriculum_file(personae_command, tmp_path):
    _, output, _ = personae_command("curricula", "ct8", "--toml")
    path = tmp_path / "mine.toml"
    path.write_text(output)
    code, output, _ = personae_command("curricula", path)
    assert code == 0
    assert "d3-111" in output


@pytest.mark.slow
def test_the_installed_command_runs():
    done = subprocess.run(
        [Path(sys.executable).parent / "personae", "curricula"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "ct8-md" in done.stdout


@pytest.mark.slow
def test_comparing_runs_what_is_missing_and_nothing_twice(
    personae_command, tiny_file, tmp_path
):
    out = tmp_path / "compared"
    words = ["compare", tiny_file, "--methods", "ppo,l2", "--seeds", 2, "--out", out]
    words += ["--jobs", 1]
    code, output, errors = personae_command(*words)
    assert code == 0
    for part in ("Total evaluation", "Forward transfer", "P(better)", "report.html"):
        assert part in output
    assert errors.count("task 4/4") == 3 * 2
    runs = sorted(path.parent.name for path in out.glob("*/run.json"))
    assert runs == ["expert", "l2", "ppo"]
    assert "| l2 |" in (out / "comparison.md").read_text()
    code, again, errors = personae_command(*words)
    assert code == 0
    assert "steps/s" not in errors
    assert again == output


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--methods", "ppo,ewc"], "unknown method 'ewc'"),
        (["--methods", "ppo", "--reference", "pop"], "Did you mean 'ppo'?"),
        (["--methods", "expert,ppo", "--reference", "expert"], "reference 'expert'"),
        (["--methods", "expert"], "there is no method to compare"),
        (["--methods", "packnet", "--evaluation.interval", "9"], "of 2 phases"),
        (["--ewc.fisher", "mena"], "Did you mean 'mean'?"),
        (["--ewc.strength", "-1"], "strength cannot be negative"),
        (["--packnet.retrain", "2"], "retrain must lie in (0, 1)"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_before_anything_is_written(
    personae_command, tiny_file, tmp_path, flags, message
):
    out = tmp_path / "compared"
    code, _, errors = personae_command("compare", tiny_file, "--out", out, *flags)
    assert code == 2
    assert message in errors
    assert not out.exists()


def test_settings_that_one_of_the_methods_reads_are_taken():
    command = parse_command(["compare", "ct8", "--ewc.strength", "3"])
    methods = [name.strip() for name in command.methods.split(",")]
    assert with_preset("ct8", command, methods).ewc.strength == 3


@pytest.mark.slow
def test_who_has_read_enough_hears_no_more():
    """As `personae learn --help | head -1` in a shell."""
    program = [sys.executable, "-m", "personae.cli", "learn", "--help"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


def test_names_to_be_typed_are_shown_whole(personae_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, output, _ = personae_command("curricula")
    assert code == 0
    for curriculum in registered().values():
        assert f" {curriculum.short_name} " in output


def test_what_is_no_run_is_said_to_be_what_it_is(personae_command, tmp_path):
    def said(path):
        code, _, errors = personae_command("evaluate", path)
        assert code == 1
        return " ".join(errors.split())

    (tmp_path / "all" / "ppo").mkdir(parents=True)
    (tmp_path / "all" / "ppo" / "run.json").write_text("{}")
    (tmp_path / "agent").write_text("")
    assert "its directories do (ppo)" in said(tmp_path / "all")
    assert "it is a file" in said(tmp_path / "agent")
    assert "there is no such directory" in said(tmp_path / "nowhere")
    assert "there is no run.json in it" in said(tmp_path)
    code, _, errors = personae_command("policy", "show", tmp_path / "all" / "ppo")
    assert code == 1
    assert "from which `personae policy export` makes one" in " ".join(errors.split())
