"""Load an agent and play all its tasks; NumPy acts, Gymnasium is the world.

personae learn ct8 --method mask-blc --out runs/ct8
personae policy export runs/ct8 --out agent.persona
python examples/play_all.py agent.persona
"""

import sys

import gymnasium as gym

import personae.envs  # noqa: F401  which makes CT-graphs known to Gymnasium
from personae.policy import load

agent = load(sys.argv[1])
for task in agent.manifest.tasks:
    env = gym.make(task.env, **task.options)
    acting = agent.on(task.name)
    observation, _ = env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        action = acting.act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    print(f"{task.name}: {total:.2f} of {task.target:g}")
    env.close()
