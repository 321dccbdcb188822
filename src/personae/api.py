"""The verbs of the library: what the command line does, from Python."""

import dataclasses
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from personae.curricula import Curriculum, find_curriculum
from personae.errors import UsageError, nearest_match_error, require
from personae.launch.display import JobsDisplay
from personae.launch.jobs import Job, learn_jobs
from personae.launch.ray_connection import acting_on_ray
from personae.launch.ray_jobs import learn_on_ray
from personae.policy.jax.warm_start import digest
from personae.report import Comparison, Record, compare_records, read_record
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.runs.resume import check_same_config
from personae.training import Callback
from personae.training.config import RunConfig
from personae.training.export import resolve_warm_start
from personae.training.loop import start


def learn(
    curriculum: str | Path | Curriculum,
    method: str = "mask-blc",
    *,
    seeds: int | Sequence[int] = 1,
    steps_per_task: int | None = None,
    out: str | Path,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    log_to: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    warm_start: str | Path | None = None,
    devices: int | None = None,
    on: str | None = None,
) -> Record:
    """Learn a curriculum, task after task, with one agent per seed.

    Args:
        curriculum: A registered name such as "ct8", the path of a TOML or JSON file, or
            a curriculum.
        method: A name of `personae.METHODS`, such as "mask-blc" or "ewc-mh".
        seeds: How many agents, with seeds 0, 1, ...; or the seeds themselves. All
            agents are trained in one program.
        steps_per_task: Environment steps on each task, if not the curriculum's own;
            rounded up to whole iterations.
        out: Directory to write to.
        resume: Go on with the run in `out`, or start it if there is none.
        overwrite: Delete the run in `out` first.
        quiet: Show no progress.
        log_to: Where else the metrics go: "tensorboard", "wandb" (extras of the same
            names).
        callbacks: Told of evaluations and of the ends of tasks, to log what you like
            or to end a task early (`personae.Callback`).
        earlier: An agent to go on from, for mask methods: a file that was exported with
            its scores, or the directory of a run, whose first agent it is. New masks
            are then composed with those it has learned, on its backbone.
        devices: How many devices (GPUs, or cores as JAX has them) agents are spread
            over, if not all there are. On CPUs what is learned does not depend on it
            as long as there are two.
        on: A Ray cluster on which `hosting.actors` actors act, for IMPALA in
            environments outside JAX: "ray" for one of this machine, or the address of
            one, such as "ray://host:10001".

    Returns:
        The record of the run, as `personae.read_record(out)` gives it at any time.
    """
    config = make_config(curriculum, method, seeds, steps_per_task)
    config.prepare_backend(devices)
    directory = RunDirectory(out)
    learned_before = resolve_warm_start(warm_start, directory, resume)
    if learned_before is not None:
        config = dataclasses.replace(config, warm_start=digest(learned_before))
    acting = nullcontext() if on is None else acting_on_ray(config, on)
    with acting as make_players:
        start(
            config,
            directory,
            make_reporter(quiet),
            resume=resume,
            overwrite=overwrite,
            log_to=log_to,
            callbacks=callbacks,
            warm_start=learned_before,
            devices=devices,
            make_players=make_players,
        )
    return read_record(out)


def compare(
    curriculum: str | Path | Curriculum,
    methods: Sequence[str],
    *,
    seeds: int | Sequence[int] = 5,
    steps_per_task: int | None = None,
    out: str | Path,
    reference: str | None = None,
    jobs: int = 1,
    quiet: bool = False,
    on: str | None = None,
    store: str | None = None,
) -> Comparison:
    """Learn a curriculum with several methods and put them beside each other.

    Each method has a directory of its own in `out`. Runs that are finished are taken as
    they are, runs that were stopped go on, and what is missing is started. Single-task
    experts are trained too, as forward transfer is measured against them.

    Args:
        curriculum: As for `learn`.
        methods: Names of `personae.METHODS`.
        seeds: As for `learn`.
        steps_per_task: As for `learn`.
        out: Directory that holds one run per method.
        reference: The method that the others are tested against; "mask-lc", as in the
            paper, or else the first.
        jobs: How many runs at a time, each in a process of its own if more than one;
            these know the environments of Personae and its plug-ins, not those that
            this program has registered.
        quiet: Show no progress.
        on: A Ray cluster to make all runs on: "ray" for one of this machine, or the
            address of one, such as "ray://host:10001".
        store: An fsspec URL that all its nodes reach ("s3://bucket/runs"), if they do
            not share `out`; what is finished is brought to `out`.
    """
    plan = plan_comparison(
        curriculum,
        methods,
        seeds=seeds,
        steps_per_task=steps_per_task,
        out=out,
        reference=reference,
    )
    learn_all(plan.jobs, jobs, quiet, on, store)
    return plan.result()


@dataclass(frozen=True)
class Plan:
    """A comparison to be made."""

    jobs: list[Job]
    reference: str

    def result(self) -> Comparison:
        """Return the comparison, once all runs are made."""
        records = [read_record(job.out) for job in self.jobs]
        return compare_records(records, self.reference)


def plan_comparison(
    curriculum: str | Path | Curriculum,
    methods: Sequence[str],
    *,
    seeds: int | Sequence[int],
    out: str | Path,
    steps_per_task: int | None = None,
    reference: str | None = None,
    within: str = "",
) -> Plan:
    """Say which runs a comparison needs; what cannot work is an error right here.

    Args:
        curriculum: As for `compare`, and so are the others.
        methods: As for `compare`.
        seeds: As for `compare`.
        out: As for `compare`.
        steps_per_task: As for `compare`.
        reference: As for `compare`.
        within: What stands before the methods' names while their runs go on.
    """
    tested = [method for method in methods if method != "expert"]
    require(len(tested) > 0, "there is no method to compare: experts are the yardstick")
    if reference is None:
        reference = "mask-lc" if "mask-lc" in tested else tested[0]
    if reference not in tested:
        raise nearest_match_error("reference", reference, tested)
    jobs = []
    for method in dict.fromkeys([*tested, "expert"]):
        config = make_config(curriculum, method, seeds, steps_per_task)
        directory = RunDirectory(Path(out) / method)
        if directory.exists():
            check_same_config(directory, config.to_plain())
        jobs.append(Job(within + method, config, directory.root))
    return Plan(jobs, reference)


def learn_all(
    jobs: Sequence[Job],
    at_once: int,
    quiet: bool = False,
    on: str | None = None,
    store: str | None = None,
) -> None:
    """Make several runs, one after another, some at a time, or all on a cluster."""
    require(at_once > 0, f"jobs must be 1 or more, not {at_once}")
    require(store is None or on is not None, "--store is for a cluster: say --on")
    if on is not None:
        learn_on_ray(jobs, on, quiet, store)
        return
    if at_once > 1:
        learn_jobs(jobs, at_once, JobsDisplay([job.name for job in jobs], quiet))
        return
    for job in jobs:
        if not quiet:
            print(f"{job.name}:", file=sys.stderr, flush=True)
        job.config.prepare_backend()
        directory = RunDirectory(job.out)
        start(job.config, directory, make_reporter(quiet), resume=True)


def make_config(
    curriculum: str | Path | Curriculum,
    method: str,
    seeds: int | Sequence[int],
    steps_per_task: int | None = None,
) -> RunConfig:
    """Resolve what was asked for into a complete configuration."""
    if not isinstance(curriculum, Curriculum):
        curriculum = find_curriculum(str(curriculum))
    if steps_per_task is not None:
        if steps_per_task < 1:
            raise UsageError(f"steps per task must be positive, not {steps_per_task}")
        tasks = tuple(dataclasses.replace(t, steps=None) for t in curriculum.tasks)
        curriculum = dataclasses.replace(
            curriculum, steps_per_task=steps_per_task, tasks=tasks
        )
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(map(int, seeds))
    return RunConfig(curriculum, method, chosen)
