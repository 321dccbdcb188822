"""Tests of curricula, their files and their registry."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personae.curricula import (
    LEARNERS,
    Curriculum,
    Task,
    find_curriculum,
    load_curriculum,
    registered,
)
from personae.curricula.registry import GROUP
from personae.errors import UsageError
from personae.learners import IMPALA, PPO
from personae.methods import MaskOptions

PAPER = ("ct8", "ct12", "ct8-md")


@pytest.mark.parametrize("name", PAPER)
def test_round_trip_through_json_and_toml(name):
    curriculum = find_curriculum(name)
    through_json = json.loads(json.dumps(curriculum.to_plain()))
    through_toml = tomllib.loads(curriculum.to_toml())
    assert Curriculum.from_plain(through_json, "json") == curriculum
    assert Curriculum.from_plain(through_toml, "toml") == curriculum


@given(
    st.text(min_size=1),
    st.lists(st.integers(-5, 5), max_size=3),
    st.floats(1e-9, 1.0),
    st.sampled_from(["threshold", "continuous"]),
)
def test_any_text_and_number_survives_toml(name, numbers, learning_rate, rule):
    curriculum = Curriculum(
        id="test/Any-v1",
        description=name,
        tasks=(Task("a", "personae/CTGraph-v0", {name: numbers}),),
        ppo=PPO(learning_rate=learning_rate),
        masks=MaskOptions(layer_rules=(("actor", rule),)),
    )
    assert Curriculum.from_plain(tomllib.loads(curriculum.to_toml()), "") == curriculum


def test_the_papers_curricula_have_the_published_order_and_labels():
    ct8, ct12, ct8_md = map(find_curriculum, PAPER)
    assert [t.name for t in ct8.tasks] == [f"d3-{i:03b}" for i in range(8)]
    assert [t.name[:2] for t in ct12.tasks] == ["d2", "d3"] * 4 + ["d3"] * 4
    assert ct12.tasks[11].options["goal"] == [1, 1, 1]
    assert ct8_md.labels == (0, 1, 4, 5, 12, 13, 28, 29)
    assert (ct8.label_dim, ct12.label_dim, ct8_md.label_dim) == (8, 12, 60)


def test_the_newest_version_answers_to_the_short_name(monkeypatch):
    old = find_curriculum("ct8")
    new = replace(old, id="personae/CT8-v10")
    newer = {c.id: c for c in (new, replace(old, id="personae/CT8-v9"), old)}
    monkeypatch.setattr("personae.curricula.registry.registered", lambda: newer)
    assert find_curriculum("ct8") is new
    assert find_curriculum("personae/CT8-v0") is old


def test_another_package_adds_its_curricula_by_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "elsewhere.py").write_text(
        "from personae.curricula import Curriculum, Task\n"
        "def curricula():\n"
        "    task = Task('one', 'personae/CTGraph-v0')\n"
        "    return [Curriculum('elsewhere/Mine-v2', (task,))]\n"
    )
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = elsewhere:curricula\n")
    monkeypatch.syspath_prepend(tmp_path)
    registered.cache_clear()
    try:
        assert find_curriculum("mine").id == "elsewhere/Mine-v2"
        assert set(registered()) >= {"personae/CT8-v0", "elsewhere/Mine-v2"}
    finally:
        monkeypatch.undo()
        registered.cache_clear()


def test_visits_repeat_the_tasks_in_each_cycle():
    curriculum = replace(find_curriculum("ct8"), cycles=2)
    assert curriculum.visits == (*range(8), *range(8))


GOOD = """
id = "me/Mine-v1"
[[tasks]]
name = "a"
env = "personae/CTGraph-v0"
options = {depth = 1, goal = [0]}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[tasks]]", "step_per_task = 5\n[[tasks]]", "mean 'steps_per_task'"),
        ('name = "a"', "name = 3", r"tasks\[0\].name: expected str, not 3"),
        ('name = "a"\n', "", "field 'name' is missing"),
        ('id = "me/Mine-v1"', 'id = "x"\ncycles = 1.5', "cycles: expected int"),
        ("[[tasks]]", "[ppo]\nepochs = true\n[[tasks]]", "epochs: expected int"),
        ("[[tasks]]", '[masks]\nrule = "treshold"\n[[tasks]]', "mean 'threshold'"),
        ("[[tasks]]", "[ppo]\nnum_minibatches = 7\n[[tasks]]", "7 equal mini-batches"),
        ('name = "a"', 'name = "a"\nlabel = 4', r"labels \[4\] do not fit"),
        ('name = "a"', 'name = "../a"', "is also a file name"),
        ('name = "a"', 'name = "a"\nsteps = 0', "steps must be at least 1, not 0"),
        ("[[tasks]]", "[network]\nhidden = [8, -8]\n[[tasks]]", "must be positive"),
        ("[[tasks]]", "[evaluation]\ninterval = 0\n[[tasks]]", "at least 1, not 0"),
        ("[[tasks]]", "cycles = 0\n[[tasks]]", "cycles must be at least 1, not 0"),
        ("[[tasks]]", "[[tasks", "cannot read the curriculum"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path, old, new, message):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert load_curriculum(path).short_name == "mine"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UsageError, match=message):
        load_curriculum(path)


def test_two_tasks_of_one_name_are_refused():
    task = Task("same", "personae/CTGraph-v0")
    with pytest.raises(UsageError, match=r"several tasks: \['same'\]"):
        Curriculum("test/Twice-v1", (task, task))


IMPALA_TABLE = "[impala]\nnum_envs = 32\n[[tasks]]"


def test_a_file_with_a_learners_table_must_name_the_learner(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace("[[tasks]]", IMPALA_TABLE))
    message = r"mine.toml: the table \[impala\] .* add `learner = \"impala\"`"
    with pytest.raises(UsageError, match=message):
        load_curriculum(path)


def test_the_same_holds_for_json(tmp_path):
    path = tmp_path / "mine.json"
    data = tomllib.loads(GOOD)
    path.write_text(json.dumps(data | {"impala": {}, "ppo": {}}))
    with pytest.raises(UsageError, match=r"the table \[impala\]"):
        load_curriculum(path)
    path.write_text(json.dumps(data | {"ppo": {}}))
    assert load_curriculum(path).learner == "ppo"


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_file_that_names_its_learner_may_have_tables_of_others(tmp_path, learner):
    path = tmp_path / "mine.toml"
    tables = f'learner = "{learner}"\n[ppo]\nepochs = 3\n{IMPALA_TABLE}'
    path.write_text(GOOD.replace("[[tasks]]", tables))
    curriculum = load_curriculum(path)
    assert curriculum.learner == learner
    assert (curriculum.ppo.epochs, curriculum.impala.num_envs) == (3, 32)


def test_a_written_file_names_the_learner_beside_tables_of_others(tmp_path):
    curriculum = replace(find_curriculum("ct8"), impala=IMPALA(num_envs=32))
    path = tmp_path / "mine.toml"
    path.write_text(curriculum.to_toml())
    assert load_curriculum(path) == curriculum
    assert "learner" not in find_curriculum("ct8").to_toml()


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_files_are_curricula(path):
    assert load_curriculum(path).id.startswith("examples/")
