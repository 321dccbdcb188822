"""Updates of an iteration against the PyTorch program (skipped without torch)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import personae

torch = pytest.importorskip("torch", reason="the parity tests need torch")
torch_rival = pytest.importorskip("torch_rival")
from parts import Situation  # noqa: E402

LENGTH, MINIBATCHES = 24, 12


def layers(tree):
    """Return the weights of a network-like tree in the rival's order."""
    heads = [tree.actor.logits.weight, tree.critic.weight]
    return [np.array(w) for w in [*(t.weight for t in tree.trunk), *heads]]


def encoded(situation, observations):
    """Return the network's inputs: scaled images and the label of the first task."""
    encode = situation.programs.setting.encoder
    flat = observations.reshape(-1, *observations.shape[-2:])
    inputs = jax.vmap(encode, (0, None))(flat, jnp.asarray(0))
    return tensor(inputs.reshape(*observations.shape[:-2], -1))


def tensor(array):
    return torch.tensor(np.array(array))


def test_updates_from_one_rollout_are_the_rivals(monkeypatch):
    """A dozen: among many more some score crosses 0 here and not there, by rounding."""
    ct8 = personae.find_curriculum("ct8")
    ppo = replace(ct8.ppo, rollout_length=LENGTH, num_minibatches=MINIBATCHES)
    monkeypatch.setattr(personae, "find_curriculum", lambda _: replace(ct8, ppo=ppo))
    monkeypatch.setattr(torch_rival, "ROLLOUT", LENGTH)
    monkeypatch.setattr(torch_rival, "MINIBATCHES", MINIBATCHES)
    situation = Situation("mask-ri", num_learned=0, num_agents=1)
    rollouts = situation.collect()()
    trained = situation.update()()[1]
    agent, rollout, trained = jax.tree.map(
        lambda leaf: leaf[0], (situation.agents, rollouts, trained)
    )
    # The order in which the learner shuffled the samples.
    _, loop_key = jax.random.split(agent.live.key)
    shuffle_key, _ = jax.random.split(jax.random.split(loop_key, 1)[0])
    order = np.array(jax.random.permutation(shuffle_key, 4 * LENGTH))
    monkeypatch.setattr(torch, "randperm", lambda _: torch.tensor(order))

    rival = torch_rival.Training(torch_rival.Network("ri"), task=0)
    before = layers(agent.live.trainable.scores)
    fixed = layers(agent.method.backbone)
    for layer, weight, scores in zip(rival.network.layers, fixed, before, strict=True):
        layer.weight.copy_(tensor(weight))
        layer.scores.data.copy_(tensor(scores))
    steps = rollout.steps
    with torch.no_grad():
        last = encoded(situation, rollout.last_observation)
        _, last_value = torch_rival.apply(rival.network.masked(), last)
    rival.update(
        torch_rival.Rollout(
            encoded(situation, steps.observation),
            tensor(steps.action).long(),
            tensor(steps.log_prob),
            tensor(steps.value),
            tensor(steps.reward),
            tensor(steps.done).float(),
            last_value,
        )
    )
    after = layers(trained.scores)
    for layer, old, actual in zip(rival.network.layers, before, after, strict=True):
        rival_scores = layer.scores.detach().numpy()
        assert np.abs(actual - old).mean() > 5e-4
        assert np.abs(actual - rival_scores).mean() < 1e-7
