"""Tests of records, their measures and their first figure and table."""

import json

import numpy as np
import pytest

from personae.errors import PersonaeError
from personae.metrics import (
    ideal_total,
    mean_interval,
    steps_to_target,
    total_evaluation,
)
from personae.report import (
    lifelong_curves,
    read_record,
    save_figure,
    task_table,
    total_line,
)


def test_a_perfect_learner_of_ct8_totals_720():
    tasks = np.repeat(np.arange(8), 20)
    assert ideal_total(tasks, np.ones(8)) == 720
    perfect = (np.arange(8) <= tasks[:, None]).astype(float)
    assert total_evaluation(perfect) == 720


def test_a_repeated_visit_adds_no_new_task():
    assert ideal_total(np.array([0, 1, 0]), np.array([1.0, 2.0])) == 1 + 3 + 3


@pytest.mark.parametrize(
    ("totals", "mean", "half_width"),
    # The only integers whose mean and interval give the published 719.60 +- 0.68.
    [([720, 720, 720, 719, 719], 719.6, 0.68), ([5, 5, 5], 5, 0)],
)
def test_intervals_are_students_t_as_published(totals, mean, half_width):
    interval = mean_interval(np.array(totals, float))
    assert interval.mean == pytest.approx(mean)
    assert interval.half_width == pytest.approx(half_width, abs=0.005)


def test_one_seed_has_no_interval():
    assert mean_interval(np.array([3.0])).half_width is None
    assert str(mean_interval(np.array([3.0]))) == "3.00"


def test_steps_to_target():
    steps, returns = np.array([512, 1024, 1536]), np.array([0.1, 0.8, 0.7])
    assert steps_to_target(steps, returns, 0.75) == 1024
    assert steps_to_target(steps, returns, 0.9) is None


def test_a_record_has_the_shape_of_the_life(lives):
    record = lives["mask-blc"]
    assert record.evaluations.shape == (2, 8, 4)
    assert record.evaluation_task.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert record.evaluation_steps.tolist() == [128 * i for i in range(1, 9)]
    assert [c.returns.shape for c in record.training] == [(2, 4)] * 4
    assert record.training[3].steps.tolist() == [64, 128, 192, 256]
    assert record.ideal_total == 2 * (1 + 2 + 3 + 4)
    assert record.run["seconds"]["total"] > 0


def test_a_record_makes_a_figure_and_a_table(lives, tmp_path):
    records = list(lives.values())
    path = save_figure(lifelong_curves(records), tmp_path / "deep" / "curve.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    table = task_table(records[0])
    assert len(table.rows) == 4
    assert "of 20" in total_line(records[0])


def test_an_unfinished_record_can_be_read(lives, tmp_path):
    source = lives["mask-ri"].directory
    (tmp_path / "run.json").write_bytes((source / "run.json").read_bytes())
    metrics = (source / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(metrics[: len(metrics) // 2])
    assert 0 < read_record(tmp_path).evaluations.shape[1] < 8


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "holds no readable run"),
        ("{", "holds no readable run"),
        (json.dumps({"schema": 99}), "has schema 99; this version reads 1"),
    ],
)
def test_a_directory_without_a_run_is_named(tmp_path, contents, message):
    if contents is not None:
        (tmp_path / "run.json").write_text(contents)
    with pytest.raises(PersonaeError, match=message):
        read_record(tmp_path)
