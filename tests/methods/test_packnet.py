"""PackNet: the owners of weights, which never lose them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from personae.backbones.weights import split_weights
from personae.methods.packnet import PackNet, PackNetOptions, is_largest
from personae.training.factory import make_training


@pytest.fixture(scope="module")
def visits(tiny):
    """All visits of a curriculum: training, agents at the end and agents after it."""
    training = make_training(tiny, PackNet(), (0, 1))
    between, visits = training.programs.init(), []
    for visit in range(4):
        agents = training.programs.begin(between, visit, learned=visit)[0]
        agents, _ = training.trainer.chunk(agents, visit, 2, None)
        agents = training.programs.next_phase(agents)
        agents, _ = training.trainer.chunk(agents, visit, 2, None)
        between = training.programs.end(agents, learned=visit + 1)
        visits.append((training, agents, between))
    return visits


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def weights(state):
    return leaves(split_weights(state.network.body)[0])


def test_weights_that_are_owned_stay_bit_identical(visits):
    states = [between.method_state for *_, between in visits]
    for order, (before, after) in enumerate(itertools.pairwise(states)):
        pairs = zip(weights(before), weights(after), leaves(before.owner), strict=True)
        for old, new, owner in pairs:
            np.testing.assert_array_equal(old[owner <= order], new[owner <= order])
            assert (old[owner > order] != new[owner > order]).any()


def test_all_tasks_get_equally_many_weights_of_each_layer(visits):
    owners = leaves(visits[-1][2].method_state.owner)
    for owner in owners:
        shares = [(owner[0] == order).mean() for order in range(4)]
        np.testing.assert_allclose(shares, 0.25, atol=1 / owner[0].size)


def test_the_policy_of_a_learned_task_never_changes(visits):
    method = visits[0][0].programs.spec.method

    def policy(visit, task):
        training, agents, _ = visit
        agent = training.programs.sharding.select(agents, 0)
        return leaves(
            method.policy(agent.method_state, agent.train.trainable, jnp.asarray(task))
        )

    for task in range(3):
        first = policy(visits[task], task)
        for later in visits[task + 1 :]:
            for a, b in zip(first, policy(later, task), strict=True):
                np.testing.assert_array_equal(a, b)


def test_after_pruning_a_task_uses_weights_up_to_its_own_only(visits):
    method = visits[0][0].programs.spec.method
    for order, (training, agents, _) in enumerate(visits):
        agent = training.programs.sharding.select(agents, 0)
        network = method.network(
            agent.method_state, agent.train.trainable, jax.random.key(0)
        )
        used = [np.asarray(layer.weight) for layer in network.trunk]
        for weight, owner in zip(used, leaves(agent.method_state.owner), strict=True):
            assert (weight[owner > order] == 0).all()
            assert (weight[owner <= order] != 0).mean() > 0.9


def test_biases_are_trained_on_the_first_task_only(visits):
    biases = [np.asarray(r.method_state.network.body.trunk[0].bias) for *_, r in visits]
    assert (biases[0] != 0).any()
    for later in biases[1:]:
        np.testing.assert_array_equal(biases[0], later)


def test_a_second_visit_trains_the_heads_of_a_task_alone(visits):
    training, _, between = visits[-1]
    agents = training.programs.begin(between, visit=1, learned=4)[0]
    agents, _ = training.trainer.chunk(agents, 1, 2, None)
    after = training.programs.end(agents, learned=4).method_state
    for old, new in zip(weights(between.method_state), weights(after), strict=True):
        np.testing.assert_array_equal(old, new)
    before = leaves(between.method_state.network.heads)
    changed = [
        (a[:, 1] != b[:, 1]).any()
        for a, b in zip(before, leaves(after.network.heads), strict=True)
    ]
    assert any(changed)
    assert after.order_of_task[0].tolist() == [0, 1, 2, 3]


def test_a_visit_without_a_second_phase_is_pruned_when_it_ends(tiny):
    training = make_training(tiny, PackNet(), (0,))
    agents = training.programs.begin(training.programs.init(), 0, learned=0)[0]
    state = training.programs.end(agents, learned=1).method_state
    owner = leaves(state.owner)[0]
    np.testing.assert_allclose((owner == 0).mean(), 0.25, atol=1 / owner.size)


@given(
    # XLA takes subnormal numbers for zero, NumPy does not.
    hnp.arrays(
        np.float32, (3, 5), elements=st.floats(0, 10, width=32, allow_subnormal=False)
    ),
    hnp.arrays(bool, (3, 5)),
    st.floats(0, 1),
)
def test_the_largest_are_selected(sizes, among, share):
    selected = np.asarray(is_largest(jnp.asarray(sizes), jnp.asarray(among), share))
    assert not selected[~among].any()
    expected = np.round(np.float32(share) * np.float32(among.sum()))
    assert selected.sum() == expected
    if selected.any() and (among & ~selected).any():
        assert sizes[selected].min() >= sizes[among & ~selected].max()


@pytest.mark.parametrize("options", [{"keep": 0.0}, {"keep": 1.5}, {"retrain": 0.0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PackNetOptions(**options)


def test_each_task_can_get_a_fixed_share(tiny):
    options = PackNetOptions(keep=0.5)
    training = make_training(tiny, PackNet(options), (0,))
    between = training.programs.init()
    for visit in range(2):
        agents = training.programs.begin(between, visit, learned=visit)[0]
        between = training.programs.end(agents, learned=visit + 1)
    owner = leaves(between.method_state.owner)[1]
    for order, share in ((0, 0.5), (1, 0.25), (4, 0.25)):
        np.testing.assert_allclose((owner == order).mean(), share, atol=2 / owner.size)
