"""`personae check`."""

from collections.abc import Iterator
from dataclasses import dataclass

import tyro
from rich.table import Table
from rich.text import Text

from personae.cli.console import OUTPUT, say
from personae.curricula import Curriculum, Task, find_curriculum
from personae.envs.check import Finding, Trial, check_env, curriculum_finding
from personae.envs.registry import FAMILIES
from personae.envs.vector import EnvFactory
from personae.errors import PersonaeError, UsageError
from personae.methods.registry import make_method
from personae.rollouts.host_tasks import env_factory
from personae.rollouts.task_data import EvalTask
from personae.training.factory import check_settings, make_training


@dataclass(frozen=True)
class Check:
    """Look for mistakes in a curriculum's environments, before a long run.

    Each environment is made, reset with a seed and stepped with random actions.
    Observations, rewards and infos are compared with the spaces it declares.
    Example: personae check my.toml
    """

    curriculum: tyro.conf.Positional[str]
    """A .toml or .json file, or a name that `personae curricula` lists."""

    def __call__(self) -> None:
        """Run the command."""
        curriculum = find_curriculum(self.curriculum)
        findings, trials = check_curriculum(curriculum)
        for name, trial in trials.items():
            # An environment that fails at once may take no measurable time.
            speed = len(trial.rewards) / max(trial.seconds, 1e-9)
            say(
                OUTPUT,
                f"{name}: {len(trial.rewards)} steps, return {trial.total:g} with "
                f"random actions, {speed:,.0f} steps/s",
            )
        for task in curriculum.tasks:
            if task.env in FAMILIES:
                say(OUTPUT, f"{task.name}: made, not stepped ({task.env})")
        if findings:
            OUTPUT.print(findings_table(findings))
        serious = [finding for finding in findings if finding.stops]
        if serious:
            raise PersonaeError(
                f"{len(serious)} of {len(findings)} findings would stop or spoil a run"
            )
        say(OUTPUT, f"{curriculum.id} can be learned")


def check_curriculum(
    curriculum: Curriculum,
) -> tuple[list[Finding], dict[str, Trial]]:
    """Return all findings, and the trial with random actions of each environment."""
    findings: list[Finding] = []
    trials = {}
    inputs, scaled = curriculum.inputs, curriculum.normalise.observations
    for name, make, task in third_party_envs(curriculum):
        task_findings, trial = check_env(
            name,
            make,
            scaled=scaled or inputs.scale != 1,
            target=task.target,
            floor=task.floor or 0.0,
            by_success=curriculum.evaluation.measure == "success",
        )
        findings += task_findings
        if trial is not None:
            trials[name] = trial
    if not any(finding.stops for finding in findings):
        # Environments of Personae need no trial, but tasks must still fit each other.
        try:
            # Any method will do, since only the tasks and their settings count here.
            check_settings(curriculum)
            make_training(curriculum, make_method("ppo"), (0,)).close()
        except UsageError as error:
            findings.append(curriculum_finding(error))
    return findings, trials


def third_party_envs(curriculum: Curriculum) -> Iterator[tuple[str, EnvFactory, Task]]:
    """Yield a name, a factory and the task of each environment of other packages."""
    for index, task in enumerate(curriculum.tasks):
        if task.env in FAMILIES:
            continue
        yield task.name, env_factory(curriculum, EvalTask(index)), task
        if task.unseen is not None:
            make = env_factory(curriculum, EvalTask(index, unseen=True))
            yield f"{task.name}, unseen", make, task


def findings_table(findings: list[Finding]) -> Table:
    """Return a table of the findings; those that stop a run are red."""
    table = Table("task", "problem", "hint")
    for finding in findings:
        style = "bold red" if finding.stops else ""
        problem = Text(finding.problem, style)
        table.add_row(Text(finding.task), problem, Text(finding.hint))
    return table
