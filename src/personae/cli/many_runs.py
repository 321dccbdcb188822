"""Options of the commands that make several runs."""

from dataclasses import dataclass

from personae.cli.console import Switch
from personae.launch.jobs import max_parallel_jobs


@dataclass(frozen=True)
class ManyRuns:
    """Options of the runs, which may be made at the same time or on a cluster."""

    jobs: int | None = None
    """Number of runs at a time. By default it is as many as the machine can hold."""
    on: str | None = None
    """A Ray cluster for all runs: ray for one on this machine, or an address such as
    ray://HOST:10001. Its nodes share the output directory."""
    store: str | None = None
    """An fsspec URL that all nodes reach, such as s3://BUCKET/RUNS, if they share no
    directory. Finished runs are copied to the output directory."""
    quiet: Switch = False
    """Show no progress, only the tables."""

    def parallel_jobs(self, num_agents: int) -> int:
        """Return the number of runs of so many agents to make at a time."""
        return max_parallel_jobs(num_agents) if self.jobs is None else self.jobs
