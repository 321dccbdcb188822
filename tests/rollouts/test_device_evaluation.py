import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones import Categorical, Encoder
from personae.curricula import Evaluation, find_curriculum
from personae.envs import find_family
from personae.methods import Masked, MaskOptions
from personae.rollouts.device import DeviceActor
from personae.rollouts.device_evaluation import evaluate
from personae.rollouts.normalise import Statistics
from personae.rollouts.pipeline import Pipeline
from personae.rollouts.task_data import TaskTable
from personae.training.factory import make_training

pytestmark = pytest.mark.slow


class Oracle:
    """Knows the CT-graph of depth 3: acts by the images and the label."""

    def __init__(self, images, goals, sure=8.0):
        self.images, self.goals, self.sure = images, goals, sure

    def __call__(self, inputs):
        image = jnp.round(inputs[:144] * 255).astype(jnp.uint8).reshape(12, 12)
        label = jnp.argmax(inputs[144:])
        index = jnp.argmax((self.images == image).all((1, 2)))
        decision = index - 3
        level = jnp.where(decision == 0, 0, jnp.where(decision < 3, 1, 2))
        at_decision = (index >= 3) & (index < 10)
        action = jnp.where(at_decision, self.goals[label, level] + 1, 0)
        return Categorical(self.sure * jax.nn.one_hot(action, 3)), jnp.zeros(())


def oracle_returns(protocol, sure=8.0, shift=0):
    """Evaluate the oracle on CT8, each task with the label of the one `shift` on."""
    curriculum = find_curriculum("ct8")
    shifted = tuple(
        dataclasses.replace(task, label=(index + shift) % 8)
        for index, task in enumerate(curriculum.tasks)
    )
    curriculum = dataclasses.replace(curriculum, tasks=shifted)
    options = [task.options for task in curriculum.tasks]
    env, params = find_family("personae/CTGraph-v0")(options)
    goals = jnp.asarray([task["goal"] for task in options])
    oracle = Oracle(params.images[0], goals, sure)
    pipeline, statistics = Pipeline(Encoder(1 / 255, 8)), Statistics(None, None)
    actor = DeviceActor(env, pipeline, curriculum.ppo, by_success=False)
    measures = evaluate(
        actor,
        protocol,
        lambda task: pipeline.apply(oracle, statistics, task),
        TaskTable(curriculum, params).stacked,
        jax.random.key(0),
    )
    return np.asarray(measures.returns)


def test_a_perfect_policy_scores_one_on_every_task_of_ct8():
    returns = oracle_returns(Evaluation(episodes=10))
    np.testing.assert_array_equal(returns, np.ones((8, 10)))


def test_with_the_label_of_another_task_the_same_policy_goes_elsewhere():
    assert not oracle_returns(Evaluation(episodes=10), shift=1).any()


def test_sampled_episodes_differ_from_each_other():
    returns = oracle_returns(Evaluation(episodes=200, greedy=False), sure=3.0)
    right = (np.exp(3) / (np.exp(3) + 2)) ** 7  # seven actions have to be right
    assert abs(returns.mean() - right) < 0.05
    assert set(np.unique(returns)) == {0.0, 1.0}


@pytest.mark.parametrize("unseen", ["first", "latest", "average"])
def test_unseen_tasks_are_met_as_the_options_say(tiny, unseen):
    method = Masked("lc", MaskOptions(unseen=unseen))
    training = make_training(tiny, method, (0,))
    resting = training.programs.init()
    agents = None
    for visit in range(3):
        agents = training.programs.begin(resting, visit, learned=visit)[0]
        resting = training.programs.end(agents, learned=visit + 1)
    last, train = (jax.tree.map(lambda leaf: leaf[0], part) for part in agents)
    bank = last.bank.scores.trunk[0].weight
    composed = method.composed(last, train.trainable).trunk[0].weight
    expected = {
        "first": bank[0],
        "latest": composed,
        "average": bank[:2].mean(0),
    }[unseen]
    network = method.policy(last, train.trainable, jnp.asarray(3))
    np.testing.assert_array_equal(
        np.asarray(network.trunk[0].weight) != 0, np.asarray(expected) >= 0
    )


def test_one_epsilon_and_every_rule_reach_the_network(tiny):
    key = jax.random.key(0)
    for options in (
        MaskOptions(rule="top-k", density=0.25),
        MaskOptions(rule="ternary", epsilon=0.05),
        MaskOptions(rule="bernoulli"),
        MaskOptions(rule="continuous", layer_rules=(("actor", "threshold"),)),
        MaskOptions(per_layer=False),
    ):
        curriculum = dataclasses.replace(tiny, masks=options)
        training = make_training(curriculum, Masked("lc", options), (0,))
        resting = training.programs.init()
        for visit in range(2):
            agents = training.programs.begin(resting, visit, learned=visit)[0]
            resting = training.programs.end(agents, learned=visit + 1)
        method = training.programs.spec.method
        state0, train = (jax.tree.map(lambda leaf: leaf[0], part) for part in agents)
        network = method.network(state0, train.trainable, key)
        weight, fixed = network.trunk[0].weight, state0.backbone.trunk[0].weight
        mask = np.asarray(weight / fixed)
        if options.rule == "top-k":
            assert (mask != 0).sum() == np.ceil(0.25 * mask.size)
        elif options.rule == "ternary":
            assert set(np.unique(np.round(mask))) == {-1, 0, 1}
        elif options.rule == "continuous":
            assert len(np.unique(mask)) > 100
            actor = np.asarray(network.actor.logits.weight)
            constant = np.abs(np.asarray(state0.backbone.actor.logits.weight)).max()
            assert set(np.unique(np.abs(actor))) == {0, constant}
        else:
            assert set(np.unique(np.round(mask))) == {0, 1}
        exported = method.export(state0, train.trainable)
        assert ("coefficients" in exported) == (not options.per_layer)
        binary = options.rule in ("top-k", "bernoulli", "threshold")
        assert ("bits/trunk.0" in exported) == binary
