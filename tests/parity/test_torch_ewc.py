"""EWC's importance, penalty and its gradient against torch (skipped without torch)."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones import SharedMLP
from personae.learners import PPO
from personae.learners.ppo import Samples
from personae.methods.ewc import EWC, EWCOptions
from personae.methods.finetune import FineTune

torch = pytest.importorskip("torch", reason="the parity tests need torch")

KEY = jax.random.key(0)
BATCHES, SIZE, INPUTS = 5, 8, 6


def experience():
    random = np.random.RandomState(0)
    shape = (BATCHES, SIZE)
    return Samples(
        random.randn(*shape, INPUTS).astype(np.float32),
        random.randint(0, 3, shape),
        np.log(random.uniform(0.2, 0.6, shape)).astype(np.float32),
        random.randn(*shape).astype(np.float32),
        random.randn(*shape).astype(np.float32),
        None,
    )


def wave(array):
    return jnp.cos(jnp.arange(array.size)).reshape(array.shape)


def torch_network(network):
    layers = []
    for layer in (*network.trunk, network.actor.logits, network.critic):
        linear = torch.nn.Linear(*layer.weight.T.shape)
        linear.weight.data = torch.tensor(np.array(layer.weight))
        linear.bias.data = torch.tensor(np.array(layer.bias))
        layers.append(linear)
    return torch.nn.ModuleList(layers)


def torch_loss(layers, batch):
    """PPO's loss as one would write it in torch, with the published coefficients."""
    x = torch.tensor(batch.observation)
    for layer in layers[:-2]:
        x = torch.relu(layer(x))
    policy = torch.distributions.Categorical(logits=layers[-2](x))
    log_prob = policy.log_prob(torch.tensor(batch.action))
    ratio = (log_prob - torch.tensor(batch.log_prob)).exp()
    advantage = torch.tensor(batch.advantage)
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
    error = (torch.tensor(batch.target) - layers[-1](x).squeeze(-1)).pow(2).mean()
    return -surrogate - 0.1 * policy.entropy().mean() + 0.5 * error


def test_importance_and_penalty_are_torchs():
    learner = PPO()
    method = FineTune(EWC(EWCOptions(strength=100.0, retention=0.5)))
    network = SharedMLP(INPUTS, (10, 7), gym.spaces.Discrete(3), True, KEY)
    state = method.init(network, 2, KEY)
    # Heads of the usual size, so that all gradients count.
    trained = jax.tree.map(lambda x: x + 0.1 * wave(x), state.network)
    samples = experience()

    def network_of(trainable, key):
        return method.network(state, trainable, key)

    layers = torch_network(trained.select(jnp.asarray(0)))
    expected = [torch.zeros_like(p) for p in layers.parameters()]
    measured = state
    for index in range(BATCHES):
        batch = jax.tree.map(lambda x, i=index: x[i], samples)
        gradient = learner.gradient(
            trained, network_of, jax.tree.map(jnp.asarray, batch), KEY
        )
        measured = method.accumulate_gradient(measured, gradient, SIZE)
        layers.zero_grad()
        torch_loss(layers, batch).backward()
        for total, parameter in zip(expected, layers.parameters(), strict=True):
            total += parameter.grad**2 / SIZE
    ended = method.end_task(measured, trained, KEY)
    importance = ended.regulariser.importance.select(jnp.asarray(0))
    arrays = [
        np.asarray(array)
        for layer in (*importance.trunk, importance.actor.logits, importance.critic)
        for array in (layer.weight, layer.bias)
    ]
    for actual, total in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(actual, 0.5 * total.numpy(), rtol=1e-3, atol=1e-8)

    moved = jax.tree.map(lambda x: x + 0.05, trained)
    penalty, gradient = jax.value_and_grad(lambda n: method.penalty(ended, n))(moved)
    anchor = [p.detach().clone() for p in layers.parameters()]
    for parameter in layers.parameters():
        parameter.data += 0.05
    layers.zero_grad()
    expected_penalty = 100.0 * sum(
        (0.5 * f * (p - a) ** 2).sum()
        for f, p, a in zip(expected, layers.parameters(), anchor, strict=True)
    )
    expected_penalty.backward()
    assert float(penalty) == pytest.approx(expected_penalty.item(), rel=1e-3)
    first = gradient.select(jnp.asarray(0)).trunk[0].weight
    gradient_of_first = next(layers.parameters()).grad.numpy()
    np.testing.assert_allclose(first, gradient_of_first, rtol=1e-3, atol=1e-7)
