"""Whole runs of the baselines: accumulated gradients, phases and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.curricula.schedule import Schedule
from personae.files import read_tensors
from personae.methods import make_method
from personae.runs.directory import RunDirectory
from personae.training.config import RunConfig
from personae.training.factory import make_training
from personae.training.loop import start
from personae.training.programs import experience_shapes

pytestmark = pytest.mark.slow


def test_experience_stays_on_disk_until_its_visit_ends(
    tiny, baselines, tmp_path, stop_after
):
    directory = RunDirectory(tmp_path)
    config = RunConfig(tiny, "ewc-mh", (0, 1))

    def experience_files():
        return sorted(p.name for p in directory.checkpoints.glob("experience-*"))

    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(2))
    assert experience_files() == [f"experience-00000{i}.safetensors" for i in (1, 2)]
    # The first chunk of the next visit could still turn out to be unreadable.
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(1), resume=True)
    assert experience_files() == [f"experience-00000{i}.safetensors" for i in (1, 2, 3)]
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(2), resume=True)
    assert experience_files() == [f"experience-00000{i}.safetensors" for i in (3, 4, 5)]
    finished = RunDirectory(baselines["ewc-mh"].directory)
    assert not list(finished.checkpoints.glob("experience-*"))


def test_importance_is_the_squared_gradient_of_all_experience(tiny):
    """Accumulate chunk by chunk, and compare with one sum over all batches."""
    training = make_training(tiny, make_method("ewc-mh"), (0,))
    agents = training.programs.begin(training.programs.init(), 0, learned=0)[0]
    parts = []
    for _ in range(2):
        agents, result = training.trainer.chunk(agents, 0, 2, None)
        parts.append(result.experience)
    accumulated = agents
    for part, experience in enumerate(parts):
        accumulated = training.programs.accumulate_gradient(
            accumulated, 0, part, experience
        )
    one, after = (jax.tree.map(lambda x: x[0], a) for a in (agents, accumulated))
    spec, task = training.programs.spec, training.programs.table.task(0)

    def network_of(trainable, key):
        network = spec.method.network(one.method_state, trainable, key)
        encoder = spec.pipeline.encoder
        return lambda observation: network(encoder(observation, task.label))

    expected, batches_added = 0.0, 0
    for part, experience in enumerate(parts):
        keys = jax.random.split(jax.random.fold_in(one.train.key, part), 2)
        for iteration, key in enumerate(keys):
            samples = jax.tree.map(
                lambda x, i=iteration: jnp.asarray(x[0, i]), experience
            )
            batches = spec.learner.batches(samples, jax.random.split(key)[0])
            for index in range(8):
                batch = jax.tree.map(lambda x, i=index: x[i], batches)
                gradient = spec.learner.gradient(
                    one.train.trainable, network_of, batch, key
                )
                expected += np.asarray(gradient.body.trunk[0].weight) ** 2 / 8
                batches_added += 1
    squares = after.method_state.regulariser.squares.body.trunk[0].weight
    np.testing.assert_allclose(squares, expected, rtol=1e-4, atol=1e-10)
    assert float(after.method_state.regulariser.batches) == batches_added == 32
    assert not any(
        np.asarray(x).any()
        for x in jax.tree.leaves(
            jax.tree.map(lambda h: h[1:], after.method_state.regulariser.squares.heads)
        )
    )


def test_experience_holds_raw_observations(tiny):
    training = make_training(tiny, make_method("ewc-sh"), (0,))
    agents = training.programs.begin(training.programs.init(), 0, learned=0)[0]
    updated = training.trainer.update_shapes(agents, 0)
    shapes = experience_shapes(training.programs.sharding, updated, 2)
    assert shapes.observation.dtype == np.uint8
    assert shapes.observation.shape == (1, 2, 16, 4, 12, 12)


def test_mask_methods_store_no_experience(tiny):
    training = make_training(tiny, make_method("mask-ri"), (0,))
    agents = training.programs.begin(training.programs.init(), 0, learned=0)[0]
    assert training.trainer.update_shapes(agents, 0).samples is None


def test_the_first_task_is_the_same_with_and_without_ewc(tiny):
    """No weight is important yet: the two differ in their number of heads only."""
    results = []
    for method in ("ewc-sh", "ppo"):
        training = make_training(tiny, make_method(method), (0, 1))
        agents, _ = training.programs.begin(training.programs.init(), 0, 0)
        results.append(training.trainer.chunk(agents, 0, 2, None)[1])
    np.testing.assert_allclose(
        results[0].metrics["loss"], results[1].metrics["loss"], rtol=1e-4, atol=1e-6
    )
    assert not results[0].metrics["penalty"].any()


def test_the_whole_network_is_saved(baselines):
    record = baselines["ewc-mh"]
    files = RunDirectory(record.directory)
    tensors, metadata = read_tensors(files.mask_file(1, record.training[1].task))
    assert tensors["body/trunk.0.weight"].shape == (2, 24, 148)
    assert tensors["heads/actor.logits.bias"].shape == (2, 4, 3)
    assert metadata["task"] == record.training[1].task


def test_phases_fall_between_chunks(tiny):
    schedule = Schedule(tiny, (0.8, 0.2))
    assert schedule.chunks(0) == [2, 2]
    assert [schedule.changes_phase(0, chunk) for chunk in range(2)] == [False, True]
    whole = Schedule(tiny, (1.0,))
    assert not any(whole.changes_phase(0, chunk) for chunk in range(2))


def test_packnet_changes_phase_in_a_run(baselines):
    files = RunDirectory(baselines["packnet"].directory)
    names = sorted(path.name for path in files.checkpoints.glob("state-*"))
    # The last visit begins after six chunks and is pruned after seven.
    assert names == ["state-000006.safetensors", "state-000007.safetensors"]
