import jax.numpy as jnp
import numpy as np
import pytest

from personae.masks.bank import empty_bank, reserve


def scores(value: float):
    return {"a": jnp.full((2, 3), value), "b": jnp.full((4,), -value)}


def filled(*tasks: int, num_tasks: int = 6):
    bank = empty_bank(scores(0.0), num_tasks)
    for count, task in enumerate(tasks):
        bank = reserve(bank, count + 1).store(jnp.asarray(task), scores(task + 1.0))
    return bank


def test_tasks_take_slots_in_the_order_of_learning():
    bank = filled(3, 0, 5)
    assert bank.slot_of_task.tolist() == [1, -1, -1, 0, -1, 2]
    assert int(bank.num_learned) == 3
    assert bank.occupied.tolist() == [True, True, True, False]
    np.testing.assert_array_equal(bank.lookup(jnp.asarray(2))["a"], 6.0)


def test_a_learned_task_keeps_its_slot_and_other_slots_do_not_change():
    before = filled(3, 0, 5)
    after = before.store(jnp.asarray(0), scores(9.0))
    np.testing.assert_array_equal(after.slot_of_task, before.slot_of_task)
    np.testing.assert_array_equal(after.lookup(jnp.asarray(1))["b"], -9.0)
    for slot in (0, 2):
        np.testing.assert_array_equal(
            after.lookup(jnp.asarray(slot))["a"], before.lookup(jnp.asarray(slot))["a"]
        )


@pytest.mark.parametrize(
    ("tasks", "capacity"), [(0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (8, 8), (9, 16)]
)
def test_capacity_is_a_power_of_two(tasks, capacity):
    assert reserve(empty_bank(scores(0.0), 20), tasks).capacity == capacity


def test_capacity_never_shrinks():
    bank = filled(1, 2, 3)
    smaller = reserve(bank, 1)
    assert smaller.capacity == bank.capacity == 4
