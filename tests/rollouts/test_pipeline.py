"""One pipeline: settings mean the same on the device as they do on the host."""

import dataclasses

import numpy as np
import pytest

import personae
from personae.curricula import Evaluation, Hosting, Inputs, Normalisers
from personae.errors import UsageError
from personae.methods import make_method
from personae.policy.play import play
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training import export_agent
from personae.training.config import RunConfig
from personae.training.factory import check_settings, make_training
from personae.training.loop import start


@pytest.fixture(scope="module")
def everything(tiny):
    """The tiny curriculum with every setting of the pipeline."""
    tasks = tuple(
        dataclasses.replace(task, unseen={"goal": [1 - turn for turn in goal]})
        for task in tiny.tasks
        for goal in [task.options["goal"]]
    )
    return dataclasses.replace(
        tiny,
        tasks=tasks,
        inputs=Inputs(scale=1.0, previous_step=True),
        normalise=Normalisers(observations=True, rewards=True, clip_rewards=2.0),
        ppo=dataclasses.replace(tiny.ppo, bootstrap_truncated=True),
        evaluation=Evaluation(interval=2, episodes=3, measure="success"),
    )


@pytest.fixture(scope="module")
def whole(everything, tmp_path_factory):
    """A whole run of it."""
    out = tmp_path_factory.mktemp("pipeline") / "run"
    return personae.learn(everything, "mask-lc", seeds=2, out=out, quiet=True)


def begun(curriculum, method="mask-ri"):
    """Return what trains a curriculum, and agents at the start of its first task."""
    training = make_training(curriculum, make_method(method), (0, 1))
    agents, _ = training.programs.begin(training.programs.init(), 0, 0)
    return training, agents


def collected(training, agents):
    """Return the next rollout of all agents."""
    trainer = training.trainer
    spec, task = training.programs.spec, training.programs.table.task(0)

    def collect(agent, task):
        state, train = agent.method_state, agent.train
        network = spec.method.network(state, train.trainable, train.key)
        acting = spec.pipeline.apply(network, train.statistics, task)
        return trainer._actor.collect(acting, task, train.envs, train.key)

    program = training.programs.sharding.compile(collect)
    return training.programs.sharding.to_host(program(agents, task))


def test_networks_see_the_previous_step(everything):
    rollout = collected(*begun(everything)).rollout
    steps, observation = rollout.steps, rollout.steps.observation
    ended = steps.done[:, :-1]
    assert ended.any()
    assert not observation.action[:, 0].any()
    np.testing.assert_array_equal(
        observation.action[:, 1:], np.where(ended, 0, steps.action[:, :-1])
    )
    np.testing.assert_array_equal(
        observation.reward[:, 1:], np.where(ended, 0, steps.reward[:, :-1])
    )
    assert steps.action.any()


def test_statistics_are_those_of_the_observations_and_rewards(everything):
    training, agents = begun(everything)
    rollout = collected(training, agents).rollout
    pixels = rollout.steps.observation.current.reshape(2, 64, -1)
    update = training.trainer._iterate
    task = training.programs.table.task(0)
    train = update(agents, task).train
    statistics = training.programs.sharding.to_host(train.statistics)
    moments = statistics.observations
    assert moments.number[0].tolist() == [64, 0, 0, 0]
    # The rollout above has other randomness, but images have no noise.
    assert moments.mean[0, 0].max() <= pixels.max()
    assert (moments.squares[0, 0] > 0).any()
    assert statistics.rewards.number[0].tolist() == [64, 0, 0, 0]


def test_unseen_variants_are_evaluated_beside_the_tasks(everything):
    training, agents = begun(everything)
    protocol = Evaluation(episodes=3)
    both = training.evaluation.evaluate(agents, protocol)
    assert both.unseen.shape == both.returns.shape
    variants = tuple(
        dataclasses.replace(task, options={**task.options, **task.unseen}, unseen=None)
        for task in everything.tasks
    )
    other, _ = begun(dataclasses.replace(everything, tasks=variants))
    alone = other.evaluation.evaluate(agents, protocol)
    np.testing.assert_array_equal(both.unseen, alone.returns)
    assert alone.unseen is None


def test_success_is_the_reward_of_the_goal(everything, whole):
    assert whole.by_success
    records = [*RunDirectory(whole.directory).read_metrics()]
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    for record in evaluations:
        assert record["success"] == record["returns"]
        assert len(record["unseen"]) == 2
    assert max(max(max(record["success"])) for record in evaluations) == 1
    trained = [record for record in records if record["kind"] == "train"]
    assert all(record["return"] == record["success"] for record in trained)


def test_rewards_are_clipped_for_learning_and_reported_as_they_are(tiny):
    tasks = tuple(
        dataclasses.replace(
            task, options={**task.options, "high_reward": 50.0}, target=50.0
        )
        for task in tiny.tasks
    )
    losses, returns = [], []
    for bound in (None, 1.0):
        normalise = Normalisers(clip_rewards=bound)
        curriculum = dataclasses.replace(tiny, tasks=tasks, normalise=normalise)
        training, agents = begun(curriculum)
        _, chunk = training.trainer.chunk(agents, 0, 1, None)
        losses.append(chunk.metrics["value_loss"].max())
        returns.append(chunk.metrics["return"])
    np.testing.assert_array_equal(*returns)
    assert losses[0] > 100 * losses[1] > 0


def test_a_stopped_run_ends_bit_identical(
    everything, whole, tmp_path, stop_after, assert_same_run
):
    directory = RunDirectory(tmp_path)
    config = RunConfig(everything, "mask-lc", (0, 1))
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(3))
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert_same_run(directory.root, whole.directory)


def test_a_shipped_agent_acts_as_it_was_evaluated(everything, whole, tmp_path):
    """With the previous step and normalised observations, in NumPy."""
    path = export_agent(whole.directory, tmp_path / "agent.persona", seed=1)
    agent = personae.policy.load(path)
    for index, task in enumerate(everything.tasks):
        episode = play(agent, task.name, trust=True)
        assert episode.total == whole.evaluations[1, -1, index]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("attributes", {"depth": 1}), ("wrappers", ({"name": "TimeLimit"},))],
)
def test_settings_of_gymnasium_environments_are_refused(tiny, setting, value):
    first = dataclasses.replace(tiny.tasks[0], **{setting: value})
    curriculum = dataclasses.replace(tiny, tasks=(first, *tiny.tasks[1:]))
    message = rf"task 'd1-0': {setting} belong to Gymnasium .* leave out {setting}"
    with pytest.raises(UsageError, match=message):
        check_settings(curriculum)


def test_stepping_of_host_environments_is_refused(tiny):
    curriculum = dataclasses.replace(tiny, hosting=Hosting("actors"))
    with pytest.raises(UsageError, match="leave out hosting"):
        check_settings(curriculum)
    # Version 0.1 ignored the setting: its runs can still be evaluated.
    make_training(curriculum, make_method("mask-ri"), (0,)).close()


def test_padding_of_compiled_environments_is_refused(tiny):
    curriculum = dataclasses.replace(tiny, inputs=Inputs(fit="pad"))
    with pytest.raises(UsageError, match=r"leave out inputs\.fit"):
        check_settings(curriculum)


def test_unseen_variants_do_not_change_training(tiny):
    """Variants with random waits, beside tasks without any randomness."""
    tasks = tuple(
        dataclasses.replace(task, unseen={"wait_probability": 0.3})
        for task in tiny.tasks
    )
    chunks = []
    for curriculum in (tiny, dataclasses.replace(tiny, tasks=tasks)):
        training, agents = begun(curriculum)
        chunks.append(training.trainer.chunk(agents, 0, 2, None)[1])
    alone, beside = chunks
    for name, values in alone.metrics.items():
        np.testing.assert_array_equal(values, beside.metrics[name])
    one, other = alone.evaluate(), beside.evaluate()
    np.testing.assert_array_equal(one.returns, other.returns)
    assert one.unseen is None
    assert other.unseen is not None
