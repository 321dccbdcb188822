"""Load an agent and play all its tasks, with NumPy and Gymnasium only.

personae learn ct8 --method mask-blc --out runs/ct8
personae policy export runs/ct8 --out agent.persona
python examples/play_all.py agent.persona
"""

import sys

import gymnasium as gym

import personae.envs  # noqa: F401  (registers CT-graphs with Gymnasium)
from personae.policy import load

agent = load(sys.argv[1])
for task in agent.manifest.tasks:
    env = gym.make(task.env, **task.options)
    policy = agent.on(task.name)
    observation, _ = env.reset(seed=0)
    total, is_over = 0.0, False
    while not is_over:
        action = policy.act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, is_over = total + float(reward), terminated or truncated
    print(f"{task.name}: {total:.2f} of {task.target:g}")
    env.close()
