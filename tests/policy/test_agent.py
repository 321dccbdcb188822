"""An agent out of a file does what the trained one does, with NumPy alone."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from personae.errors import UsageError
from personae.policy import load
from personae.runs.directory import RunDirectory
from personae.training import RestoredRun, export_agent
from personae.training.config import RunConfig
from personae.training.loop import start

OBSERVATIONS = 10_000
ROUNDING = 1e-6
LIVED = ("mask-ri", "mask-lc", "mask-blc", "ppo", "expert", "ewc-mh", "packnet")


@pytest.fixture(scope="module")
def runs(lives, baselines):
    """Where each method's run lies."""
    both = {**lives, **baselines}
    return {method: both[method].directory for method in LIVED}


@pytest.fixture(scope="module")
def file(runs, tmp_path_factory):
    """The second agent of mask-blc."""
    out = tmp_path_factory.mktemp("agents") / "agent.persona"
    return export_agent(runs["mask-blc"], out, seed=1)


def in_jax(run, seed, task, observations):
    """Return the logits of the trained agent."""
    revival = RestoredRun(run)
    programs, index = revival.programs, revival.config.seeds.index(seed)
    agent = revival.programs.lanes.pick(revival.agents, index)
    data, method = programs.task_data(task), programs.setting.method
    network = method.policy(agent.method, agent.live.trainable, data.number)

    def act(observation):
        policy, _ = network(programs.setting.encoder(observation, data.label))
        return policy.logits

    return np.asarray(jax.jit(jax.vmap(act))(observations))


def logits_of(task, observations):
    flat = task.spec.shown.flat(observations, 144)
    return task.policy.head.logits(task.policy._features(flat, None))


def some_observations(shape, number=OBSERVATIONS):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (number, *shape)).astype(np.float32)


@pytest.mark.parametrize("method", LIVED)
def test_it_acts_as_the_trained_agent_does(method, runs, tmp_path):
    agent = load(export_agent(runs[method], tmp_path / "agent.persona", seed=1))
    names = [task.name for task in RestoredRun(runs[method]).tasks]
    assert agent.tasks == tuple(names[-1:] if method == "expert" else names)
    for name in agent.tasks:
        index, spec = names.index(name), agent.on(name).spec
        seen = some_observations(spec.shown.shape)
        logits = in_jax(runs[method], 1, index, seen)
        second, best = np.sort(logits, -1)[:, -2:].T
        # Two actions may be equal but for rounding, by which any two devices differ.
        decided = best - second > ROUNDING * np.abs(logits).max()
        expected, found = logits.argmax(-1), agent.act(seen, task=name)
        np.testing.assert_allclose(logits_of(agent.on(name), seen), logits, atol=1e-5)
        np.testing.assert_array_equal(found[decided], expected[decided])
        alone = [agent.act(each, name) for each in seen[:20]]
        np.testing.assert_array_equal(alone, found[:20])


def test_tasks_do_what_they_learned_and_not_the_same(file):
    agent = load(file)
    seen = some_observations((12, 12), 500)
    done = [agent.act(seen, task) for task in agent.tasks]
    assert any((done[0] != other).any() for other in done[1:])


def test_a_mask_costs_a_bit_a_weight_and_the_backbone_another(file):
    manifest = load(file).manifest
    tasks, weights = len(manifest.tasks), 0
    for layer in manifest.layers:
        assert layer.stored == "bits"
        weights += int(np.prod(layer.shape))
    arrays = load_file(file).values()
    assert sum(array.nbytes for array in arrays) <= (tasks + 1) * (weights / 8 + 4)


def test_it_needs_numpy_and_nothing_else(file):
    program = f"""
import sys
sys.path.insert(0, {json.dumps(str(__import__("personae").__path__[0] + "/.."))})
before = set(sys.modules)
import numpy as np
from personae.policy import load
agent = load({json.dumps(str(file))})
agent.act(np.zeros((3, 12, 12)), task=agent.tasks[0], sample=True)
agent.predict(np.zeros((12, 12)), task=agent.tasks[0])
new = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*sorted(new - set(sys.stdlib_module_names)))
"""
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    strangers = set(found.stdout.split()) - {"numpy", "personae", "cython_runtime"}
    assert not {name for name in strangers if not name.startswith("_")}


def test_which_task_has_to_be_said(file):
    agent = load(file)
    seen = np.zeros((12, 12))
    with pytest.raises(UsageError, match=r"which task is it\?.*: d1-0, .*d2-11"):
        agent.act(seen)
    with pytest.raises(UsageError, match=r"unknown task 'd2-0'\. Did you mean 'd2-00'"):
        agent.act(seen, task="d2-0")
    with pytest.raises(UsageError, match=r"shape \(12, 12\), or .*, not \(12, 3\)"):
        agent.act(np.zeros((12, 3)), task=agent.tasks[0])


def test_actions_are_drawn_with_the_policys_chances(file):
    agent = load(file)
    task = agent.on(agent.tasks[0])
    seen = some_observations((12, 12), 1)[0]
    batch = np.broadcast_to(seen, (20_000, 12, 12))
    render_frame = task.act(batch, sample=True, rng=np.random.default_rng(1))
    logits = logits_of(task, seen)
    chances = np.exp(logits - logits.max())
    chances /= chances.sum()
    found = np.bincount(render_frame, minlength=len(chances)) / len(render_frame)
    np.testing.assert_allclose(found, chances, atol=0.02)
    again = task.act(batch, sample=True, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(render_frame, again)


def test_it_predicts_as_stable_baselines_does(file):
    agent = load(file)
    name = agent.tasks[1]
    seen = some_observations((12, 12), 50)
    state = object()
    actions, same = agent.predict(seen, state, None, True, task=name)
    np.testing.assert_array_equal(actions, agent.act(seen, name))
    assert same is state
    render_frame, _ = agent.on(name).predict(seen, deterministic=False)
    assert render_frame.shape == actions.shape


def test_the_manifest_tells_where_it_comes_from(file, runs):
    manifest = load(file).manifest
    run = json.loads((runs["mask-blc"] / "run.json").read_text())
    assert (manifest.method, manifest.seed) == ("mask-blc", 1)
    assert manifest.curriculum == "test/Tiny-v3"
    assert manifest.fingerprint == run["fingerprints"][1]
    assert manifest.masks is not None
    assert manifest.masks["rule"] == "threshold"
    evaluations = [
        json.loads(line)
        for line in (runs["mask-blc"] / "metrics.jsonl").read_text().splitlines()
        if '"evaluation"' in line
    ]
    found = [task.evaluation for task in manifest.tasks]
    assert found == evaluations[-1]["returns"][1]


def test_a_run_that_is_not_over_ships_what_it_has_learned(tiny, stop_after, tmp_path):
    config = RunConfig(tiny, "mask-ri", (0, 1))
    with pytest.raises(KeyboardInterrupt):
        start(config, RunDirectory(tmp_path / "run"), stop_after(3))
    agent = load(export_agent(tmp_path / "run", tmp_path / "agent.persona"))
    assert agent.tasks == ("d1-0", "d1-1")


def test_scores_of_what_has_none_are_refused(runs, tmp_path):
    with pytest.raises(UsageError, match="ppo has no scores"):
        export_agent(runs["ppo"], tmp_path / "agent.persona", with_scores=True)
    with pytest.raises(UsageError, match="unknown seed '7'"):
        export_agent(runs["ppo"], tmp_path / "agent.persona", seed=7)
    assert not (tmp_path / "agent.persona").exists()


def test_scores_come_along_if_they_are_wanted(runs, tmp_path):
    path = export_agent(runs["mask-lc"], tmp_path / "a.persona", with_scores=True)
    agent = load(path)
    for index, task in enumerate(agent.tasks):
        kept = load_file(runs["mask-lc"] / "masks" / f"{index:03d}-{task}.safetensors")
        for name, scores in kept.items():
            if name.startswith("scores/"):
                np.testing.assert_array_equal(agent.arrays[name][index], scores[0])
