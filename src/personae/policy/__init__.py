"""Trained agents as files, which act with NumPy alone.

from personae.policy import load

agent = load("agent.persona")
action = agent.act(observation, task="d3-000")
"""

from personae.policy.agent import Agent as Agent
from personae.policy.agent import TaskAgent as TaskAgent
from personae.policy.agent import load as load
from personae.policy.tensors import BadAgentError as BadAgentError
