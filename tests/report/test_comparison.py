"""Methods side by side: the numbers, the tables, and what cannot be compared."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from personae.errors import PersonaeError, UsageError
from personae.metrics import mean_interval
from personae.report import (
    Record,
    Table,
    compare_records,
    comparison_tables,
    read_record,
    remarks,
)
from personae.report.record import TrainingCurve

TASKS = tuple(f"task-{i}" for i in range(8))


def made_up(method, solved_at, steps_per_task=102_400):
    """A life on CT8 in which seed s solves each task `solved_at[s]` evaluations in."""
    tasks = np.repeat(np.arange(8), 20)
    within = np.tile(np.arange(20), 8)
    evaluations = np.array(
        [
            (np.arange(8) < tasks[:, None])
            | ((np.arange(8) == tasks[:, None]) & (within[:, None] >= start))
            for start in solved_at
        ],
        float,
    )
    curve = np.array([np.arange(20) >= start for start in solved_at], float)
    curriculum = {"id": "personae/CT8-v0", "steps_per_task": steps_per_task}
    seeds = list(range(len(solved_at)))
    config = {"curriculum": curriculum, "method": method, "seeds": seeds}
    return Record(
        directory=Path(method),
        run={"status": "finished", "config": config},
        tasks=TASKS,
        targets=np.ones(8),
        evaluation_steps=np.arange(160),
        evaluation_task=tasks,
        evaluation_visit=tasks,
        evaluations=evaluations,
        training=tuple(
            TrainingCurve(task, 5120 * (1 + np.arange(20)), curve) for task in TASKS
        ),
    )


@pytest.fixture
def comparison():
    lives = {
        "mask-lc": [1, 2, 1, 2, 3],
        "mask-blc": [0, 1, 0, 0, 1],
        "ppo": [6, 8, 7, 9, 10],
        "expert": [5, 5, 5, 5, 5],
    }
    records = [made_up(method, starts) for method, starts in lives.items()]
    return compare_records(records, "mask-lc")


def texts(table):
    return {row[0]: row[1:] for row in table.rows}


def test_a_comparison_by_hand(comparison):
    # Each task is solved k evaluations late: 8 k are missing of 720.
    totals = comparison.per_seed("total_evaluation", "mask-lc")
    assert totals.tolist() == [712, 704, 712, 704, 696]
    # Area 1 - k / 20 against experts' 0.75: (0.25 - k / 20) / 0.25.
    transfer = comparison.per_seed("forward_transfer", "ppo")
    np.testing.assert_allclose(transfer, [-0.2, -0.6, -0.4, -0.8, -1.0])
    pooled = comparison.transfer_pooled_over_seeds_and_tasks("ppo")
    assert pooled.mean == pytest.approx(transfer.mean())
    over_seeds = comparison.interval("forward_transfer", "ppo")
    assert pooled.half_width < over_seeds.half_width
    assert comparison.experts is not None
    assert set(comparison.records) == {"mask-lc", "mask-blc", "ppo"}
    for method in comparison.records:
        assert comparison.interval("forgetting", method).mean == 0


def test_tests_are_corrected_together(comparison):
    tests = {test.method: test for test in comparison.tests("total_evaluation")}
    assert set(tests) == {"mask-blc", "ppo"}
    for test in tests.values():
        assert test.p_value <= test.corrected <= 2 * test.p_value
        low, high = test.difference.low, test.difference.high
        assert low <= test.difference.estimate <= high
    assert tests["ppo"].difference.estimate == pytest.approx(49.6)
    assert comparison.improvement("total_evaluation", "ppo").estimate == 1.0


def test_published_numbers_stand_beside_ours(comparison):
    tables = {
        table.title.split(":")[0]: table for table in comparison_tables(comparison)
    }
    evaluation = texts(tables["Total evaluation on personae/CT8-v0 (ideal 720)"])
    assert evaluation["mask-blc"][:2] == ("716.80 ± 5.44", "716.80 ± 2.22")
    assert texts(tables["Forward transfer per task"])["ppo"][0] == "-0.60"
    steps = tables["Thousands of steps to 75% of the target"].rows
    assert ("  published", "20", "7", "8", "13", "39", "30", "13", "28") in steps
    assert remarks(comparison) == []


def test_a_changed_protocol_has_no_published_numbers():
    record = made_up("mask-lc", [1, 2], steps_per_task=51_200)
    comparison = compare_records([record], "mask-lc")
    assert texts(comparison_tables(comparison)[0])["mask-lc"][1] == "-"
    assert "51,200 steps per task" in " ".join(remarks(comparison))


def test_without_experts_transfer_is_left_out_and_the_reason_given():
    pair = [made_up("mask-lc", [1, 2]), made_up("ppo", [5, 6])]
    comparison = compare_records(pair, "mask-lc")
    assert not any("transfer" in t.title.lower() for t in comparison_tables(comparison))
    assert "no run of the method 'expert'" in " ".join(remarks(comparison))
    with pytest.raises(UsageError, match="needs a run of the method 'expert'"):
        comparison.interval("forward_transfer", "ppo")


def test_one_seed_has_no_interval_and_no_test():
    lives = [made_up("mask-lc", [1]), made_up("ppo", [5, 6]), made_up("expert", [4])]
    comparison = compare_records(lives, "mask-lc")
    tables = comparison_tables(comparison)
    assert texts(tables[0])["mask-lc"][0] == "712.00"
    assert tables[-1].rows == []
    assert "for mask-lc: one seed only" in " ".join(remarks(comparison))


def test_real_lives_are_compared(lives, baselines):
    records = [*lives.values(), *baselines.values()]
    comparison = compare_records(records, "mask-lc")
    tables = comparison_tables(comparison)
    methods = list(texts(tables[0]))
    assert methods == ["mask-ri", "mask-lc", "mask-blc", "ppo", "ewc-mh", "packnet"]
    for method, record in comparison.records.items():
        total = mean_interval(record.total_evaluation)
        assert texts(tables[0])[method][0] == str(total)


def test_a_run_that_is_not_finished_is_named(lives, tmp_path):
    shutil.copytree(lives["mask-ri"].directory, tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(run | {"status": "running"}))
    record = read_record(tmp_path / "run")
    with pytest.raises(PersonaeError, match="is not finished: it is at task 4 of 4"):
        compare_records([record], "mask-ri")


def test_other_presets_are_not_pooled(comparison):
    other = made_up("ewc-mh", [1, 2], steps_per_task=51_200)
    with pytest.raises(UsageError, match="102400 in the one and 51200"):
        compare_records([comparison.records["mask-lc"], other], "mask-lc")


def test_two_runs_of_one_method_are_not_pooled():
    runs = [made_up("ppo", [1, 2]), made_up("ppo", [3, 4])]
    with pytest.raises(UsageError, match="two runs of ppo"):
        compare_records(runs, "ppo")


def test_an_unknown_reference_names_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'mask-lc'"):
        compare_records([made_up("mask-lc", [1])], "mask-cl")


def test_experts_alone_are_no_comparison():
    with pytest.raises(ValueError, match="experts only"):
        compare_records([made_up("expert", [1])], "expert")


@pytest.mark.parametrize(
    ("kind", "field"), [("train", "return"), ("evaluation", "returns")]
)
def test_what_is_not_a_number_is_named(lives, tmp_path, kind, field):
    shutil.copytree(lives["mask-ri"].directory, tmp_path / "run")
    path = tmp_path / "run" / "metrics.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    broken = next(r for r in records if r["kind"] == kind and r["iteration"] >= 6)
    broken[field] = np.full_like(broken[field], np.nan, dtype=float).tolist()
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    with pytest.raises(PersonaeError, match=f"{field} at iteration 6 .* not a number"):
        read_record(tmp_path / "run")


def test_a_table_in_every_form():
    table = Table("A & B", ("method", "x_1"), [("ppo", "1 ± 2"), ("a|b", "50 %")], "N.")
    assert "| a\\|b | 50 % |" in table.to_markdown()
    assert table.to_csv() == "method,x_1\nppo,1 ± 2\na|b,50 %\n"
    latex = table.to_latex()
    assert r"\caption{A \& B. N.}" in latex
    assert r"a|b & 50 \% \\" in latex
    assert r"ppo & 1 $\pm$ 2 \\" in latex
    assert r"method & x\_1 \\" in latex
    assert table.to_rich().row_count == 2
