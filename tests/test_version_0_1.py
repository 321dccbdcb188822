"""Runs of version 0.1 can be reported, evaluated, exported and acted with."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from personae.curricula import Curriculum, load_curriculum
from personae.errors import UsageError
from personae.files import read_tensors
from personae.migration import (
    migrate_checkpoint,
    migrate_config,
    migrate_record,
    migrate_run,
)
from personae.policy import load
from personae.policy.play import play
from personae.report import read_record
from personae.runs.checkpoints import Checkpoints
from personae.runs.directory import RunDirectory
from personae.runs.learned_masks import read_learned_masks
from personae.runs.progress import make_reporter
from personae.training import RestoredRun, export_agent
from personae.training.loop import start

GOLDEN = Path(__file__).parent / "golden-0.1"
RUNS = ("mask-lc", "packnet", "carts", "warm-start")
MASKED = ("mask-lc", "carts", "warm-start")


@pytest.fixture(params=RUNS)
def run(request, tmp_path):
    return copy_of(request.param, tmp_path)


def copy_of(name, folder):
    return Path(shutil.copytree(GOLDEN / name, folder / name))


def test_a_run_is_evaluated_as_it_was(run):
    greedy = RestoredRun(run).evaluate().measured
    np.testing.assert_array_equal(greedy, np.load(run / "greedy.npy"))
    restored = RestoredRun(run)
    protocol = restored.config.curriculum.evaluation
    sampled = restored.evaluate(replace(protocol, greedy=False, episodes=20))
    np.testing.assert_array_equal(sampled.measured, np.load(run / "sampled.npy"))


def test_a_run_is_reported(run, personae_command):
    code, _, errors = personae_command("report", run)
    assert code == 0, errors
    assert (run / "report.html").exists()
    record = read_record(run)
    assert record.finished
    evaluations = np.load(run / "greedy.npy").shape[1]
    assert record.evaluations.shape[-1] == evaluations == len(record.tasks)


def test_a_run_is_exported_and_acts(run):
    file = export_agent(run, run / "agent.persona", seed=read_record(run).seeds[1])
    agent = load(file)
    for task in read_record(run).tasks:
        assert play(agent, task, trust=True).steps > 0


@pytest.mark.parametrize(("name", "seed"), [("mask-lc", 5), ("packnet", 0)])
def test_an_exported_agent_collects_as_much_as_it_did(name, seed, tmp_path):
    run = copy_of(name, tmp_path)
    agent = load(export_agent(run, run / "agent.persona", seed=seed))
    record = read_record(run)
    expected = np.load(run / "greedy.npy")[record.seeds.index(seed)].mean(-1)
    # Greedy agents collect the same in all episodes of a CT-graph.
    returns = [play(agent, task).total for task in record.tasks]
    np.testing.assert_array_equal(returns, expected)


@pytest.mark.parametrize("name", MASKED)
def test_masks_are_read(name, tmp_path):
    run = copy_of(name, tmp_path)
    learned = read_learned_masks(run)
    assert learned.tasks == read_record(run).tasks
    # The first task of a run is composed of other masks only after a warm start.
    if name == "warm-start":
        assert all(np.isfinite(c).all() for c in learned.coefficients.values())
        for path in (run / "masks").iterdir():
            slots = read_tensors(path)[0]["coefficients/critic"]
            last = learned.coefficients["critic"][:, 0, 0]
            np.testing.assert_array_equal(last, slots[:, -1])


def test_a_finished_run_is_left_alone(tmp_path):
    directory = RunDirectory(copy_of("mask-lc", tmp_path))
    before = directory.run_file.read_bytes()
    config = RestoredRun(directory.root).config
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert directory.run_file.read_bytes() == before


def test_an_unfinished_run_is_not_resumed(tmp_path):
    directory = RunDirectory(copy_of("mask-lc", tmp_path))
    run = json.loads(directory.run_file.read_text())
    directory.run_file.write_text(json.dumps(run | {"status": "running"}))
    config = RestoredRun(directory.root).config
    with pytest.raises(UsageError, match=r"an earlier version .*but not resumed"):
        start(config, directory, make_reporter(quiet=True), resume=True)


def test_a_run_that_started_from_an_agent_is_cleared_whole(tmp_path):
    directory = RunDirectory(copy_of("warm-start", tmp_path))
    assert directory.warm_start_file.name == "earlier.persona"
    directory.clear()
    assert directory.warm_start_file.name == "warm-start.persona"
    remaining = {path.name for path in directory.root.iterdir()}
    assert remaining == {"greedy.npy", "sampled.npy"}


def test_configurations_have_the_names_of_this_version():
    run = RunDirectory(GOLDEN / "carts").read_run()
    curriculum = Curriculum.from_plain(run["config"]["curriculum"], "run.json")
    assert curriculum.inputs.previous_step
    assert curriculum.hosting.evaluators == 2
    assert run["schema"] == 2
    assert migrate_run(run) == run
    assert migrate_config(run["config"]) == run["config"]
    warm_start = RunDirectory(GOLDEN / "warm-start").read_run()["config"]["warm_start"]
    assert len(warm_start) == 64


def test_records_have_the_names_of_this_version():
    record = {"kind": "train", "rehearsal_loss": [0.5], "return": [1.0]}
    assert list(migrate_record(record)) == ["kind", "replay_loss", "return"]


def test_arrays_have_the_names_of_this_version():
    arrays = {
        ".learner[1][0].nu.scores.critic.weight": 1,
        ".worlds.returns": 2,
        ".place_of_task": 3,
        "['last_action']": 4,
        ".learner_state[0]": 5,
        ".regulariser.number": 6,
        ".statistics.observations.number": 7,
    }
    renamed, metadata = migrate_checkpoint(arrays, {"config": {"earlier": "x"}})
    assert renamed == {
        ".learner_state[1][0].nu.scores.critic.weight": 1,
        ".envs.returns": 2,
        ".order_of_task": 3,
        "['last_action']": 4,
        ".learner_state[0]": 5,
        ".regulariser.batches": 6,
        ".statistics.observations.number": 7,
    }
    assert metadata == {"config": {"warm_start": "x"}}
    assert migrate_checkpoint(arrays, {"schema": 2})[0] == arrays


def test_checkpoints_are_found_under_their_older_names(tmp_path):
    run = copy_of("carts", tmp_path)
    config = RunDirectory(run).read_run()["config"]
    checkpoints = Checkpoints(run / "checkpoints", config)
    position = checkpoints.latest()
    assert position.total_chunks == 4
    envs = checkpoints.load_envs(4)
    assert {"actions", "episodes"} <= envs.keys()


def test_a_curriculum_file_of_version_0_1_is_named_wrong():
    with pytest.raises(UsageError, match="recall"):
        load_curriculum(GOLDEN / "curricula" / "carts.toml")
