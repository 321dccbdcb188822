"""Episodes of every task in which all agents are judged, all at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from personae.envs.adapters.envpool import SelfResettingEnvs
from personae.envs.episode_stats import MEASURES, EpisodeStats
from personae.envs.vector import SeededEnvs
from personae.rollouts.host_tasks import EVALUATION, Exam, episode_seed

if TYPE_CHECKING:
    from personae.rollouts.vector_actors import Players


ActIn = Callable[[Sequence[Exam]], Callable[[Any, int], Any]]
"""Gives what acts in some exams at once: on what is seen there, at a time."""


class Judge:
    """The environments of all exams, made once; one evaluation at a time is in them."""

    def __init__(self, players: "Players", number: int):
        self._players, self._number = players, number
        self._rooms: dict[Exam, SeededEnvs | SelfResettingEnvs] = {}

    def room(self, exam: Exam, slots: int) -> SeededEnvs | SelfResettingEnvs:
        """Return the environments of an exam, so many for each agent.

        They are never processes of their own: there would be one for each task. What
        starts episodes by itself does so from a seed of each judge's own.
        """
        seeds, tasks = self._players.seeds, self._players.programs.tasks

        def seed_of(slot: int, episode: int) -> int:
            agent, place = divmod(slot, slots)
            where = (seeds[agent], exam.task, place, episode)
            return episode_seed(EVALUATION, *where, *([1] if exam.unseen else []))

        if exam not in self._rooms:
            self._rooms[exam] = tasks.make_worlds(
                exam.task,
                len(seeds) * slots,
                seed_of,
                stepping="sync",
                unseen=exam.unseen,
                number=self._number,
            )
        return self._rooms[exam]

    def close(self) -> None:
        """End them."""
        for worlds in self._rooms.values():
            worlds.close()
        self._rooms = {}


class Exams:
    """All agents in all exams; seats are in order of exam, agent and slot.

    What every seat needs at every step is done for all of them together. Networks look
    at exams that are not over, and at others only until half of what they look at is:
    an exam may last six times as long as most, and for each number of exams programs
    are compiled anew.
    """

    def __init__(
        self,
        players: "Players",
        judge: Judge,
        exams: Sequence[Exam],
        act_in: ActIn,
        slots: int,
        episodes: int,
    ):
        self._exams, self._episodes, self._act_in = exams, episodes, act_in
        self._watched = list(range(len(exams)))
        self._policy = act_in(exams)
        self._fit = players.programs.tasks.fit
        self._rooms = [judge.room(exam, slots) for exam in exams]
        self._form = len(exams), len(players.seeds), slots
        self._seats = len(players.seeds) * slots
        seats = len(exams) * self._seats
        self._recall = players.make_recall(len(exams) * slots)
        self._tally = EpisodeStats(seats)
        self._wanted = -(-episodes // slots)
        self._left = np.full(seats, self._wanted)
        self.unfinished = list(range(len(exams)))
        """The exams of which episodes are left."""
        self._played: list[list[np.ndarray]] = [[] for _ in range(seats)]
        shown = [
            self._fit.to_network(exam.task, room.start())
            for exam, room in zip(exams, self._rooms, strict=True)
        ]
        self._shown = np.concatenate(shown)

    @property
    def _seen(self) -> Any:
        """What networks see, `[exam, agent, slot, ...]`."""
        seen: Any = self._recall.beside(self._shown) if self._recall else self._shown
        return jax.tree.map(
            lambda x: x.reshape(*self._form, *x.shape[1:])[self._watched], seen
        )

    def act(self, t: int) -> None:
        """Act in the exams that are not over, all at the same time."""
        flat = self._decide(t)
        playing = [(e, self._rooms[e], self._where(e)) for e in self.unfinished]
        for exam, room, seats in playing:
            room.send(self._fit.to_env(self._exams[exam].task, flat[seats]))
        rewards = np.zeros(len(flat))
        ended, valid = np.zeros((2, len(flat)), bool)
        success = np.full(len(flat), np.nan)
        for exam, room, seats in playing:
            step = room.receive()
            task = self._exams[exam].task
            self._shown[seats] = self._fit.to_network(task, step.observations)
            rewards[seats], valid[seats] = step.rewards, step.valid
            ended[seats] = step.terminated | step.truncated
            if step.success is not None:
                success[seats] = step.success
        if self._recall is not None:
            self._recall.note(flat, rewards)
            self._recall.forget(ended | ~valid)
        self._tally.count(rewards, success, valid)
        self._end(ended)

    def _decide(self, t: int) -> np.ndarray:
        """Return what is done in each seat; nothing counts in exams that are over."""
        left = self.unfinished
        while len(left) <= len(self._watched) // 2:
            over = [exam for exam in self._watched if exam not in left]
            self._watched = [*left, *over][: len(self._watched) // 2]
            self._policy = self._act_in([self._exams[e] for e in self._watched])
        chosen = np.asarray(self._policy(self._seen, t))
        actions = np.zeros((*self._form, *chosen.shape[3:]), chosen.dtype)
        actions[self._watched] = chosen
        return actions.reshape(-1, *chosen.shape[3:])

    def _where(self, exam: int) -> slice:
        return slice(exam * self._seats, (exam + 1) * self._seats)

    def _end(self, ended: np.ndarray) -> None:
        brought = self._tally.end(ended)
        if not ended.any():
            return
        self._left -= ended
        for seat in np.flatnonzero(ended):
            self._played[seat].append(brought[:, seat])
        left = (self._left.reshape(len(self._exams), -1) > 0).any(1)
        self.unfinished = np.flatnonzero(left).tolist()

    @property
    def brought(self) -> np.ndarray:
        """What episodes brought, `[measure, agent, exam, episode]`."""
        played = np.array([each[: self._wanted] for each in self._played])
        exams, agents, _ = self._form
        by_agent = played.reshape(exams, agents, -1, len(MEASURES))
        counted = by_agent[:, :, : self._episodes]
        return counted.transpose(3, 1, 0, 2).astype(np.float32)
