"""Chunks evaluated beside the training are saved in their order, or not at all."""

import threading

import pytest

from personae.errors import PersonaeError
from personae.runs.backlog import Backlog


@pytest.fixture
def backlog():
    backlog = Backlog(2)
    yield backlog
    backlog.close(wait=True)


def evaluation(number, may_end=None):
    """Return a function that evaluates a chunk, and ends when it may."""

    def evaluate():
        assert may_end is None or may_end.wait(10)
        return number

    return evaluate


def test_chunks_are_saved_in_their_order_whichever_is_evaluated_first(backlog):
    """The evaluation of the first ends after that of the second."""
    saved, second_is_evaluated = [], threading.Event()
    backlog.add(evaluation(1, second_is_evaluated), saved.append)

    def evaluate_second():
        second_is_evaluated.set()
        return 2

    backlog.add(evaluate_second, saved.append)
    backlog.clear()
    assert saved == [1, 2]


def test_nothing_is_saved_after_a_chunk_that_could_not_be(backlog):
    saved = []

    def fail(result):
        raise PersonaeError("the disk is full")

    backlog.add(evaluation(1), fail)
    backlog.add(evaluation(2), saved.append)
    with pytest.raises(PersonaeError, match="disk is full"):
        backlog.make_room()
    with pytest.raises(PersonaeError, match="disk is full"):
        backlog.clear()
    assert saved == []


def test_an_evaluation_that_fails_is_noticed_while_there_is_room(backlog):
    saved = []

    def fail():
        raise PersonaeError("an episode never ends")

    backlog.add(fail, saved.append)
    backlog.add(evaluation(2), saved.append)
    backlog._saver.submit(lambda: None).result()
    backlog._max_pending = 5
    with pytest.raises(PersonaeError, match="never ends"):
        backlog.make_room()
    assert saved == []


def test_there_is_room_for_as_many_as_are_evaluated_at_a_time(backlog):
    may_end = threading.Event()
    backlog.add(evaluation(1, may_end), lambda result: None)
    backlog.make_room()
    backlog.add(evaluation(2, may_end), lambda result: None)
    waiting = threading.Thread(target=backlog.make_room)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    may_end.set()
    waiting.join(10)
    assert not waiting.is_alive()
