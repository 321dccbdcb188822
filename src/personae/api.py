"""The verbs of the library: the commands of the command line as functions."""

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

    Example: personae.learn("ct8", "mask-blc", seeds=5, out="runs/ct8-blc")

    Args:
        curriculum: A registered name such as "ct8", the path of a TOML or JSON file, or
            a curriculum.
        method: A name of `personae.METHODS`, such as "mask-blc" or "ewc-mh".
        seeds: The number of agents, with the seeds 0, 1, ...; or the seeds themselves.
        steps_per_task: Environment steps on each task, if not the curriculum's own;
            rounded up to whole iterations.
        out: The directory to write to.
        resume: Continue the run in `out`, or start it if there is none.
        overwrite: Delete the run in `out` first.
        quiet: Show no progress.
        log_to: Other places to write metrics to: "tensorboard", "wandb".
        callbacks: Objects that are called at evaluations and at the ends of tasks, to
            log values or to end a task early (`personae.Callback`).
        warm_start: An agent to continue from, for mask methods: a file with its scores,
            or the directory of a run, whose first agent is taken. New masks are
            composed with its masks, on its backbone.
        devices: The number of devices (GPUs, or cores) to spread agents over; all by
            default. On CPUs the results do not depend on it if it is at least two.
        on: A Ray cluster on which `hosting.actors` actors act, for IMPALA in
            environments outside JAX: "ray" for one on this machine, or the address of
            one, such as "ray://host:10001".

    Returns:
        The record of the run. `personae.read_record(out)` reads it again at any time.

    Raises:
        UsageError: If an argument is wrong, or `out` holds a run that is neither to be
            resumed nor overwritten.
        PersonaeError: If the run cannot continue, as on a full disk.
    """
    config = make_config(curriculum, method, seeds, steps_per_task)
    config.prepare_backend(devices)
    directory = RunDirectory(out)
    warm_start_data = resolve_warm_start(warm_start, directory, resume)
    config = _with_digest(config, warm_start_data)
    with nullcontext() if on is None else acting_on_ray(config, on) as make_actors:
        start(
            config,
            directory,
            make_reporter(quiet),
            resume=resume,
            overwrite=overwrite,
            log_to=log_to,
            callbacks=callbacks,
            warm_start=warm_start_data,
            devices=devices,
            make_actors=make_actors,
        )
    return read_record(out)


def _with_digest(config: RunConfig, warm_start: bytes | None) -> RunConfig:
    """Return a configuration that names the agent of a warm start, if there is one."""
    # A run that starts from another agent is another run: --resume must refuse it.
    if warm_start is None:
        return config
    return dataclasses.replace(config, warm_start=digest(warm_start))


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
    """Learn a curriculum with several methods and compare them.

    Each method has a directory of its own in `out`. Finished runs are used without
    change, stopped runs are continued, and missing runs are started. Single-task
    experts are trained too, as forward transfer is measured against them.

    Example: personae.compare("ct8", ["mask-lc", "ewc-mh"], out="runs/ct8")

    Args:
        curriculum: As for `learn`.
        methods: Names of `personae.METHODS`.
        seeds: As for `learn`.
        steps_per_task: As for `learn`.
        out: The directory that holds one run per method.
        reference: The method that the others are tested against. By default it is
            "mask-lc", as in the paper, or else the first method.
        jobs: The number of runs at a time. If there are several, each has a process of
            its own, which knows the environments of Personae and its plug-ins, but not
            those that this program has registered.
        quiet: Show no progress.
        on: A Ray cluster for all runs: "ray" for one on this machine, or the address of
            one, such as "ray://host:10001".
        store: An fsspec URL that all nodes of the cluster reach ("s3://bucket/runs"),
            if they do not share `out`. Finished runs are copied to `out`.

    Returns:
        The records of all methods, with their measures and tests.

    Raises:
        UsageError: If an argument is wrong, or if a run in `out` has other settings.
        PersonaeError: If a run fails.
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
    """The runs that a comparison needs."""

    jobs: list[Job]
    """One job per method, and one for the experts."""
    reference: str
    """The method that the others are tested against."""

    def result(self) -> Comparison:
        """Return the comparison; all runs must have been made."""
        # From the files, as other processes or machines may have made the runs.
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
    prefix: str = "",
) -> Plan:
    """Return the runs that a comparison needs, without making them.

    Example: plan_comparison("ct8", ["mask-lc"], seeds=5, out="runs/ct8").jobs

    Args:
        curriculum: As for `compare`.
        methods: As for `compare`.
        seeds: As for `compare`.
        out: As for `compare`.
        steps_per_task: As for `compare`.
        reference: As for `compare`.
        prefix: Text before the method in the names of the jobs.

    Returns:
        The plan, whose jobs `learn_all` takes.

    Raises:
        UsageError: If an argument is wrong, or if a run in `out` has other settings:
            all that can be checked is checked before any run starts.
    """
    # Experts are added below, whether or not they were asked for.
    names = [method for method in methods if method != "expert"]
    require(
        len(names) > 0,
        "there is no method to compare: experts are only the yardstick",
    )
    if reference is None:
        reference = "mask-lc" if "mask-lc" in names else names[0]
    if reference not in names:
        raise nearest_match_error("reference", reference, names)
    jobs = []
    # Each method once, as two runs cannot share a directory.
    for method in dict.fromkeys([*names, "expert"]):
        config = make_config(curriculum, method, seeds, steps_per_task)
        directory = RunDirectory(Path(out) / method)
        if directory.exists():
            # Now, and not hours later, when it is the turn of this run.
            check_same_config(directory, config.to_plain())
        jobs.append(Job(prefix + method, config, directory.root))
    return Plan(jobs, reference)


def learn_all(
    jobs: Sequence[Job],
    parallel_jobs: int,
    quiet: bool = False,
    on: str | None = None,
    store: str | None = None,
) -> None:
    """Make several runs: one after another, some at a time, or all on a cluster.

    Example: learn_all(plan_comparison("ct8", ["mask-lc"], seeds=5, out="ct8").jobs, 2)

    Args:
        jobs: The runs. Finished ones are not made again, and stopped ones continue.
        parallel_jobs: The number of runs at a time, on this machine.
        quiet: Show no progress.
        on: A Ray cluster, as for `compare`.
        store: An fsspec URL, as for `compare`.

    Raises:
        UsageError: If an argument is wrong, or `store` is given without `on`.
        PersonaeError: If a run fails.
    """
    require(parallel_jobs > 0, f"jobs must be 1 or more, not {parallel_jobs}")
    require(store is None or on is not None, "--store is for a cluster: add --on")
    if on is not None:
        learn_on_ray(jobs, on, quiet, store)
        return
    if parallel_jobs > 1:
        display = JobsDisplay([job.name for job in jobs], quiet)
        learn_jobs(jobs, parallel_jobs, display)
        return
    # A single run at a time stays in this process, where the environments that the
    # user's program has registered are known.
    for job in jobs:
        if not quiet:
            print(f"{job.name}:", file=sys.stderr, flush=True)
        job.config.prepare_backend()
        directory = RunDirectory(job.out)
        # Always resumed: stopped runs continue, and finished ones stay as they are.
        start(job.config, directory, make_reporter(quiet), resume=True)


def make_config(
    curriculum: str | Path | Curriculum,
    method: str,
    seeds: int | Sequence[int],
    steps_per_task: int | None = None,
) -> RunConfig:
    """Return the complete configuration of a run.

    Example: make_config("ct8", "mask-lc", seeds=5).to_plain()

    Args:
        curriculum: As for `learn`.
        method: As for `learn`.
        seeds: As for `learn`.
        steps_per_task: As for `learn`.

    Raises:
        UsageError: If an argument is wrong, or the settings do not fit the method.
    """
    if not isinstance(curriculum, Curriculum):
        curriculum = find_curriculum(str(curriculum))
    if steps_per_task is not None:
        if steps_per_task < 1:
            raise UsageError(f"steps per task must be positive, not {steps_per_task}")
        # Steps of a single task would otherwise override those asked for.
        tasks = tuple(dataclasses.replace(t, steps=None) for t in curriculum.tasks)
        curriculum = dataclasses.replace(
            curriculum, steps_per_task=steps_per_task, tasks=tasks
        )
    if isinstance(seeds, int):
        seeds = range(seeds)
    # NumPy's integers could not be written as JSON.
    return RunConfig(curriculum, method, tuple(map(int, seeds)))
