"""Records of metrics.jsonl, by hand."""

import json

import numpy as np

from personae.runs.journal import (
    actor_record,
    evaluation_record,
    preview_record,
    train_records,
)

WHERE = {"visit": 1, "task": "a"}


def test_a_chunk_has_a_record_for_each_iteration():
    metrics = {"return": np.array([[1, 2], [3, 1 / 3]], np.float32)}
    first, second = train_records(metrics, WHERE, 5, 128, 64)
    assert json.dumps(first) == (
        '{"kind": "train", "visit": 1, "task": "a", "iteration": 5, "step": 128, '
        '"return": [1.0, 3.0]}'
    )
    assert (second["iteration"], second["step"]) == (6, 192)
    assert second["return"] == [2.0, 0.333333]


def test_an_evaluation_has_the_mean_of_episodes():
    returns = np.array([[[1, 2], [0, 0]]], np.float32)
    record = evaluation_record(WHERE, 6, 384, returns)
    assert list(record) == ["kind", "visit", "task", "iteration", "step", "returns"]
    assert record["returns"] == [[1.5, 0.0]]
    record = evaluation_record(WHERE, 6, 384, returns, returns / 2, returns * 2)
    assert record["success"] == [[0.75, 0.0]]
    assert record["unseen"] == [[3.0, 0.0]]


def test_a_preview_is_of_the_optimal_path_only():
    actions = np.array([[2, 0, 1], [2, 0, 1]])
    probabilities = np.full((2, 3, 3), 1 / 3, np.float32)
    on_path = np.array([[True, True, False]] * 2)
    record = preview_record(WHERE, 4, actions, probabilities, on_path)
    assert record["actions"] == [2, 0]
    assert np.shape(record["probabilities"]) == (2, 2, 3)


def test_actors_have_an_entry_each():
    record = actor_record(WHERE, 4, {"rollouts": [3, 4], "policy_lag": [0.5, 1]})
    assert record["rollouts"] == [3.0, 4.0]
    assert record["policy_lag"] == [0.5, 1.0]
