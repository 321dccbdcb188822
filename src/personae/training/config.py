"""The configuration of a run."""

from dataclasses import dataclass, field

from personae.backend import prepare_backend
from personae.curricula.curriculum import LEARNERS, Curriculum
from personae.curricula.schedule import Schedule
from personae.errors import nearest_match_error, require
from personae.methods.contract import Method
from personae.methods.registry import METHODS, make_method, unread_settings
from personae.runs.directory import RunDirectory
from personae.runs.warm_start import apply_warm_start, read_warm_start
from personae.serialise import LEFT_OUT, PlainData, to_plain


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    curriculum: Curriculum
    method: str
    seeds: tuple[int, ...]
    warm_start: str | None = field(default=None, metadata=LEFT_OUT)
    """Digest of the agent that the run goes on from (warm-start.persona), if any."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise nearest_match_error("method", self.method, METHODS)
        learner = METHODS[self.method].learner
        require(
            learner in (None, self.curriculum.learner),
            f"{self.method} is fine-tuning with the learner {learner}, but "
            f"{self.curriculum.id} has the learner {self.curriculum.learner} "
            "(--learner)",
        )
        self._check_replay()
        outside = [seed for seed in self.seeds if not 0 <= seed < 2**32]
        require(not outside, f"seeds must lie in 0..2**32-1, not {outside}")
        different = len(set(self.seeds)) == len(self.seeds) > 0
        require(
            different,
            f"seeds must be one or more different numbers, not {list(self.seeds)}",
        )
        self.make_schedule()  # which finds chunks that do not fit the method
        tasks, phases = self.curriculum.tasks, len(self.make_method().traits.phases)
        early = [task.name for task in tasks if task.stop_at is not None]
        require(
            not early or phases == 1,
            f"{self.method} trains a task in {phases} phases, so it cannot stop at an "
            f"evaluation (stop_at of task {', '.join(early)})",
        )

    def _check_replay(self) -> None:
        """Refuse a replay that the learner cannot learn from, or too small a one."""
        replay, learner = self.make_method().traits.replay, self.curriculum.learner
        if replay is None:
            return
        chosen = self.curriculum.chosen_learner
        able = [name for name in LEARNERS if getattr(self.curriculum, name).off_policy]
        require(
            chosen.off_policy or not replay.off_policy,
            f"{self.method} learns again from experience of long ago, which {learner} "
            "cannot: its loss holds for the policy that has just acted. Choose "
            f"--learner {' or '.join(able)}",
        )
        least = chosen.num_envs * chosen.rollout_length
        require(
            replay.frames >= least,
            f"{self.method} has a replay of {replay.frames} frames (frames), less than "
            f"the {least} of one rollout: {chosen.num_envs} unrolls (num_envs) of "
            f"{chosen.rollout_length} steps (rollout_length)",
        )
        unrolls, batches = replay.unrolls(chosen.num_envs), chosen.batches_per_rollout
        steps = unrolls * (1 if chosen.off_policy else chosen.rollout_length)
        require(
            replay.share == 0 or (unrolls > 0 and steps % batches == 0),
            f"{self.method} is to replay {replay.share} unrolls for each new one "
            f"(share): {unrolls} for {chosen.num_envs} (num_envs), which cannot be cut "
            f"into the {batches} batches of a rollout",
        )

    def prepare_backend(self, devices: int | None = None) -> None:
        """Prepare JAX for the run, on so many devices."""
        # Convolutions are large enough to share cores; other networks are not.
        images = self.curriculum.network.convolutions is not None
        prepare_backend(len(self.seeds), images, devices)

    def make_method(self) -> Method:
        """Return the method, with its settings."""
        return make_method(self.method, self.curriculum.method_options)

    def make_schedule(self) -> Schedule:
        """Return the schedule of visits, chunks and phases."""
        return Schedule(self.curriculum, self.make_method().traits.phases)

    def to_plain(self) -> PlainData:
        """Return plain data, without settings of other methods and learners."""
        data = dict(to_plain(self))
        # Settings that nothing reads must not keep a run from being resumed.
        learner = self.curriculum.learner
        for name in {*unread_settings(self.method), *LEARNERS} - {learner}:
            data["curriculum"].pop(name, None)
        data["curriculum"][learner] = to_plain(self.curriculum.chosen_learner)
        settings = METHODS[self.method].settings
        if settings is not None:
            data["curriculum"][settings] = to_plain(getattr(self.curriculum, settings))
        return data


def method_of(
    config: RunConfig, directory: RunDirectory, warm_start: bytes | None = None
) -> Method:
    """Return a run's method, with the agent that the run starts from, if there is one.

    Args:
        config: The run's configuration.
        directory: The run's directory, which keeps that agent.
        warm_start: The agent, if the directory does not have it yet.
    """
    method = config.make_method()
    if config.warm_start is None:
        return method
    data = read_warm_start(directory) if warm_start is None else warm_start
    return apply_warm_start(method, config.curriculum, data, config.warm_start)
