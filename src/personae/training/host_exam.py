"""Episodes of one task in which all agents are judged."""

from typing import TYPE_CHECKING, Any

import numpy as np

from personae.envs.tally import MEASURES, Tally
from personae.training.host_stage import end_episodes
from personae.training.host_tasks import Exam

if TYPE_CHECKING:
    from personae.training.host_play import Players


class Room:
    """Where all agents sit one exam."""

    def __init__(self, players: "Players", exam: Exam, slots: int, episodes: int):
        self.exam = exam
        self._players, self._fit = players, players.programs.tasks.fit
        self._worlds = players.judge(exam, slots)
        self._recall = players.make_recall(slots)
        self._tally = Tally(len(players.seeds) * slots)
        self._episodes = episodes
        self._wanted = -(-episodes // slots)
        self._played: list[list[np.ndarray]] = [[] for _ in self._tally.collected]
        self._shown = self._worlds.start()

    @property
    def seen(self) -> Any:
        """What networks see."""
        return self._players.seen(self.exam.task, self._shown, self._recall)

    @property
    def over(self) -> bool:
        """Whether every episode has been played."""
        return all(len(played) >= self._wanted for played in self._played)

    def send(self, actions: np.ndarray) -> None:
        """Act in each environment, without waiting for the answers."""
        self._worlds.send(self._fit.act(self.exam.task, actions))
        self._sent = actions

    def receive(self) -> None:
        """Take in what the environments answer."""
        step = self._worlds.receive()
        self._shown = step.observations
        if self._recall is not None:
            self._recall.note(self._sent, step.rewards)
            self._recall.forget(step)
        brought = end_episodes(self._tally, step)
        for slot in np.flatnonzero(step.terminated | step.truncated):
            self._played[slot].append(brought[:, slot])

    @property
    def brought(self) -> np.ndarray:
        """What episodes brought, `[measure, agent, episode]`."""
        played = np.array([each[: self._wanted] for each in self._played])
        by_agent = played.reshape(len(self._players.seeds), -1, len(MEASURES))
        counted = by_agent[:, : self._episodes]
        return np.moveaxis(counted, -1, 0).astype(np.float32)
