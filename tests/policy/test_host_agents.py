"""Agents of host environments: normalised, padded, with images or extra inputs."""

import dataclasses

import gymnasium as gym
import jax
import numpy as np
import pytest

import personae
from personae.backbones.convnet import ConvNet
from personae.backbones.mlp import SharedMLP
from personae.curricula import Task
from personae.curricula.curriculum import (
    Evaluation,
    Inputs,
    NetworkOptions,
    Normalisers,
)
from personae.errors import PersonaeError, UsageError
from personae.learners import PPO
from personae.methods import MaskOptions
from personae.policy import Agent, load
from personae.policy.jax.export import action_spec
from personae.policy.jax.translate import architecture_of, arrays_of
from personae.policy.manifest import FORMAT, VERSION, LayerSpec, Manifest, TaskSpec
from personae.policy.onnx import to_onnx
from personae.policy.play import play
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.training import RestoredRun, export_agent
from personae.training.update import policy_of
from personae.types import WithPreviousStep

pytestmark = pytest.mark.slow

PENDULUMS = personae.Curriculum(
    id="test/Pendulums-v0",
    tasks=(
        Task("light", "Pendulum-v1", {"g": 5.0}, target=1.0, floor=-2000.0),
        Task("heavy", "Pendulum-v1", {"g": 12.0}, target=1.0, floor=-2000.0),
    ),
    steps_per_task=64,
    network=NetworkOptions(hidden=(16, 16), bodies="separate"),
    ppo=PPO(num_envs=2, rollout_length=16, num_minibatches=2),
    masks=MaskOptions(rule="continuous"),
    normalise=Normalisers(observations=True, rewards=True),
    evaluation=Evaluation(interval=2, episodes=1, greedy=False),
)
PADDED = dataclasses.replace(
    PENDULUMS,
    id="test/Padded-v0",
    tasks=(
        Task("cart", "CartPole-v1", target=500.0),
        Task("arm", "Acrobot-v1", target=1.0, floor=-500.0),
    ),
    inputs=Inputs(fit="pad", previous_step=True, scale=0.5),
    network=NetworkOptions(hidden=(16, 16)),
    masks=MaskOptions(),
    normalise=Normalisers(),
)


@pytest.fixture(scope="module", params=[PENDULUMS, PADDED], ids=["box", "padded"])
def run_and_file(request, tmp_path_factory):
    """A run, and one of its agents as a file."""
    root = tmp_path_factory.mktemp("host")
    personae.learn(request.param, "mask-lc", seeds=2, out=root / "run", quiet=True)
    return root / "run", export_agent(root / "run", root / "agent.persona", seed=1)


def in_jax(run, index, observations, last_action, last_reward):
    """Return the most likely actions of the second agent's network."""
    restored = RestoredRun(run)
    programs = restored.training.programs
    agent = programs.sharding.select(restored.agents, 1)
    network = policy_of(programs.spec, agent, programs.table.task(index))
    spaces = restored.training.evaluation._context.tasks.spaces
    inputs = spaces.to_network(index, observations)
    if programs.spec.pipeline.encoder.previous_action_space is not None:
        inputs = WithPreviousStep(inputs, last_action, last_reward)
    actions = jax.jit(jax.vmap(lambda row: network(row)[0].mode()))(inputs)
    return spaces.to_env(index, np.asarray(actions))


def test_a_file_acts_as_the_trained_agent_does(run_and_file):
    run, file = run_and_file
    agent, rng = load(file), np.random.default_rng(0)
    for index, task in enumerate(agent.tasks):
        spec = agent.manifest.tasks[index]
        shape = (10_000, *spec.observation.shape)
        observations = rng.normal(0, 2, shape).astype(np.float32)
        last_action = rng.integers(0, spec.action.num_actions, 10_000).astype(np.int32)
        last_reward = rng.normal(0, 2, 10_000).astype(np.float32)
        expected = in_jax(run, index, observations, last_action, last_reward)
        last_step = {"last_action": last_action, "last_reward": last_reward}
        actions = agent.act(
            observations, task, **(last_step if agent.manifest.previous_step else {})
        )
        # An episode begins with zeros for the previous step.
        zeros = np.zeros_like(last_action), np.zeros_like(last_reward)
        first_actions = in_jax(run, index, observations, *zeros)
        difference = abs(agent.act(observations, task) - first_actions)
        assert (difference < 1e-5).mean() > 0.999
        assert (actions.shape, actions.dtype) == (expected.shape, expected.dtype)
        if spec.action.kind == "box":
            largest = np.abs(expected).max()
            np.testing.assert_allclose(actions, expected, atol=1e-5 * largest)
        else:
            # Rounding may decide between actions of equal logits.
            assert (actions == expected).mean() > 0.999
        assert len(np.unique(actions)) > 1


def test_episodes_can_be_repeated(run_and_file):
    _, file = run_and_file
    agent = load(file)
    for task in agent.tasks:
        episode = play(agent, task, sample=True, seed=3)
        assert episode == play(agent, task, sample=True, seed=3)
        assert episode.steps > 5


def test_a_single_discrete_action_is_a_number(run_and_file):
    _, file = run_and_file
    agent = load(file)
    spec = agent.manifest.tasks[0]
    if spec.action.kind != "discrete":
        return
    action = agent.act(np.zeros(spec.observation.shape), spec.name)
    assert isinstance(action, np.int64)
    # Environments use it as a key.
    assert {0: "left", 1: "right"}[action]
    assert agent.act(np.zeros((0, *spec.observation.shape)), spec.name).shape == (0,)


def test_agents_with_extra_inputs_refuse_predict_and_onnx(run_and_file):
    _, file = run_and_file
    agent = load(file)
    task = agent.on(agent.tasks[0])
    if agent.manifest.previous_step:
        with pytest.raises(UsageError, match="last action and reward"):
            task.predict(np.zeros(4))
        with pytest.raises(UsageError, match="is no action of 'cart'"):
            task.act(np.zeros(4), last_action=2)
        with pytest.raises(UsageError, match="ONNX models see observations only"):
            to_onnx(agent, "cart")
    else:
        action, _ = task.predict(np.zeros(3), deterministic=True)
        np.testing.assert_array_equal(action, task.act(np.zeros(3)))
        sample, _ = task.predict(np.zeros(3))
        assert sample != action
        assert gym.spaces.Box(-2, 2, (1,)).contains(action)


def test_an_environment_that_imports_needs_trust(run_and_file):
    _, file = run_and_file
    agent = load(file)
    spec = dataclasses.replace(agent.manifest.tasks[0], env="some_module:Bad-v0")
    tasks = (spec, *agent.manifest.tasks[1:])
    untrusted = Agent(dataclasses.replace(agent.manifest, tasks=tasks), agent.arrays)
    with pytest.raises(UsageError, match=r"open files \(env some_module:Bad-v0\)"):
        play(untrusted, spec.name)
    with pytest.raises(PersonaeError, match="some_module"):
        play(untrusted, spec.name, trust=True)
    with pytest.raises(PersonaeError, match="some_module"):
        play(untrusted, spec.name, env_id="some_module:Bad-v0")


def by_onnx(agent, task, observations):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(agent, task))
    (spec,) = session.get_inputs()
    dtype = np.int64 if "int64" in spec.type else np.float32
    return session.run(["action", "policy"], {spec.name: observations.astype(dtype)})


def test_onnx_does_the_same_with_real_actions(run_and_file):
    pytest.importorskip("onnx")
    _, file = run_and_file
    agent = load(file)
    if agent.manifest.previous_step:
        pytest.skip("ONNX models see observations only")
    rng = np.random.default_rng(1)
    observations = rng.normal(0, 2, (1000, 3)).astype(np.float32)
    for task in agent.tasks:
        expected = agent.act(observations, task)
        action, policy = by_onnx(agent, task, observations)
        np.testing.assert_allclose(action, expected, atol=1e-5)
        mean, log_std = policy.T
        np.testing.assert_allclose(mean.clip(-2, 2), expected[:, 0], atol=1e-5)
        low, high = np.float32(agent.manifest.architecture.log_std_bounds)
        assert ((log_std >= low) & (log_std <= high)).all()


@pytest.fixture(
    scope="module",
    params=[
        ((44, 40, 3), "nature"),
        ((3, 44, 40), "nature"),
        ((3, 13, 15), "residual"),
    ],
)
def image_agent(request):
    """An agent of two tasks with images, which differ in the number of actions."""
    image, kind = request.param
    size, space = int(np.prod(image)), gym.spaces.Discrete(6)
    network = ConvNet(size + 2, image, (16,), space, True, jax.random.key(0), kind)
    architecture, arrays = architecture_of(network), arrays_of(network)
    stacked = {
        f"{kind}/{name}": arrays[f"{name}.{part}"][None]
        for name in architecture.layers
        for kind, part in (("weights", "weight"), ("biases", "bias"))
    }
    layers = [
        LayerSpec(name, arrays[f"{name}.weight"].shape, "shared", bias="shared")
        for name in architecture.layers
    ]
    tasks = [
        TaskSpec(
            name=f"task-{actions}",
            env="envpool/StarpilotEasy-v0",
            observation=ObservationSpec(image),
            action=ActionSpec("discrete", sizes=(actions,), start=(1,)),
            label=label,
        )
        for label, actions in enumerate((6, 4))
    ]
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        architecture=architecture,
        layers=tuple(layers),
        observation_size=size,
        scale=1 / 255,
        label_dim=2,
        tasks=tuple(tasks),
        curriculum="test/Images-v0",
        method="impala",
        seed=0,
    )
    return network, Agent(manifest, stacked)


def test_images_lead_to_the_same_actions_everywhere(image_agent):
    pytest.importorskip("onnx")
    network, agent = image_agent
    shape = agent.manifest.tasks[0].observation.shape
    images = np.random.default_rng(2).integers(0, 256, (40, *shape), np.uint8)
    for label, actions in enumerate((6, 4)):
        inputs = np.concatenate(
            [images.reshape(40, -1) / np.float32(255), np.eye(2)[[label] * 40]], 1
        ).astype(np.float32)
        logits = np.asarray(jax.vmap(lambda x: network(x)[0].logits)(inputs))
        expected = logits[:, :actions].argmax(-1) + 1
        np.testing.assert_array_equal(agent.act(images, f"task-{actions}"), expected)
        action, policy = by_onnx(agent, f"task-{actions}", images)
        np.testing.assert_array_equal(action, expected)
        np.testing.assert_allclose(policy, logits[:, :actions], atol=1e-5)


def small_agent(network, observation, action, inputs, scale=1.0):
    """Return an untrained agent on one task."""
    architecture, arrays = architecture_of(network), arrays_of(network)
    layers = [
        LayerSpec(name, arrays[f"{name}.weight"].shape, "shared")
        for name in architecture.layers
    ]
    stacked = {f"weights/{n}": arrays[f"{n}.weight"][None] for n in architecture.layers}
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        architecture=architecture,
        layers=tuple(layers),
        observation_size=inputs,
        scale=scale,
        label_dim=0,
        tasks=(TaskSpec("only", "Some-v0", observation, action, 0),),
        curriculum="test/Small-v0",
        method="ppo",
        seed=0,
    )
    return Agent(manifest, stacked)


@pytest.mark.parametrize("kind", ["several", "whole"])
def test_onnx_does_the_same_with_other_spaces(kind):
    """Observations are one of nine values; actions several choices or whole numbers."""
    pytest.importorskip("onnx")
    space = {
        "several": gym.spaces.MultiDiscrete([3, 2, 4], start=[1, 0, -2]),
        "whole": gym.spaces.Box(-5, 5, (2,), np.int32),
    }[kind]
    network = SharedMLP(9, (16,), space, False, jax.random.key(1))
    observation = ObservationSpec((), 9, 3)
    agent = small_agent(network, observation, action_spec(space), 9, scale=30.0)
    values = np.arange(3, 12)
    expected = agent.act(values, "only")
    np.testing.assert_array_equal(by_onnx(agent, "only", values)[0], expected)
    assert len(np.unique(expected, axis=0)) > 1
    assert all(space.contains(action) for action in expected)


def test_images_that_would_take_all_memory_are_refused():
    space = gym.spaces.Discrete(2)
    network = ConvNet(
        300 * 300 * 3, (300, 300, 3), (4,), space, False, jax.random.key(0)
    )
    agent = small_agent(
        network, ObservationSpec((300, 300, 3)), action_spec(space), 270_000
    )
    architecture = dataclasses.replace(agent.manifest.architecture, strides=(1, 1, 1))
    with pytest.raises(PersonaeError, match=r"needs patches of \d+ numbers"):
        Agent(
            dataclasses.replace(agent.manifest, architecture=architecture), agent.arrays
        )


def agent_with_stages():
    image, space = (9, 8, 3), gym.spaces.Discrete(2)
    network = ConvNet(216, image, (4,), space, False, jax.random.key(0), "residual")
    return small_agent(network, ObservationSpec(image), action_spec(space), 216)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strides": (2,) + (1,) * 14}, "not of a stage"),
        ({"residual": False}, "too small"),
        ({"convolutions": 14}, "do not make stages of 5"),
    ],
)
def test_stages_that_do_not_fit_are_refused(change, message):
    agent = agent_with_stages()
    architecture = agent.manifest.architecture
    if "convolutions" in change:
        number = change["convolutions"]
        change = {
            "convolutions": architecture.convolutions[:number],
            "strides": architecture.strides[:number],
        }
    with pytest.raises((PersonaeError, ValueError), match=message):
        Agent(
            dataclasses.replace(
                agent.manifest, architecture=dataclasses.replace(architecture, **change)
            ),
            agent.arrays,
        )


def test_a_block_has_as_many_outputs_as_inputs():
    agent = agent_with_stages()
    layers, arrays = list(agent.manifest.layers), dict(agent.arrays)
    for index, shape in ((2, (8, 16, 3, 3)), (3, (16, 8, 3, 3))):
        name = layers[index].name
        layers[index] = dataclasses.replace(layers[index], shape=shape)
        arrays[f"weights/{name}"] = np.zeros((1, *shape), np.float32)
    with pytest.raises(PersonaeError, match="adds 8 channels to 16"):
        Agent(dataclasses.replace(agent.manifest, layers=tuple(layers)), arrays)
