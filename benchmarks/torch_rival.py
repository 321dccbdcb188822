"""The rival: the same training in straight eager PyTorch, one agent at a time.

Written independently of the library (only the pictures of the CT-graph are shared), as
one would write it by hand: modules, autograd, torch's own optimiser, a loop over steps
and mini-batches. It learns whole curricula too, and so checks the library's results:

    python benchmarks/torch_rival.py --method lc --seed 0 --out rival.json
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from personae.envs.ct_graph.images import CUE, draw_images

DEPTH, WORKERS, ROLLOUT, MINIBATCHES, TASKS = 3, 4, 128, 64, 8
DISCOUNT = LAMBDA = 0.99
LEAVES = {False: 10, True: 18}
"""Row of the first leaf's picture: without and with the reward painted in."""


def _pictures() -> Tensor:
    images = draw_images(18, seed=1)
    rewarded = images[10:].copy()
    images[10:, CUE, CUE], rewarded[:, CUE, CUE] = 0, 254
    return torch.tensor(np.concatenate([images, rewarded])).reshape(26, 144) / 255


PICTURES = _pictures()


class Graph:
    """One CT-graph of depth 3, branching 2, as a small state machine."""

    def __init__(self, goal: tuple[int, ...]):
        self.goal = goal
        self.reset()

    def reset(self) -> int:
        """Go home; return the row of its picture in `PICTURES`."""
        self.kind, self.turns = "home", ()
        return 0

    def _observe(self) -> int:
        path = int("".join(map(str, self.turns)) or "0", 2)
        match self.kind:
            case "wait":
                return 2
            case "decision":
                return 2 + 2 ** len(self.turns) + path
            case _:  # a leaf, with its reward painted in
                return LEAVES[self.turns == self.goal] + (path - 1) % 8

    def step(self, action: int) -> tuple[int, float, bool]:
        """Take an action; after the end of an episode the next one starts at once."""
        if self.kind == "home":
            self.kind = "wait"
        elif self.kind == "wait" and action == 0:
            self.kind = "leaf" if len(self.turns) == DEPTH else "decision"
        elif self.kind == "decision" and action > 0:
            self.turns += (action - 1,)
            self.kind = "wait"
        else:
            return self.reset(), 0.0, True
        at_goal = self.kind == "leaf" and self.turns == self.goal
        return self._observe(), float(at_goal), False


class Threshold(torch.autograd.Function):
    """1[s >= 0] with the gradient of the identity."""

    @staticmethod
    def forward(ctx, scores: Tensor) -> Tensor:
        """Return the mask."""
        return (scores >= 0).float()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        """Pass the gradient on."""
        return gradient


class MaskedLayer(nn.Module):
    """Fixed signed-constant weights and one score tensor per task."""

    def __init__(self, inputs: int, outputs: int, method: str):
        super().__init__()
        self.method = method
        signs = nn.Linear(inputs, outputs, bias=False).weight.detach().sign()
        self.register_buffer("weight", signs * (2 / inputs) ** 0.5)
        self.register_buffer("bank", torch.zeros(0, outputs, inputs))

    def begin_task(self) -> None:
        """Draw fresh scores; start the coefficients as published."""
        outputs, inputs = self.weight.shape
        self.scores = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.uniform_(self.scores, -(inputs**-0.5), inputs**-0.5)
        self.logits = None
        k = len(self.bank)
        if self.method == "lc" and k:
            self.logits = nn.Parameter(torch.full((k + 1,), 1 / (k + 1)))
        elif self.method == "blc" and k:
            self.logits = nn.Parameter(torch.tensor([0.5 / k] * k + [0.5]).log())

    def composed(self) -> Tensor:
        """Return the scores of the linear combination, Eq. 2 of the paper."""
        if self.logits is None:
            return self.scores
        b = torch.softmax(self.logits, 0)
        return b[-1] * self.scores + torch.tensordot(b[:-1], self.bank, 1)

    def end_task(self) -> None:
        """Store the composed scores in the bank."""
        self.bank = torch.cat([self.bank, self.composed().detach()[None]])

    def forward(self, slot: int | None = None) -> Tensor:
        """Return the masked weights of the current task, or of one in the bank."""
        scores = self.composed() if slot is None else self.bank[slot]
        return self.weight * Threshold.apply(scores)


class Network(nn.Module):
    """Three hidden layers of 200, an actor and a critic head."""

    def __init__(self, method: str):
        super().__init__()
        shapes = [(144 + TASKS, 200), (200, 200), (200, 200), (200, 3), (200, 1)]
        self.layers = nn.ModuleList(MaskedLayer(*shape, method) for shape in shapes)

    def masked(self, slot: int | None = None) -> list[Tensor]:
        """Return the masked weights of all layers."""
        return [layer(slot) for layer in self.layers]


def apply(weights: list[Tensor], x: Tensor) -> tuple[Categorical, Tensor]:
    """Return policy and value."""
    *trunk, actor, critic = weights
    for weight in trunk:
        x = torch.relu(nn.functional.linear(x, weight))
    logits = nn.functional.linear(x, actor)
    policy = Categorical(logits=logits, validate_args=False)
    return policy, nn.functional.linear(x, critic).squeeze(-1)


def encode(rows: Sequence[int], task: int) -> Tensor:
    """Return pictures with the task's one-hot label."""
    label = torch.zeros(len(rows), TASKS)
    label[:, task] = 1
    return torch.cat([PICTURES[list(rows)], label], 1)


@dataclass
class Rollout:
    """The data of a rollout, `[time, worker]`."""

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    dones: Tensor
    last_value: Tensor


class Training:
    """One agent on one task."""

    def __init__(self, network: Network, task: int):
        self.network, self.task = network, task
        goal = list(product(range(2), repeat=DEPTH))[task]
        self.worlds = [Graph(goal) for _ in range(WORKERS)]
        self.x = encode([world.reset() for world in self.worlds], task)
        for layer in network.layers:
            layer.begin_task()
        self.parameters = list(network.parameters())
        self.optimiser = torch.optim.RMSprop(self.parameters, lr=1.5e-4)

    def iterate(self) -> float:
        """Collect a rollout, learn from it; return the training return."""
        rollout = self.collect()
        self.update(rollout)
        episodes = rollout.dones.sum(0).clamp(min=1)
        return float((rollout.rewards.sum(0) / episodes).mean())

    @torch.no_grad()
    def collect(self) -> Rollout:
        """Act for one rollout."""
        rows, weights = [], self.network.masked()
        for _ in range(ROLLOUT):
            policy, value = apply(weights, self.x)
            action = policy.sample()
            moves = zip(self.worlds, action.tolist(), strict=True)
            pictures, reward, ended = zip(*(w.step(a) for w, a in moves), strict=True)
            rows.append(
                (
                    self.x,
                    action,
                    policy.log_prob(action),
                    value,
                    torch.tensor(reward),
                    torch.tensor(ended, dtype=torch.float32),
                )
            )
            self.x = encode(pictures, self.task)
        last_value = apply(weights, self.x)[1]
        return Rollout(*map(torch.stack, zip(*rows, strict=True)), last_value)

    def update(self, rollout: Rollout) -> None:
        """Make one pass over the rollout in mini-batches."""
        advantages, returns = estimate(rollout)
        flat = [
            values.flatten(0, 1)
            for values in (
                rollout.inputs,
                rollout.actions,
                rollout.log_probs,
                advantages,
                returns,
            )
        ]
        for batch in torch.randperm(WORKERS * ROLLOUT).chunk(MINIBATCHES):
            x, action, log_prob, advantage, target = (v[batch] for v in flat)
            policy, value = apply(self.network.masked(), x)
            ratio = (policy.log_prob(action) - log_prob).exp()
            clipped = ratio.clamp(0.9, 1.1)
            surrogate = torch.minimum(ratio * advantage, clipped * advantage).mean()
            value_loss = 0.5 * (target - value).pow(2).mean()
            loss = value_loss - surrogate - 0.1 * policy.entropy().mean()
            self.optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters, 5.0)
            self.optimiser.step()


def estimate(rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Return normalised advantages and discounted returns."""
    advantages, returns = [], []
    advantage, value = torch.zeros(WORKERS), rollout.last_value
    total = rollout.last_value
    for t in reversed(range(ROLLOUT)):
        discount = DISCOUNT * (1 - rollout.dones[t])
        delta = rollout.rewards[t] + discount * value - rollout.values[t]
        advantage = delta + discount * LAMBDA * advantage
        total = rollout.rewards[t] + discount * total
        value = rollout.values[t]
        advantages.insert(0, advantage)
        returns.insert(0, total)
    a = torch.stack(advantages)
    return (a - a.mean()) / (a.std() + 1e-6), torch.stack(returns)


@torch.no_grad()
def evaluate(network: Network, current: int) -> list[float]:
    """Play one greedy episode per task; tasks to come use the first mask."""
    returns = []
    for task, goal in enumerate(product(range(2), repeat=DEPTH)):
        learned_slot = task if task < current else 0
        is_current = task == current or current == 0
        weights = network.masked(None if is_current else learned_slot)
        world = Graph(goal)
        x, total, ended = encode([world.reset()], task), 0.0, False
        while not ended:
            action = int(apply(weights, x)[0].logits.argmax())
            picture, reward, ended = world.step(action)
            x, total = encode([picture], task), total + reward
        returns.append(total)
    return returns


def main() -> None:
    """Learn a curriculum, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=("ri", "lc", "blc"), default="lc")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=200, help="per task")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    network = Network(options.method)
    training, evaluations, start = [], [], time.perf_counter()
    for task in range(TASKS):
        agent = Training(network, task)
        for iteration in range(options.iterations):
            training.append(agent.iterate())
            if (iteration + 1) % 10 == 0:
                evaluations.append(evaluate(network, task))
        for layer in network.layers:
            layer.end_task()
        result = {
            "method": options.method,
            "seed": options.seed,
            "seconds": time.perf_counter() - start,
            "total_evaluation": float(np.sum(evaluations)),
            "evaluations": evaluations,
            "training_returns": training,
        }
        options.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
