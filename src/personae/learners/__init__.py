"""Reinforcement-learning algorithms that train any method's trainable."""

from personae.learners.contract import Learner as Learner
from personae.learners.impala import IMPALA as IMPALA
from personae.learners.ppo import PPO as PPO
