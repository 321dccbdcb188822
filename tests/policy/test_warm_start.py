"""A life goes on from an agent: its masks are kept, and composed with new ones."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import personae
from personae.errors import PersonaeError, UsageError
from personae.policy import load
from personae.policy.jax.warm_start import digest, warm_start_file
from personae.policy.tensors import read_tensors
from personae.runs.directory import RunDirectory
from personae.runs.learned_masks import read_learned_masks
from personae.training import RestoredRun, export_agent
from personae.training.config import RunConfig
from personae.training.loop import start


@pytest.fixture(scope="module")
def file(lives, tmp_path_factory):
    """An agent that knows four tasks, with its scores."""
    out = tmp_path_factory.mktemp("warm_start") / "agent.persona"
    return export_agent(lives["mask-lc"].directory, out, with_scores=True)


@pytest.fixture(scope="module")
def following(tiny):
    """Two tasks that come next, with the same inputs."""
    inputs = dataclasses.replace(tiny.inputs, label_dim=4)
    tasks = (dataclasses.replace(tiny.tasks[0], name="again"), tiny.tasks[3])
    return dataclasses.replace(tiny, id="test/Next-v0", tasks=tasks, inputs=inputs)


@pytest.fixture(scope="module")
def life(file, following, tmp_path_factory):
    """A life that went on, of two agents."""
    out = tmp_path_factory.mktemp("next") / "run"
    personae.learn(following, "mask-lc", seeds=2, out=out, quiet=True, warm_start=file)
    return out


def test_all_agents_have_the_earlier_backbone_and_its_masks(life, file):
    warm_start = load(file)
    run = json.loads((life / "run.json").read_text())
    assert run["fingerprints"] == [warm_start.manifest.fingerprint] * 2
    assert run["config"]["warm_start"] == digest(file.read_bytes())
    bank = RestoredRun(life).agents.method.bank
    assert bank.num_inherited == 4
    for agent in range(2):
        first = np.asarray(bank.scores.trunk[0].weight)[agent, :4]
        np.testing.assert_array_equal(first, warm_start.arrays["scores/trunk.0"])


def test_the_first_new_mask_is_composed_with_all_four(life):
    kept = load_file(life / "masks" / "000-again.safetensors")
    weights = kept["coefficients/trunk.0"]
    assert weights.shape == (2, 5)
    assert (weights > 0.05).all()
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    after = load_file(life / "masks" / "001-d2-11.safetensors")
    used = after["coefficients/trunk.0"] > 0.05
    np.testing.assert_array_equal(used.sum(1), [6, 6])


def test_what_is_exported_knows_all_tasks(life, file, tmp_path):
    warm_start = load(file)
    agent = load(export_agent(life, tmp_path / "a.persona", with_scores=True))
    assert agent.tasks == ("d1-0", "d1-1", "d2-00", "d2-11-earlier", "again", "d2-11")
    seen = np.random.default_rng(0).integers(0, 256, (500, 12, 12))
    for then, now in zip(warm_start.tasks, agent.tasks, strict=False):
        np.testing.assert_array_equal(warm_start.act(seen, then), agent.act(seen, now))
    assert agent.arrays["scores/trunk.0"].shape[0] == 6


def test_a_third_life_has_the_masks_of_both(life, following, tmp_path):
    """Six masks are there, and a name comes for the third time."""
    tasks = following.tasks[1:]
    last = dataclasses.replace(following, id="test/Last-v0", tasks=tasks)
    personae.learn(last, "mask-lc", out=tmp_path / "run", quiet=True, warm_start=life)
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


def test_coefficients_are_those_of_this_lifes_masks(life):
    kept = read_learned_masks(life)
    file = load_file(life / "masks" / "001-d2-11.safetensors")
    both = file["coefficients/trunk.0"][:, [4, -1]]
    np.testing.assert_array_equal(kept.coefficients["trunk.0"][:, 1], both)


def test_a_run_is_gone_on_from_as_its_file_is(lives, file):
    assert warm_start_file(lives["mask-lc"].directory) == file.read_bytes()


def test_it_is_resumed_bit_for_bit(
    life, file, following, stop_after, tmp_path, assert_same_run
):
    config = RunConfig(following, "mask-lc", (0, 1), digest(file.read_bytes()))
    directory = RunDirectory(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(2), warm_start=file.read_bytes())
    start(config, directory, stop_after(1000), resume=True)
    assert_same_run(directory.root, life)


def test_another_file_is_not_the_one_it_began_with(life, file, following, tmp_path):
    other = tmp_path / "other.persona"
    other.write_bytes(file.read_bytes().replace(b"mask-lc", b"mask-xx"))
    again = {"seeds": 2, "out": life, "quiet": True, "resume": True}
    with pytest.raises(
        UsageError, match="goes on from another agent than --warm-start"
    ):
        personae.learn(following, "mask-lc", warm_start=other, **again)
    personae.learn(following, "mask-lc", **again)  # which has it already
    personae.learn(following, "mask-lc", warm_start=file, **again)


def test_a_run_that_began_without_an_agent_says_so(lives, file, tiny):
    run = {"seeds": 2, "out": lives["mask-lc"].directory, "quiet": True}
    with pytest.raises(
        UsageError, match="began without an agent: leave out --warm-start"
    ):
        personae.learn(tiny, "mask-lc", warm_start=file, resume=True, **run)


def test_what_cannot_go_on_is_said_at_once(lives, file, following, tiny, tmp_path):
    def learn(curriculum=following, method="mask-lc", warm_start=file):
        out = tmp_path / "run"
        personae.learn(curriculum, method, out=out, quiet=True, warm_start=warm_start)

    with pytest.raises(UsageError, match="only masks go on"):
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
