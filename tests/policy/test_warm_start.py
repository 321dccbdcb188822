"""A run begins with an agent: its masks stay, and are composed with new ones."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import personae
from personae.errors import PersonaeError, UsageError
from personae.policy import load
from personae.policy.jax.warm_start import digest
from personae.policy.tensors import read_tensors
from personae.runs.directory import RunDirectory
from personae.runs.learned_masks import read_learned_masks
from personae.training import RestoredRun, export_agent
from personae.training.config import RunConfig
from personae.training.export import load_warm_start
from personae.training.loop import start


@pytest.fixture(scope="module")
def file(lives, tmp_path_factory):
    """An agent of four tasks, with its scores."""
    out = tmp_path_factory.mktemp("warm_start") / "agent.persona"
    return export_agent(lives["mask-lc"].directory, out, with_scores=True)


@pytest.fixture(scope="module")
def following(tiny):
    """Two more tasks, with the same inputs."""
    inputs = dataclasses.replace(tiny.inputs, label_dim=4)
    tasks = (dataclasses.replace(tiny.tasks[0], name="again"), tiny.tasks[3])
    return dataclasses.replace(tiny, id="test/Next-v0", tasks=tasks, inputs=inputs)


@pytest.fixture(scope="module")
def run(file, following, tmp_path_factory):
    """A run of two agents that began with the file."""
    out = tmp_path_factory.mktemp("next") / "run"
    personae.learn(following, "mask-lc", seeds=2, out=out, quiet=True, warm_start=file)
    return out


def test_all_agents_have_the_backbone_and_the_masks_of_the_file(run, file):
    warm_start = load(file)
    fields = json.loads((run / "run.json").read_text())
    assert fields["fingerprints"] == [warm_start.manifest.fingerprint] * 2
    assert fields["config"]["warm_start"] == digest(file.read_bytes())
    bank = RestoredRun(run).agents.method_state.bank
    assert bank.num_inherited == 4
    for agent in range(2):
        scores = np.asarray(bank.scores.trunk[0].weight)[agent, :4]
        np.testing.assert_array_equal(scores, warm_start.arrays["scores/trunk.0"])


def test_the_first_new_mask_is_composed_with_all_four(run):
    first = load_file(run / "masks" / "000-again.safetensors")
    weights = first["coefficients/trunk.0"]
    assert weights.shape == (2, 5)
    assert (weights > 0.05).all()
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    second = load_file(run / "masks" / "001-d2-11.safetensors")
    used = second["coefficients/trunk.0"] > 0.05
    np.testing.assert_array_equal(used.sum(1), [6, 6])


def test_the_exported_agent_has_all_tasks(run, file, tmp_path):
    warm_start = load(file)
    agent = load(export_agent(run, tmp_path / "a.persona", with_scores=True))
    assert agent.tasks == ("d1-0", "d1-1", "d2-00", "d2-11-earlier", "again", "d2-11")
    observations = np.random.default_rng(0).integers(0, 256, (500, 12, 12))
    for old_name, new_name in zip(warm_start.tasks, agent.tasks, strict=False):
        expected = warm_start.act(observations, old_name)
        np.testing.assert_array_equal(expected, agent.act(observations, new_name))
    assert agent.arrays["scores/trunk.0"].shape[0] == 6


def test_a_third_run_has_the_masks_of_both(run, following, tmp_path):
    """It begins with six masks, and one name occurs for the third time."""
    tasks = following.tasks[1:]
    last = dataclasses.replace(following, id="test/Last-v0", tasks=tasks)
    personae.learn(last, "mask-lc", out=tmp_path / "run", quiet=True, warm_start=run)
    agent = load(export_agent(tmp_path / "run", tmp_path / "agent.persona"))
    assert agent.tasks[3:] == (
        "d2-11-earlier",
        "again",
        "d2-11-earlier-earlier",
        "d2-11",
    )
    weights = load_file(tmp_path / "run" / "masks" / "000-d2-11.safetensors")
    used = weights["coefficients/trunk.0"] > 0.05
    np.testing.assert_array_equal(used.sum(1), [7])


def test_coefficients_are_those_of_the_runs_own_masks(run):
    learned = read_learned_masks(run)
    file = load_file(run / "masks" / "001-d2-11.safetensors")
    both = file["coefficients/trunk.0"][:, [4, -1]]
    np.testing.assert_array_equal(learned.coefficients["trunk.0"][:, 1], both)


def test_a_run_is_the_same_warm_start_as_its_file(lives, file):
    assert load_warm_start(lives["mask-lc"].directory) == file.read_bytes()


def test_a_run_with_a_warm_start_is_resumed_bit_for_bit(
    run, file, following, stop_after, tmp_path, assert_same_run
):
    config = RunConfig(following, "mask-lc", (0, 1), digest(file.read_bytes()))
    directory = RunDirectory(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(2), warm_start=file.read_bytes())
    start(config, directory, stop_after(1000), resume=True)
    assert_same_run(directory.root, run)


def test_another_file_than_the_run_began_with_is_refused(
    run, file, following, tmp_path
):
    other = tmp_path / "other.persona"
    other.write_bytes(file.read_bytes().replace(b"mask-lc", b"mask-xx"))
    options = {"seeds": 2, "out": run, "quiet": True, "resume": True}
    with pytest.raises(UsageError, match="began with another agent than --warm-start"):
        personae.learn(following, "mask-lc", warm_start=other, **options)
    personae.learn(following, "mask-lc", **options)  # the run has the file
    personae.learn(following, "mask-lc", warm_start=file, **options)


def test_a_run_without_a_warm_start_takes_none_later(lives, file, tiny):
    options = {"seeds": 2, "out": lives["mask-lc"].directory, "quiet": True}
    with pytest.raises(
        UsageError, match="began without an agent: leave out --warm-start"
    ):
        personae.learn(tiny, "mask-lc", warm_start=file, resume=True, **options)


def test_an_impossible_warm_start_is_refused_at_once(
    lives, file, following, tiny, tmp_path
):
    def learn(curriculum=following, method="mask-lc", warm_start=file):
        out = tmp_path / "run"
        personae.learn(curriculum, method, out=out, quiet=True, warm_start=warm_start)

    with pytest.raises(UsageError, match="only methods of masks"):
        learn(method="ppo")
    plain = export_agent(lives["mask-lc"].directory, tmp_path / "plain.persona")
    with pytest.raises(UsageError, match="export it with --with-scores"):
        learn(warm_start=plain)
    with pytest.raises(UsageError, match="label_dim is 4, this curriculum's is 2"):
        learn(dataclasses.replace(following, inputs=tiny.inputs))
    wide = dataclasses.replace(tiny.network, hidden=(24, 25))
    with pytest.raises(UsageError, match=r"signs/.*has \[.*\], this curriculum's"):
        learn(dataclasses.replace(following, network=wide))
    deep = dataclasses.replace(tiny.network, hidden=(24, 24, 24))
    with pytest.raises(UsageError, match=r"its body is \[.*\], this curriculum's is"):
        learn(dataclasses.replace(following, network=deep))
    arrays, metadata = read_tensors(file.read_bytes())
    signs = {"backbone/signs/trunk.0": ~arrays["backbone/signs/trunk.0"]}
    (tmp_path / "forged.persona").write_bytes(save(arrays | signs, metadata))
    with pytest.raises(UsageError, match="backbone is not the one that its masks"):
        learn(warm_start=tmp_path / "forged.persona")
    top_k = dataclasses.replace(tiny.masks, epsilon=0.5)
    with pytest.raises(UsageError, match=r"masks.epsilon is 0.0, this .* is 0.5"):
        learn(dataclasses.replace(following, masks=top_k))
    with pytest.raises(PersonaeError, match="cannot be read"):
        learn(warm_start=tmp_path / "none.persona")
    assert not (tmp_path / "run").exists()
