"""Which runs may stand beside each other, and what is said if they differ."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from synthetic_lives import CT8, made_up, texts

from personae.errors import PersonaeError, UsageError
from personae.methods import MethodOptions
from personae.report import (
    compare_records,
    comparison_tables,
    read_record,
    remarks,
)
from personae.report.data.comparable import METHOD_SETTINGS, remarks_on_settings
from personae.report.paper.claims import Runs, claims_table
from personae.report.paper.published import published_test


def test_the_settings_of_methods_are_known_here_too():
    fields = {field.name for field in dataclasses.fields(MethodOptions)}
    assert set(METHOD_SETTINGS) == fields


def test_a_run_that_is_not_finished_is_named(lives, tmp_path):
    shutil.copytree(lives["mask-ri"].directory, tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(run | {"status": "running"}))
    record = read_record(tmp_path / "run")
    with pytest.raises(PersonaeError, match="is not finished: it is at visit 4 of 4"):
        compare_records([record], "mask-ri")


def test_a_finished_run_whose_metrics_were_cut_is_named(lives, tmp_path):
    shutil.copytree(lives["mask-ri"].directory, tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    record = read_record(tmp_path / "run")
    with pytest.raises(PersonaeError, match=r"are not whole: 7 evaluations of 8"):
        compare_records([record], "mask-ri")


def test_other_presets_are_not_pooled():
    other = made_up("ewc-mh", [1, 2], {"ppo": CT8["ppo"] | {"epochs": 8}})
    with pytest.raises(UsageError, match=r"ppo\.epochs is 1 in the one and 8"):
        compare_records([made_up("mask-lc", [1, 2]), other], "mask-lc")


RARELY = {"evaluation": CT8["evaluation"] | {"interval": 20}}


def at(record, kept):
    """A life with some of its evaluations only."""
    return dataclasses.replace(
        record,
        evaluation_steps=record.evaluation_steps[kept],
        evaluation_task=record.evaluation_task[kept],
        evaluation_visit=record.evaluation_visit[kept],
        evaluations=record.evaluations[:, kept],
    )


def every_second(record):
    """A life as it looks when it is evaluated after every other chunk."""
    return at(record, np.arange(1, 160, 2))


def ppo_with(**settings):
    return {"ppo": CT8["ppo"] | settings}


def test_settings_may_differ_where_that_is_accepted():
    ours = made_up("mask-lc", [1, 2])
    theirs = made_up("ewc-mh", [3, 4], ppo_with(epochs=8))
    with pytest.raises(UsageError, match=r"ppo\.epochs .*add --despite ppo\.epochs to"):
        compare_records([ours, theirs], "mask-lc")
    for accepted in ("ppo.epochs", "ppo"):
        comparison = compare_records([ours, theirs], "mask-lc", [accepted])
        assert not any("differ in number" in said for said in remarks(comparison))
        titles = [table.title for table in comparison_tables(comparison)]
        assert "Total evaluation: mask-lc minus each method" in titles
    for unknown, meant in [("pp", "ppo"), ("epochs", None), ("ppo.x", "ppo")]:
        with pytest.raises(UsageError, match=f"unknown setting '{unknown}'") as caught:
            compare_records([ours, theirs], "mask-lc", ["ppo.epochs", unknown])
        assert meant is None or f"Did you mean '{meant}'" in str(caught.value)
    (said,) = remarks_on_settings([ours, theirs])
    assert said == "Settings differ. ppo.epochs: 1 (mask-lc), 8 (ewc-mh)."
    assert remarks_on_settings([ours, ours]) == []


def test_what_is_to_be_accepted_is_named_for_all_runs_at_once():
    records = [
        made_up("mask-lc", [1]),
        made_up("ppo", [1], ppo_with(epochs=8)),
        made_up("l2", [1], ppo_with(learning_rate=1.0)),
    ]
    everything = "ppo.epochs,ppo.learning_rate"
    for accepted in ([], ["ppo.epochs"], ["ppo.learning_rate"]):
        with pytest.raises(UsageError, match=f"--despite {everything} to"):
            compare_records(records, "mask-lc", accepted)
    assert compare_records(records, "mask-lc", everything.split(",")).records


def test_settings_of_a_method_are_compared_among_its_readers():
    strong = {"ewc": CT8["ewc"] | {"strength": 77.0}}
    records = [made_up("mask-lc", [1]), made_up("ewc-mh", [1])]
    assert compare_records(records, "mask-lc")
    records.append(dataclasses.replace(made_up("ewc-mh", [1], strong)))
    records[-1].run["config"]["method"] = "ewc-sh"
    with pytest.raises(UsageError, match=r"ewc\.strength is .* 77\.0 in the other"):
        compare_records(records, "mask-lc")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tasks": [CT8["tasks"][0] | {"target": 7.0}, *CT8["tasks"][1:]]}, "tasks.0"),
        ({"tasks": CT8["tasks"][:7]}, "tasks.7"),
        ({"cycles": 2}, "cycles"),
        ({"steps_per_task": 51_200}, "steps_per_task"),
        ({"id": "mine/CT8-v0"}, "id"),
        (
            {"evaluation": CT8["evaluation"] | {"measure": "success"}},
            "evaluation.measure",
        ),
    ],
)
def test_numbers_of_different_things_are_never_compared(changes, named):
    other = made_up("ppo", [1], {**changes, **ppo_with(epochs=8)})
    other.run["evaluations"] = 160
    if "cycles" in changes:
        visits = np.repeat(np.arange(16), 10)
        other = dataclasses.replace(other, evaluation_visit=visits)
    accepted = ["ppo", "tasks", "cycles", "steps_per_task", "id", "evaluation"]
    with pytest.raises(UsageError, match=named) as caught:
        compare_records([made_up("mask-lc", [1]), other], "mask-lc", accepted)
    assert "--despite" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_lives_evaluated_more_often_are_compared_by_their_means():
    """With 20 and 10 evaluations of a visit; tasks are late by k + j of 20."""
    often = made_up("mask-lc", [1, 2])
    rarely = every_second(made_up("ppo", [5, 6], RARELY))
    lives = [often, rarely]
    with pytest.raises(UsageError, match=r"--despite evaluation\.interval to"):
        compare_records(lives, "mask-lc")
    comparison = compare_records(lives, "mask-lc", ["evaluation.interval"])
    # Of 720 and of 360, of which 8 k + 28 and the whole of (k + j) / 2 are missing.
    totals = [comparison.per_seed("total_evaluation", m) for m in ("mask-lc", "ppo")]
    lacking = [sum((k + j) // 2 for j in range(8)) for k in (5, 6)]
    assert totals[0].tolist() == [684, 676]
    assert totals[1].tolist() == [360 - lost for lost in lacking]
    (test,) = comparison.tests("mean_evaluation")
    means = totals[0].mean() / 160, totals[1].mean() / 80
    assert test.difference.estimate == pytest.approx(means[0] - means[1])
    tables = {table.title: table for table in comparison_tables(comparison)}
    rows = texts(tables["Total evaluation on personae/CT8-v0"])
    assert rows["mask-lc"][3] == f"{680 / 720:.1%}"
    assert rows["ppo"][1] == "-"  # its evaluations are not the paper's
    assert rows["ppo"][3] == f"{totals[1].mean() / 360:.1%}"
    assert "Mean evaluation: mask-lc minus each method" in tables
    assert "Total evaluation: mask-lc minus each method" not in tables
    said = " ".join(remarks(comparison))
    assert "Evaluations differ in number: 160 (mask-lc), 80 (ppo)." in said
    assert "CORA" not in said
    experts = every_second(made_up("expert", [1, 2], RARELY))
    comparison = compare_records([often, experts], "mask-lc", ["evaluation.interval"])
    assert comparison.measure_of_lives == "total_evaluation"
    assert not any("differ in number" in said for said in remarks(comparison))


def test_curves_with_points_at_another_pace_are_named():
    often = made_up("mask-lc", [1, 2])
    number = 2 * CT8["ppo"]["num_envs"]
    rarely = every_second(made_up("ppo", [5, 6], ppo_with(num_envs=number)))
    assert compare_records([often, rarely], "mask-lc", ["ppo.num_envs"])
    _, said = remarks_on_settings([often, rarely])
    assert "so many steps: 512 (mask-lc), 1024 (ppo)." in said


def test_what_is_not_a_number_differs_from_nothing_and_true_is_one():
    records = [
        made_up(method, [1], ppo_with(clip_ratio=float("nan"), epochs=value))
        for method, value in [("ppo", 1), ("l2", 1.0), ("mask-lc", True)]
    ]
    assert compare_records(records, "ppo")
    records.append(made_up("ewc-mh", [1], ppo_with(clip_ratio=0.1)))
    (said,) = remarks_on_settings(records)
    assert (
        said == "Settings differ. ppo.clip_ratio: nan (ppo, l2, mask-lc), 0.1 (ewc-mh)."
    )


def test_tasks_that_ended_early_are_refused_whatever_is_accepted():
    """With as many evaluations: ten of the first half, and ten of all of a visit."""
    often, rarely = made_up("mask-lc", [1, 2]), made_up("ppo", [5, 6], RARELY)
    first_halves = np.arange(160) % 20 < 10
    cut = at(often, first_halves)
    cut.run["evaluations"] = 80
    with pytest.raises(
        PersonaeError, match=r"ended early .*: 149 .*mask-lc.*159 .*ppo"
    ):
        compare_records([cut, every_second(rarely)], "mask-lc", ["evaluation"])
    other = dataclasses.replace(cut, run={**cut.run, "config": {**cut.run["config"]}})
    other.run["config"]["method"] = "ewc-mh"
    assert compare_records([cut, other], "mask-lc")


def test_claims_and_published_tests_are_of_equal_settings():
    lives = {m: made_up(m, [1, 2]) for m in ("mask-ri", "mask-lc", "mask-blc")}
    lives["ppo"] = every_second(made_up("ppo", [5, 6], RARELY))
    comparison = compare_records([*lives.values()], "mask-lc", ["evaluation"])
    assert claims_table(Runs(comparison, {})).rows == []
    lives["ppo"] = made_up("ppo", [5, 6])
    comparison = compare_records([*lives.values()], "mask-lc")
    assert claims_table(Runs(comparison, {})).rows
    assert published_test(lives["ppo"], lives["mask-lc"], "total_evaluation")
    other = made_up("mask-lc", [1, 2], ppo_with(epochs=8))
    assert not published_test(lives["ppo"], other, "total_evaluation")


def test_a_visit_without_evaluation_is_named():
    record = made_up("mask-lc", [1])
    visits = np.where(record.evaluation_visit == 3, 2, record.evaluation_visit)
    record = dataclasses.replace(record, evaluation_visit=visits)
    with pytest.raises(PersonaeError, match=r"not whole: 160 .* of 160, in 7 visits"):
        compare_records([record], "mask-lc")


def test_two_runs_of_one_method_are_not_pooled():
    runs = [made_up("ppo", [1, 2]), made_up("ppo", [3, 4])]
    with pytest.raises(UsageError, match="two runs of ppo"):
        compare_records(runs, "ppo")
