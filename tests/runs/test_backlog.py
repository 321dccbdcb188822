"""Chunks judged beside the training are saved in their order, or not at all."""

import threading

import numpy as np
import pytest

from personae.errors import PersonaeError
from personae.runs.backlog import Backlog
from personae.training.update import ChunkResult, Played


@pytest.fixture
def backlog():
    made = Backlog(2)
    yield made
    made.close(wait=True)


def chunk(number, may_end=None):
    """Return a chunk whose evaluation ends when it may."""

    def play():
        assert may_end is None or may_end.wait(10)
        return Played(np.full((1, 1, 1), number), None, None)

    return ChunkResult({}, None, None, play=play)


def test_chunks_are_saved_in_their_order_whichever_is_judged_first(backlog):
    """The first is judged when the second has been."""
    saved, second_is_judged = [], threading.Event()
    backlog.add(chunk(1, second_is_judged), saved.append)
    second = chunk(2)

    def play():
        second_is_judged.set()
        return second.play()

    backlog.add(second._replace(play=play), saved.append)
    backlog.clear()
    assert [int(result.scores[0, 0]) for result in saved] == [1, 2]


def test_nothing_is_saved_after_what_could_not_be(backlog):
    saved = []

    def fail(result):
        raise PersonaeError("the disk is full")

    backlog.add(chunk(1), fail)
    backlog.add(chunk(2), saved.append)
    with pytest.raises(PersonaeError, match="disk is full"):
        backlog.make_room()
    with pytest.raises(PersonaeError, match="disk is full"):
        backlog.clear()
    assert saved == []


def test_a_judge_that_fails_is_heard_of_while_there_is_room(backlog):
    saved = []

    def fail():
        raise PersonaeError("an episode never ends")

    backlog.add(chunk(1)._replace(play=fail), saved.append)
    backlog.add(chunk(2), saved.append)
    backlog._saver.submit(lambda: None).result()
    backlog._most = 5
    with pytest.raises(PersonaeError, match="never ends"):
        backlog.make_room()
    assert saved == []


def test_there_is_room_for_as_many_as_are_judged_at_a_time(backlog):
    may_end = threading.Event()
    backlog.add(chunk(1, may_end), lambda result: None)
    backlog.make_room()
    backlog.add(chunk(2, may_end), lambda result: None)
    waiting = threading.Thread(target=backlog.make_room)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    may_end.set()
    waiting.join(10)
    assert not waiting.is_alive()
