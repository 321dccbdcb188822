"""A folder for a model hub: the agent, its configuration and a model card."""

import json
import shutil
from pathlib import Path

from personae.files import write_atomically
from personae.policy.agent import Agent
from personae.serialise import to_plain

AGENT = "agent.persona"


def write_folder(agent: Agent, file: Path, folder: Path) -> Path:
    """Write a folder with the file, config.json and a model card (README.md)."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, folder / AGENT)
    config = to_plain(agent.manifest)
    text = json.dumps({"library_name": "personae", **config}, indent=1) + "\n"
    write_atomically(folder / "config.json", text.encode())
    write_atomically(folder / "README.md", model_card(agent).encode())
    return folder


def model_card(agent: Agent) -> str:
    """Return the card: YAML for machines, then Markdown for people."""
    manifest = agent.manifest
    name = f"{manifest.method} on {manifest.curriculum}, seed {manifest.seed}"
    # A bar in an id would begin another column.
    rows = [
        f"| {task.name} | `{task.env.replace('|', '')}` | {_number(task.evaluation)} | "
        f"{task.measure} | {task.target:g} |"
        for task in manifest.tasks
    ]
    actions = (
        "the most likely actions"
        if manifest.greedy
        else "actions drawn from the policy"
    )
    # Only methods with masks have a backbone, and so its fingerprint.
    masks = " with modulating masks" if manifest.fingerprint else ""
    return "\n".join(
        [
            "---",
            *_front_matter(agent, name),
            "---",
            "",
            f"# {name}",
            "",
            f"One agent that learned {len(manifest.tasks)} tasks one after another"
            f"{masks}, by Personae.",
            "",
            "| task | environment | mean | measure | target |",
            "| --- | --- | ---: | --- | ---: |",
            *rows,
            "",
            f"Last evaluation of the run, {actions}; curriculum "
            f"`{manifest.curriculum}`, method `{manifest.method}`, seed "
            f"{manifest.seed}.",
            "",
            "```python",
            "from personae.policy import load",
            "",
            f'agent = load("{AGENT}")',
            f'action = agent.act(observation, task="{manifest.tasks[0].name}")',
            "```",
            "",
        ]
    )


def _front_matter(agent: Agent, name: str) -> list[str]:
    """Return the card's metadata as YAML, whose strings may be JSON's."""
    manifest = agent.manifest
    lines = [
        "library_name: personae",
        "pipeline_tag: reinforcement-learning",
        "tags:",
        "- reinforcement-learning",
        "- lifelong-learning",
        "- continual-learning",
        "model-index:",
        f"- name: {_quoted(name)}",
        "  results:",
    ]
    for task in manifest.tasks:
        if task.evaluation is not None:
            lines += [
                "  - task:",
                "      type: reinforcement-learning",
                "      name: reinforcement-learning",
                "    dataset:",
                f"      name: {_quoted(task.name)}",
                f"      type: {_quoted(task.env)}",
                "    metrics:",
                f"    - type: {task.measure}",
                # With a dot, and without an exponent, or YAML would read a string.
                f"      value: {task.evaluation:.6f}",
                f"      name: mean {task.measure}",
            ]
    return lines


def _quoted(text: str) -> str:
    # Strings of JSON are strings of YAML, whatever characters a file's names have.
    return json.dumps(text, ensure_ascii=False)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
