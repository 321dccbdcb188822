"""Tests of the measures of a life against values computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from personae.metrics import (
    area,
    average_performance,
    backward_transfer,
    evaluation_matrix,
    evaluation_share,
    forgetting,
    forward_transfer,
    mean_of_known,
    zero_shot_transfer,
)

# Rows are the ends of visits, columns tasks. Task 0 is forgotten bit by bit, task 1
# is helped by task 2, task 2 was half known before it was trained.
R = np.array([[[1.0, 0.2, 0.1], [0.8, 0.6, 0.5], [0.3, 0.7, 0.9]]])
VISITS = np.array([0, 1, 2])
NAN = np.nan


def test_the_matrix_has_the_last_evaluation_of_each_visit():
    evaluations = np.arange(12.0).reshape(1, 6, 2)
    matrix = evaluation_matrix(evaluations, np.array([0, 0, 1, 1, 1, 2]))
    assert matrix.tolist() == [[[2, 3], [8, 9], [10, 11]]]


def test_average_performance():
    assert average_performance(R) == pytest.approx([(0.3 + 0.7 + 0.9) / 3])


def test_forgetting():
    # Task 0: max(1, 0.8) - 0.3; task 1: 0.6 - 0.7; the last has had no time.
    lost = forgetting(R, VISITS)
    np.testing.assert_allclose(lost, [[0.7, -0.1, NAN]], atol=1e-12)
    assert mean_of_known(lost) == pytest.approx([0.3])


def test_forgetting_counts_from_when_a_task_was_learned():
    matrix = np.array([[[0.0, 0.9], [0.0, 0.4], [0.0, 0.1]]])
    # Task 1 was learned at the second visit: 0.9 before that does not count.
    assert forgetting(matrix, np.array([0, 1, 0]))[0, 1] == pytest.approx(0.3)


def test_backward_transfer():
    # (0.3 - 1.0 + 0.7 - 0.6) / 2
    assert backward_transfer(R, VISITS) == pytest.approx([-0.3])
    assert np.isnan(backward_transfer(R[:, :1], VISITS[:1])).all()


def test_zero_shot_transfer():
    before = zero_shot_transfer(R, VISITS)
    np.testing.assert_allclose(before, [[NAN, 0.2, 0.5]])
    assert mean_of_known(before) == pytest.approx([0.35])


def test_repeated_visits_count_the_first():
    matrix = np.array([[[1.0, 0.0], [0.5, 1.0], [1.0, 0.5], [0.0, 1.0]]])
    visits = np.array([0, 1, 0, 1])
    np.testing.assert_allclose(forgetting(matrix, visits), [[1.0, 0.0]])
    np.testing.assert_allclose(zero_shot_transfer(matrix, visits), [[NAN, 0.0]])
    assert backward_transfer(matrix, visits) == pytest.approx([-0.5])


def test_the_share_of_a_tasks_largest_possible_evaluation():
    evaluations = np.array([[[1.0, 5.0], [2.0, 5.0], [2.0, 4.0], [0.0, 8.0]]])
    share = evaluation_share(evaluations, np.array([0, 0, 1, 1]), np.array([2.0, 8.0]))
    # (1 + 2 + 2 + 0) / 4 / 2 and (4 + 8) / 2 / 8: before its training nothing counts.
    np.testing.assert_allclose(share, [[0.625, 0.75]])


@given(hnp.arrays(float, (2, 4, 4), elements=st.floats(0, 1)))
def test_without_change_there_is_no_forgetting_and_no_backward_transfer(matrix):
    matrix[:, :] = matrix[:, -1:]
    assert np.nanmax(np.abs(forgetting(matrix, np.arange(4)))) == 0
    assert backward_transfer(matrix, np.arange(4)) == pytest.approx([0, 0])


def test_forward_transfer_by_hand():
    curves = np.array([[0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    areas = area(curves)[:, None]
    assert areas.ravel().tolist() == [0.625, 0.0]
    experts = np.array([[0.4], [0.6]])
    # (0.625 - 0.5) / 0.5 and (0 - 0.5) / 0.5
    np.testing.assert_allclose(forward_transfer(areas, experts), [[0.25], [-1.0]])


def test_forward_transfer_agrees_with_the_papers_remarks_on_its_experts():
    # Continual World: an agent that never succeeds has -b / (1 - b); the printed -30.07
    # of EWC on window-close needs experts with an area of 0.968.
    transfer = forward_transfer(np.array([[0.0]]), np.array([[0.9678]]))
    assert transfer[0, 0] == pytest.approx(-30.07, abs=0.05)


def test_where_experts_are_perfect_nothing_can_be_gained():
    assert np.isnan(forward_transfer(np.array([[0.5]]), np.array([[1.0]]))).all()


def test_a_life_of_one_task_has_no_measure_of_change():
    assert np.isnan(mean_of_known(forgetting(R[:, :1], VISITS[:1]))).all()
