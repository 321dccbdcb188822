"""Agents of environments outside JAX: normalised, padded, recalling, seeing."""

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
from personae.policy.jax.translate import architecture_of, arrays_of
from personae.policy.manifest import FORMAT, VERSION, LayerSpec, Manifest, TaskSpec
from personae.policy.onnx import to_onnx
from personae.policy.play import play
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.training import RestoredRun, export_agent
from personae.training.export import taken_of
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
def lived(request, tmp_path_factory):
    """A run, and one of its agents as a file."""
    root = tmp_path_factory.mktemp("hosted")
    personae.learn(request.param, "mask-lc", seeds=2, out=root / "run", quiet=True)
    return root / "run", export_agent(root / "run", root / "agent.persona", seed=1)


def in_jax(run, index, observations, last_action, last_reward):
    """Return the most likely actions of the second agent, as the network has them."""
    revival = RestoredRun(run)
    programs = revival.programs
    data, fit = programs.task_data(index), programs.tasks.fit
    acting = programs._judged(revival.agents, data)
    acting = programs.lanes.pick(acting, 1)
    network = programs.on_task(acting, data)
    seen = fit.observe(index, observations)
    if programs.setting.encoder.recalled is not None:
        seen = WithPreviousStep(seen, last_action, last_reward)
    chosen = jax.jit(jax.vmap(lambda each: network(each)[0].mode()))(seen)
    return fit.act(index, np.asarray(chosen))


def test_it_acts_as_the_trained_agent_does(lived):
    run, file = lived
    agent, rng = load(file), np.random.default_rng(0)
    for index, task in enumerate(agent.tasks):
        spec = agent.manifest.tasks[index]
        shape = (10_000, *spec.shown.shape)
        seen = rng.normal(0, 2, shape).astype(np.float32)
        before = rng.integers(0, spec.taken.number, len(seen)).astype(np.int32)
        reward = rng.normal(0, 2, len(seen)).astype(np.float32)
        expected = in_jax(run, index, seen, before, reward)
        recalled = {"last_action": before, "last_reward": reward}
        found = agent.act(
            seen, task, **(recalled if agent.manifest.previous_step else {})
        )
        nothing = np.zeros_like(before), np.zeros_like(reward)  # as episodes begin
        at_first = in_jax(run, index, seen, *nothing)
        assert (abs(agent.act(seen, task) - at_first) < 1e-5).mean() > 0.999
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if spec.taken.kind == "box":
            largest = np.abs(expected).max()
            np.testing.assert_allclose(found, expected, atol=1e-5 * largest)
        else:
            assert (found == expected).mean() > 0.999  # but for equal chances
        assert len(np.unique(found)) > 1


def test_it_plays_the_tasks(lived):
    _, file = lived
    agent = load(file)
    for task in agent.tasks:
        episode = play(agent, task, sample=True, seed=3)
        again = play(agent, task, sample=True, seed=3)
        assert episode == again
        assert episode.steps > 5


def test_one_action_is_a_number_that_environments_look_up(lived):
    _, file = lived
    agent = load(file)
    spec = agent.manifest.tasks[0]
    if spec.taken.kind != "discrete":
        return
    action = agent.act(np.zeros(spec.shown.shape), spec.name)
    assert isinstance(action, np.int64)
    assert {0: "left", 1: "right"}[action]
    assert agent.act(np.zeros((0, *spec.shown.shape)), spec.name).shape == (0,)


def test_what_stable_baselines_does_not_know_is_named(lived):
    _, file = lived
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
        render_frame, _ = task.predict(np.zeros(3))
        assert render_frame != action
        assert gym.spaces.Box(-2, 2, (1,)).contains(action)


def test_another_environment_that_imports_is_made_only_if_it_is_named(lived):
    _, file = lived
    agent = load(file)
    spec = dataclasses.replace(agent.manifest.tasks[0], env="some_module:Bad-v0")
    tasks = (spec, *agent.manifest.tasks[1:])
    stranger = Agent(dataclasses.replace(agent.manifest, tasks=tasks), agent.arrays)
    with pytest.raises(UsageError, match=r"open files \(env some_module:Bad-v0\)"):
        play(stranger, spec.name)
    with pytest.raises(PersonaeError, match="some_module"):
        play(stranger, spec.name, trust=True)
    with pytest.raises(PersonaeError, match="some_module"):
        play(stranger, spec.name, env_id="some_module:Bad-v0")


def by_onnx(agent, task, observations):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(to_onnx(agent, task))
    (wanted,) = session.get_inputs()
    kind = np.int64 if "int64" in wanted.type else np.float32
    return session.run(["action", "policy"], {wanted.name: observations.astype(kind)})


def test_onnx_does_the_same_with_numbers(lived):
    pytest.importorskip("onnx")
    _, file = lived
    agent = load(file)
    if agent.manifest.previous_step:
        pytest.skip("it recalls, which ONNX does not")
    seen = np.random.default_rng(1).normal(0, 2, (1000, 3)).astype(np.float32)
    for task in agent.tasks:
        expected = agent.act(seen, task)
        action, policy = by_onnx(agent, task, seen)
        np.testing.assert_allclose(action, expected, atol=1e-5)
        mean, spread = policy.T
        np.testing.assert_allclose(mean.clip(-2, 2), expected[:, 0], atol=1e-5)
        low, high = np.float32(agent.manifest.form.bounds)
        assert ((spread >= low) & (spread <= high)).all()


@pytest.fixture(
    scope="module",
    params=[
        ((44, 40, 3), "nature"),
        ((3, 44, 40), "nature"),
        ((3, 13, 15), "residual"),
    ],
)
def seeing(request):
    """An agent that sees pictures, on two tasks with other numbers of actions."""
    image, kind = request.param
    size, space = int(np.prod(image)), gym.spaces.Discrete(6)
    network = ConvNet(size + 2, image, (16,), space, True, jax.random.key(0), kind)
    form, arrays = architecture_of(network), arrays_of(network)
    kept = {
        f"{kind}/{name}": arrays[f"{name}.{place}"][None]
        for name in form.layers
        for kind, place in (("weights", "weight"), ("biases", "bias"))
    }
    layers = [
        LayerSpec(name, arrays[f"{name}.weight"].shape, "shared", bias="shared")
        for name in form.layers
    ]
    tasks = [
        TaskSpec(
            name=f"task-{actions}",
            env="envpool/StarpilotEasy-v0",
            shown=ObservationSpec(image),
            taken=ActionSpec("discrete", sizes=(actions,), start=(1,)),
            label=label,
        )
        for label, actions in enumerate((6, 4))
    ]
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        form=form,
        layers=tuple(layers),
        inputs=size,
        scale=1 / 255,
        label_dim=2,
        tasks=tuple(tasks),
        curriculum="test/Seeing-v0",
        method="impala",
        seed=0,
    )
    return network, Agent(manifest, kept)


def test_pictures_are_acted_on_alike_everywhere(seeing):
    pytest.importorskip("onnx")
    network, agent = seeing
    shape = agent.manifest.tasks[0].shown.shape
    seen = np.random.default_rng(2).integers(0, 256, (40, *shape), np.uint8)
    for label, actions in enumerate((6, 4)):
        inputs = np.concatenate(
            [seen.reshape(40, -1) / np.float32(255), np.eye(2)[[label] * 40]], 1
        ).astype(np.float32)
        logits = np.asarray(jax.vmap(lambda x: network(x)[0].logits)(inputs))
        expected = logits[:, :actions].argmax(-1) + 1
        found = agent.act(seen, f"task-{actions}")
        np.testing.assert_array_equal(found, expected)
        action, policy = by_onnx(agent, f"task-{actions}", seen)
        np.testing.assert_array_equal(action, expected)
        np.testing.assert_allclose(policy, logits[:, :actions], atol=1e-5)


def small_agent(network, shown, taken, inputs, scale=1.0):
    """Return an untrained agent on one task."""
    form, arrays = architecture_of(network), arrays_of(network)
    layers = [
        LayerSpec(name, arrays[f"{name}.weight"].shape, "shared")
        for name in form.layers
    ]
    kept = {f"weights/{n}": arrays[f"{n}.weight"][None] for n in form.layers}
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        form=form,
        layers=tuple(layers),
        inputs=inputs,
        scale=scale,
        label_dim=0,
        tasks=(TaskSpec("only", "Some-v0", shown, taken, 0),),
        curriculum="test/Small-v0",
        method="ppo",
        seed=0,
    )
    return Agent(manifest, kept)


@pytest.mark.parametrize("kind", ["several", "whole"])
def test_onnx_does_the_same_with_other_spaces(kind):
    """One of nine things is seen, and several choices or whole numbers are made."""
    pytest.importorskip("onnx")
    space = {
        "several": gym.spaces.MultiDiscrete([3, 2, 4], start=[1, 0, -2]),
        "whole": gym.spaces.Box(-5, 5, (2,), np.int32),
    }[kind]
    network = SharedMLP(9, (16,), space, False, jax.random.key(1))
    shown = ObservationSpec((), 9, 3)
    agent = small_agent(network, shown, taken_of(space), 9, scale=30.0)
    seen = np.arange(3, 12)
    expected = agent.act(seen, "only")
    np.testing.assert_array_equal(by_onnx(agent, "only", seen)[0], expected)
    assert len(np.unique(expected, axis=0)) > 1
    assert all(space.contains(each) for each in expected)


def test_pictures_that_would_take_all_memory_are_refused():
    space = gym.spaces.Discrete(2)
    network = ConvNet(
        300 * 300 * 3, (300, 300, 3), (4,), space, False, jax.random.key(0)
    )
    agent = small_agent(
        network, ObservationSpec((300, 300, 3)), taken_of(space), 270_000
    )
    form = dataclasses.replace(agent.manifest.form, strides=(1, 1, 1))
    with pytest.raises(PersonaeError, match=r"looks at \d+ numbers"):
        Agent(dataclasses.replace(agent.manifest, form=form), agent.arrays)


def agent_with_stages():
    image, space = (9, 8, 3), gym.spaces.Discrete(2)
    network = ConvNet(216, image, (4,), space, False, jax.random.key(0), "residual")
    return small_agent(network, ObservationSpec(image), taken_of(space), 216)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"strides": (2,) + (1,) * 14}, "not of a stage"),
        ({"residual": False}, "too small"),
        ({"convolutions": 14}, "no stages of 5"),
    ],
)
def test_stages_that_do_not_fit_are_refused(change, said):
    agent = agent_with_stages()
    form = agent.manifest.form
    if "convolutions" in change:
        number = change["convolutions"]
        change = {
            "convolutions": form.convolutions[:number],
            "strides": form.strides[:number],
        }
    with pytest.raises((PersonaeError, ValueError), match=said):
        Agent(
            dataclasses.replace(
                agent.manifest, form=dataclasses.replace(form, **change)
            ),
            agent.arrays,
        )


def test_a_block_adds_as_many_channels_as_it_sees():
    agent = agent_with_stages()
    layers, arrays = list(agent.manifest.layers), dict(agent.arrays)
    for place, shape in ((2, (8, 16, 3, 3)), (3, (16, 8, 3, 3))):
        name = layers[place].name
        layers[place] = dataclasses.replace(layers[place], shape=shape)
        arrays[f"weights/{name}"] = np.zeros((1, *shape), np.float32)
    with pytest.raises(PersonaeError, match="adds 8 channels to 16"):
        Agent(dataclasses.replace(agent.manifest, layers=tuple(layers)), arrays)
