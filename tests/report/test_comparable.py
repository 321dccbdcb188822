"""Tests of the conditions for comparing runs and of remarks on differences."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from synthetic_lives import CT8, make_life, texts

from personae.errors import PersonaeError, UsageError
from personae.methods import MethodOptions
from personae.report import (
    compare_records,
    comparison_tables,
    read_record,
    remarks,
)
from personae.report.data.comparable import METHOD_SETTINGS, remarks_on_settings
from personae.report.paper.claim import Runs
from personae.report.paper.published import published_test
from personae.report.render.tables import claims_table


def test_the_settings_of_methods_are_complete():
    fields = {field.name for field in dataclasses.fields(MethodOptions)}
    assert set(METHOD_SETTINGS) == fields


def test_an_unfinished_run_is_named(lives, tmp_path):
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
    other = make_life("ewc-mh", [1, 2], {"ppo": CT8["ppo"] | {"epochs": 8}})
    with pytest.raises(UsageError, match=r"ppo\.epochs is 1 in the one and 8"):
        compare_records([make_life("mask-lc", [1, 2]), other], "mask-lc")


RARELY = {"evaluation": CT8["evaluation"] | {"interval": 20}}


def select_evaluations(record, indices):
    """Return a life with some of its evaluations only."""
    return dataclasses.replace(
        record,
        evaluation_steps=record.evaluation_steps[indices],
        evaluation_task=record.evaluation_task[indices],
        evaluation_visit=record.evaluation_visit[indices],
        evaluations=record.evaluations[:, indices],
    )


def halve_evaluations(record):
    """Return a life with an evaluation after every other chunk."""
    return select_evaluations(record, np.arange(1, 160, 2))


def ppo_with(**settings):
    return {"ppo": CT8["ppo"] | settings}


def test_accepted_settings_may_differ():
    record = make_life("mask-lc", [1, 2])
    other = make_life("ewc-mh", [3, 4], ppo_with(epochs=8))
    with pytest.raises(UsageError, match=r"ppo\.epochs .*add --despite ppo\.epochs to"):
        compare_records([record, other], "mask-lc")
    for accepted in ("ppo.epochs", "ppo"):
        comparison = compare_records([record, other], "mask-lc", [accepted])
        assert not any("Numbers of" in text for text in remarks(comparison))
        titles = [table.title for table in comparison_tables(comparison)]
        assert "Total evaluation: mask-lc minus each method" in titles
    for unknown, meant in [("pp", "ppo"), ("epochs", None), ("ppo.x", "ppo")]:
        with pytest.raises(UsageError, match=f"unknown setting '{unknown}'") as caught:
            compare_records([record, other], "mask-lc", ["ppo.epochs", unknown])
        assert meant is None or f"Did you mean '{meant}'" in str(caught.value)
    (text,) = remarks_on_settings([record, other])
    assert text == "Settings differ. ppo.epochs: 1 (mask-lc), 8 (ewc-mh)."
    assert remarks_on_settings([record, record]) == []


def test_one_error_names_the_differences_of_all_runs():
    records = [
        make_life("mask-lc", [1]),
        make_life("ppo", [1], ppo_with(epochs=8)),
        make_life("l2", [1], ppo_with(learning_rate=1.0)),
    ]
    everything = "ppo.epochs,ppo.learning_rate"
    for accepted in ([], ["ppo.epochs"], ["ppo.learning_rate"]):
        with pytest.raises(UsageError, match=f"--despite {everything} to"):
            compare_records(records, "mask-lc", accepted)
    assert compare_records(records, "mask-lc", everything.split(",")).records


def test_settings_of_a_method_are_compared_among_its_readers():
    strong = {"ewc": CT8["ewc"] | {"strength": 77.0}}
    records = [make_life("mask-lc", [1]), make_life("ewc-mh", [1])]
    assert compare_records(records, "mask-lc")
    records.append(dataclasses.replace(make_life("ewc-mh", [1], strong)))
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
    other = make_life("ppo", [1], {**changes, **ppo_with(epochs=8)})
    other.run["evaluations"] = 160
    if "cycles" in changes:
        visits = np.repeat(np.arange(16), 10)
        other = dataclasses.replace(other, evaluation_visit=visits)
    accepted = ["ppo", "tasks", "cycles", "steps_per_task", "id", "evaluation"]
    with pytest.raises(UsageError, match=named) as caught:
        compare_records([make_life("mask-lc", [1]), other], "mask-lc", accepted)
    assert "--despite" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_lives_evaluated_more_often_are_compared_by_their_means():
    """Visits have 20 and 10 evaluations; tasks are late by k + j of 20."""
    often = make_life("mask-lc", [1, 2])
    rarely = halve_evaluations(make_life("ppo", [5, 6], RARELY))
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
    text = " ".join(remarks(comparison))
    assert "Numbers of evaluations differ: 160 (mask-lc), 80 (ppo)." in text
    assert "CORA" not in text
    experts = halve_evaluations(make_life("expert", [1, 2], RARELY))
    comparison = compare_records([often, experts], "mask-lc", ["evaluation.interval"])
    assert comparison.life_measure == "total_evaluation"
    assert not any("Numbers of" in text for text in remarks(comparison))


def test_curves_with_other_distances_of_points_are_named():
    often = make_life("mask-lc", [1, 2])
    number = 2 * CT8["ppo"]["num_envs"]
    rarely = halve_evaluations(make_life("ppo", [5, 6], ppo_with(num_envs=number)))
    assert compare_records([often, rarely], "mask-lc", ["ppo.num_envs"])
    _, text = remarks_on_settings([often, rarely])
    assert "training curve differ: 512 (mask-lc), 1024 (ppo)." in text


def test_nan_equals_nan_and_true_equals_one():
    records = [
        make_life(method, [1], ppo_with(clip_ratio=float("nan"), epochs=value))
        for method, value in [("ppo", 1), ("l2", 1.0), ("mask-lc", True)]
    ]
    assert compare_records(records, "ppo")
    records.append(make_life("ewc-mh", [1], ppo_with(clip_ratio=0.1)))
    (text,) = remarks_on_settings(records)
    assert (
        text == "Settings differ. ppo.clip_ratio: nan (ppo, l2, mask-lc), 0.1 (ewc-mh)."
    )


def test_tasks_that_ended_early_are_always_refused():
    """Both have ten evaluations per visit, of the first half and of all of it."""
    often, rarely = make_life("mask-lc", [1, 2]), make_life("ppo", [5, 6], RARELY)
    first_halves = np.arange(160) % 20 < 10
    cut = select_evaluations(often, first_halves)
    cut.run["evaluations"] = 80
    with pytest.raises(
        PersonaeError, match=r"ended early .*: 149 .*mask-lc.*159 .*ppo"
    ):
        compare_records([cut, halve_evaluations(rarely)], "mask-lc", ["evaluation"])
    other = dataclasses.replace(cut, run={**cut.run, "config": {**cut.run["config"]}})
    other.run["config"]["method"] = "ewc-mh"
    assert compare_records([cut, other], "mask-lc")


def test_claims_and_published_tests_need_equal_settings():
    lives = {m: make_life(m, [1, 2]) for m in ("mask-ri", "mask-lc", "mask-blc")}
    lives["ppo"] = halve_evaluations(make_life("ppo", [5, 6], RARELY))
    comparison = compare_records([*lives.values()], "mask-lc", ["evaluation"])
    assert claims_table(Runs(comparison, {})).rows == []
    lives["ppo"] = make_life("ppo", [5, 6])
    comparison = compare_records([*lives.values()], "mask-lc")
    assert claims_table(Runs(comparison, {})).rows
    assert published_test(lives["ppo"], lives["mask-lc"], "total_evaluation")
    other = make_life("mask-lc", [1, 2], ppo_with(epochs=8))
    assert not published_test(lives["ppo"], other, "total_evaluation")


def test_a_visit_without_evaluation_is_named():
    record = make_life("mask-lc", [1])
    visits = np.where(record.evaluation_visit == 3, 2, record.evaluation_visit)
    record = dataclasses.replace(record, evaluation_visit=visits)
    with pytest.raises(PersonaeError, match=r"not whole: 160 .* of 160, in 7 visits"):
        compare_records([record], "mask-lc")


def test_two_runs_of_one_method_are_not_pooled():
    runs = [make_life("ppo", [1, 2]), make_life("ppo", [3, 4])]
    with pytest.raises(UsageError, match="two runs of ppo"):
        compare_records(runs, "ppo")
