"""An agent of a file acts as the trained one does, with NumPy alone."""

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
from personae.training.update import policy_of

OBSERVATIONS = 10_000
ROUNDING = 1e-6
METHODS = ("mask-ri", "mask-lc", "mask-blc", "ppo", "expert", "ewc-mh", "packnet")


@pytest.fixture(scope="module")
def runs(lives, baselines):
    """The run directory of each method."""
    records = {**lives, **baselines}
    return {method: records[method].directory for method in METHODS}


@pytest.fixture(scope="module")
def file(runs, tmp_path_factory):
    """The second agent of mask-blc."""
    out = tmp_path_factory.mktemp("agents") / "agent.persona"
    return export_agent(runs["mask-blc"], out, seed=1)


def logits_in_jax(run, seed, task, observations):
    """Return the logits of the trained agent."""
    restored = RestoredRun(run)
    programs, index = restored.training.programs, restored.config.seeds.index(seed)
    agent = programs.sharding.select(restored.agents, index)
    network = policy_of(programs.spec, agent, programs.table.task(task))

    def act(observation):
        policy, _ = network(observation)
        return policy.logits

    return np.asarray(jax.jit(jax.vmap(act))(observations))


def logits_of(task_agent, observations):
    flat = task_agent.spec.observation.encode(observations, 144)
    return task_agent.policy.head.logits(task_agent.policy.features(flat))


def random_observations(shape, number=OBSERVATIONS):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (number, *shape)).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
def test_a_file_acts_as_the_trained_agent_does(method, runs, tmp_path):
    agent = load(export_agent(runs[method], tmp_path / "agent.persona", seed=1))
    names = [task.name for task in RestoredRun(runs[method]).tasks]
    assert agent.tasks == tuple(names[-1:] if method == "expert" else names)
    for name in agent.tasks:
        task_agent = agent.on(name)
        observations = random_observations(task_agent.spec.observation.shape)
        logits = logits_in_jax(runs[method], 1, names.index(name), observations)
        second, best = np.sort(logits, -1)[:, -2:].T
        # Two actions may be equal but for rounding, by which any two devices differ.
        decided = best - second > ROUNDING * np.abs(logits).max()
        expected, actions = logits.argmax(-1), agent.act(observations, task=name)
        np.testing.assert_allclose(
            logits_of(task_agent, observations), logits, atol=1e-5
        )
        np.testing.assert_array_equal(actions[decided], expected[decided])
        single = [agent.act(observation, name) for observation in observations[:20]]
        np.testing.assert_array_equal(single, actions[:20])


def test_tasks_have_different_policies(file):
    agent = load(file)
    observations = random_observations((12, 12), 500)
    actions = [agent.act(observations, task) for task in agent.tasks]
    assert any((actions[0] != other).any() for other in actions[1:])


def test_a_mask_costs_a_bit_a_weight_and_the_backbone_another(file):
    manifest = load(file).manifest
    tasks, weights = len(manifest.tasks), 0
    for layer in manifest.layers:
        assert layer.storage == "bits"
        weights += int(np.prod(layer.shape))
    arrays = load_file(file).values()
    assert sum(array.nbytes for array in arrays) <= (tasks + 1) * (weights / 8 + 4)


def test_acting_needs_numpy_and_nothing_else(file):
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
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    packages = set(result.stdout.split()) - {"numpy", "personae", "cython_runtime"}
    assert not {name for name in packages if not name.startswith("_")}


def test_a_missing_or_unknown_task_is_an_error(file):
    agent = load(file)
    observation = np.zeros((12, 12))
    with pytest.raises(UsageError, match=r"which task is it\?.*: d1-0, .*d2-11"):
        agent.act(observation)
    with pytest.raises(UsageError, match=r"unknown task 'd2-0'\. Did you mean 'd2-00'"):
        agent.act(observation, task="d2-0")
    with pytest.raises(UsageError, match=r"shape \(12, 12\), or .*, not \(12, 3\)"):
        agent.act(np.zeros((12, 3)), task=agent.tasks[0])


def test_actions_are_drawn_with_the_probabilities_of_the_policy(file):
    agent = load(file)
    task_agent = agent.on(agent.tasks[0])
    observation = random_observations((12, 12), 1)[0]
    batch = np.broadcast_to(observation, (20_000, 12, 12))
    samples = task_agent.act(batch, sample=True, rng=np.random.default_rng(1))
    logits = logits_of(task_agent, observation)
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    shares = np.bincount(samples, minlength=len(probabilities)) / len(samples)
    np.testing.assert_allclose(shares, probabilities, atol=0.02)
    repeated = task_agent.act(batch, sample=True, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(samples, repeated)


def test_predict_has_the_signature_of_stable_baselines(file):
    agent = load(file)
    name = agent.tasks[1]
    observations = random_observations((12, 12), 50)
    state = object()
    actions, same_state = agent.predict(observations, state, None, True, task=name)
    np.testing.assert_array_equal(actions, agent.act(observations, name))
    assert same_state is state
    samples, _ = agent.on(name).predict(observations, deterministic=False)
    assert samples.shape == actions.shape


def test_the_manifest_names_its_run(file, runs):
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
    returns = [task.evaluation for task in manifest.tasks]
    assert returns == evaluations[-1]["returns"][1]


def test_an_unfinished_run_exports_the_tasks_learned_so_far(tiny, stop_after, tmp_path):
    config = RunConfig(tiny, "mask-ri", (0, 1))
    with pytest.raises(KeyboardInterrupt):
        start(config, RunDirectory(tmp_path / "run"), stop_after(3))
    agent = load(export_agent(tmp_path / "run", tmp_path / "agent.persona"))
    assert agent.tasks == ("d1-0", "d1-1")


def test_scores_of_a_method_without_masks_are_refused(runs, tmp_path):
    with pytest.raises(UsageError, match="ppo has no scores"):
        export_agent(runs["ppo"], tmp_path / "agent.persona", with_scores=True)
    with pytest.raises(UsageError, match="unknown seed '7'"):
        export_agent(runs["ppo"], tmp_path / "agent.persona", seed=7)
    assert not (tmp_path / "agent.persona").exists()


def test_scores_are_exported_on_request(runs, tmp_path):
    path = export_agent(runs["mask-lc"], tmp_path / "a.persona", with_scores=True)
    agent = load(path)
    for index, task in enumerate(agent.tasks):
        mask_file = runs["mask-lc"] / "masks" / f"{index:03d}-{task}.safetensors"
        for name, array in load_file(mask_file).items():
            if name.startswith("scores/"):
                np.testing.assert_array_equal(agent.arrays[name][index], array[0])
