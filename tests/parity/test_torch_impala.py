"""IMPALA's updates of a convolutional network, against a plain program in PyTorch."""

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.backbones import ConvNet
from personae.learners import IMPALA
from personae.types import Rollout, Transition

torch = pytest.importorskip("torch")

IMAGE, ACTIONS, ENVS, STEPS = (3, 36, 36), 5, 4, 6
LEARNER = IMPALA(num_envs=ENVS, rollout_length=STEPS, batch_size=2)
NETWORK = ConvNet(
    int(np.prod(IMAGE)),
    IMAGE,
    (8,),
    gym.spaces.Discrete(ACTIONS),
    use_bias=True,
    key=jax.random.key(0),
)


def random_data(seed):
    """Draw experience of another policy, `[time, env]`, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    shape = (STEPS, ENVS)
    done = rng.random(shape) < 0.2
    return {
        "observation": rng.random((STEPS + 1, ENVS, *IMAGE), np.float32),
        "action": rng.integers(0, ACTIONS, shape),
        "log_prob": np.log(rng.uniform(0.05, 0.6, shape)).astype(np.float32),
        "reward": rng.integers(-1, 2, shape).astype(np.float32),
        "done": done,
        "valid": np.concatenate([np.ones((1, ENVS), bool), ~done[:-1]]),
    }


def train(updates):
    weights, rest = eqx.partition(NETWORK, eqx.is_array)

    def network_of(weights, key):
        network = eqx.combine(weights, rest)
        return lambda image: network(image.ravel())

    state = LEARNER.init(weights)
    for number in range(updates):
        data = random_data(number)
        observations = jnp.asarray(data["observation"])
        steps = Transition(
            observations[:-1],
            jnp.asarray(data["action"]),
            jnp.asarray(data["log_prob"]),
            jnp.zeros((STEPS, ENVS)),
            jnp.asarray(data["reward"]),
            jnp.asarray(data["done"]),
            jnp.asarray(data["valid"]),
        )
        state, weights, *_ = LEARNER.update(
            state,
            weights,
            network_of,
            lambda weights: jnp.zeros(()),
            Rollout(steps, observations[-1]),
            jnp.asarray(number / updates),
            jax.random.key(number),
        )
    return weights


class TorchNetwork(torch.nn.Module):
    """The same network; its layers are in the order of NETWORK's."""

    def __init__(self):
        super().__init__()
        nn = torch.nn
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(3, 32, 8, 4),
                nn.Conv2d(32, 64, 4, 2),
                nn.Conv2d(64, 64, 3, 1),
                nn.Linear(64, 8),
                nn.Linear(8, ACTIONS),
                nn.Linear(8, 1),
            ]
        )
        for own, layer in zip(layers_of(NETWORK), self.layers, strict=True):
            layer.weight.data = torch.tensor(np.asarray(own.weight))
            layer.bias.data = torch.tensor(np.asarray(own.bias))

    def forward(self, images):
        features = images.flatten(0, 1)
        for layer in self.layers[:3]:
            features = torch.relu(layer(features))
        features = torch.relu(self.layers[3](features.flatten(1)))
        shape = images.shape[:2]
        logits, value = (layer(features) for layer in self.layers[4:])
        return logits.view(*shape, -1), value.view(shape)


def layers_of(network):
    heads = (network.actor.logits, network.critic)
    return [*network.convolutions, *network.trunk, *heads]


def train_in_torch(updates):
    network = TorchNetwork()
    optimiser = torch.optim.RMSprop(network.parameters(), lr=4e-4, alpha=0.99, eps=0.01)
    for number in range(updates):
        optimiser.param_groups[0]["lr"] = 4e-4 * (1 - number / updates)
        data = {name: torch.as_tensor(x) for name, x in random_data(number).items()}
        for first in range(0, ENVS, 2):
            batch = {name: x[:, first : first + 2] for name, x in data.items()}
            optimiser.zero_grad()
            loss(network, batch).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 40.0)
            optimiser.step()
    return network


def loss(network, batch):
    """Sums over all steps that count; V-trace as a loop, with weights up to one."""
    logits, values = network(batch["observation"])
    log_p = torch.log_softmax(logits[:-1], -1)
    taken = log_p.gather(-1, batch["action"][..., None])[..., 0]
    counts, discount = batch["valid"].float(), 0.99 * (1 - batch["done"].float())
    with torch.no_grad():
        weight = torch.exp(taken - batch["log_prob"]).clamp(max=1.0)
        target, advantage = torch.zeros(STEPS, 2), torch.zeros(STEPS, 2)
        after = values[-1]
        correction = torch.zeros(2)
        for t in reversed(range(STEPS)):
            delta = batch["reward"][t] + discount[t] * values[t + 1] - values[t]
            correction = weight[t] * (delta + discount[t] * correction)
            advantage[t] = weight[t] * (
                batch["reward"][t] + discount[t] * after - values[t]
            )
            target[t] = after = values[t] + correction
    policy_loss = -(taken * advantage * counts).sum()
    value_loss = 0.5 * ((target - values[:-1]) ** 2 * counts).sum()
    entropy = -((log_p.exp() * log_p).sum(-1) * counts).sum()
    return policy_loss + 0.5 * value_loss - 0.01 * entropy


def test_updates_are_pytorchs():
    trained, reference = train(4), train_in_torch(4)
    for own, layer, first in zip(
        layers_of(trained), reference.layers, layers_of(NETWORK), strict=True
    ):
        moved = np.abs(np.asarray(own.weight) - np.asarray(first.weight)).max()
        assert moved > 1e-4
        for name in ("weight", "bias"):
            expected = getattr(layer, name).detach().numpy()
            close = {"rtol": 1e-3, "atol": 2e-3 * moved}
            np.testing.assert_allclose(getattr(own, name), expected, **close)
