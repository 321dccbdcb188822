"""Tests of Continual World's measures against values computed by hand."""

import numpy as np

from personae.metrics import evaluation_areas, final_performance, performance_lost

# Two tasks of six evaluations each, one agent.
TASKS = np.repeat([0, 1], 6)
FIRST = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.9, 0.5, 0.5, 0.5, 0.6]
SECOND = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
EVALUATIONS = np.stack([FIRST, SECOND], -1)[None]


def test_performance_is_that_of_the_last_five_evaluations():
    expected = [[(0.9 + 0.5 + 0.5 + 0.5 + 0.6) / 5, (0.3 + 0.5 + 0.7 + 0.9 + 1) / 5]]
    np.testing.assert_allclose(final_performance(EVALUATIONS, TASKS), expected)


def test_loss_is_counted_from_the_end_of_a_tasks_own_training():
    learned = (0.2 + 0.4 + 0.6 + 0.8 + 1.0) / 5
    lost = performance_lost(EVALUATIONS, TASKS, TASKS)
    np.testing.assert_allclose(lost, [[learned - 0.6, 0.0]], atol=1e-12)


def test_areas_are_means_over_a_tasks_own_evaluations():
    areas = evaluation_areas(EVALUATIONS, TASKS, TASKS)
    np.testing.assert_allclose(areas, [[3.0 / 6, 3.5 / 6]])


def test_a_task_that_was_not_trained_is_not_a_number():
    first_only, tasks = EVALUATIONS[:, :6], TASKS[:6]
    areas = evaluation_areas(first_only, tasks, tasks)
    assert np.isnan(areas).tolist() == [[False, True]]
    lost = performance_lost(first_only, tasks, tasks)
    assert np.isnan(lost).tolist() == [[False, True]]


def test_areas_are_of_the_first_visit_and_performance_is_of_the_last():
    tasks, visits = np.array([0, 1, 0, 1]), np.array([0, 1, 2, 3])
    evaluations = np.array([[[0.2, 0.0], [0.1, 0.4], [0.8, 0.3], [0.7, 1.0]]])
    np.testing.assert_allclose(
        evaluation_areas(evaluations, tasks, visits), [[0.2, 0.4]]
    )
    np.testing.assert_allclose(final_performance(evaluations, visits), [[0.7, 1.0]])
    lost = performance_lost(evaluations, tasks, visits)
    np.testing.assert_allclose(lost, [[0.1, 0.0]], atol=1e-12)
