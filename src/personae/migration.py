"""Run directories and policy files of version 0.1 in the form of this version.

Each reader of a file calls the function for it here, once, so that the rest of the
package knows one name for each field. A renamed field, file or array is one more line
in the tables below. Migration only renames: data that it does not expect stay as they
are, for the strict reader to refuse.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from personae.serialise import PlainData

T = TypeVar("T")

SCHEMA = 2
"""Number of the form in which run directories are written."""
READABLE_SCHEMAS = (1, SCHEMA)
"""Version 0.1 wrote schema 1."""

CONFIG_FIELDS = {
    "earlier": "warm_start",
    "curriculum.inputs.recall": "previous_step",
    "curriculum.hosting.judges": "evaluators",
}
"""Fields of a run's configuration: the old path and the new last name."""
RECORD_FIELDS = {"rehearsal_loss": "replay_loss"}
"""Fields of the records in metrics.jsonl."""
MASK_METADATA = {"earlier": "warm_start_masks"}
"""Fields of the metadata of mask files."""
CHECKPOINT_KINDS = {"envs": "worlds", "replay": "memory"}
"""Kinds of checkpoints: the new name and the old one."""
FILES = {"warm-start.persona": "earlier.persona"}
"""Files of a run directory: the new name and the old one."""
ARRAY_PATHS = (
    (r"^\.learner\b", ".learner_state"),
    # On the host it was the measures of the last episodes, on the device environments.
    (r"^\.worlds$", ".measures"),
    (r"^\.worlds\.states\.place\b", ".envs.states.pose"),
    (r"^\.worlds\b", ".envs"),
    (r"^\.place_of_task$", ".order_of_task"),
    (r"^\.place$", ".order"),
    (r"\.(regulariser|ewc)\.number$", r".\1.batches"),
    (r"\.regulariser\.known$", ".regulariser.has_anchor"),
    (r"\.shown$", ".current"),
)
"""Patterns in the paths of a checkpoint's arrays, and their replacements."""

MANIFEST_FIELDS = {
    "form": "architecture",
    "inputs": "observation_size",
    "recall": "previous_step",
}
ARCHITECTURE_FIELDS = {
    "sizes": "action_sizes",
    "single": "scalar_action",
    "bounds": "log_std_bounds",
    "image": "image_shape",
}
LAYER_FIELDS = {"stored": "storage"}
TASK_FIELDS = {"shown": "observation", "taken": "action"}
OBSERVATION_FIELDS = {"choices": "num_values"}
"""Fields of the manifest of a policy file, and of the tables in it."""


def migrate_run(run: PlainData) -> PlainData:
    """Return the contents of a run.json in the form of this version."""
    if run.get("schema") == SCHEMA:
        return run
    return {**run, "schema": SCHEMA, "config": migrate_config(run.get("config"))}


def migrate_config(config: T) -> T:
    """Return a run's configuration with the field names of this version."""
    return _rename_fields(config, "")


def _rename_fields(data: T, path: str) -> T:
    # A damaged file may hold anything here: its reader names what is wrong with it.
    if isinstance(data, list):
        return type(data)(_rename_fields(entry, path) for entry in data)
    if not isinstance(data, dict):
        return data
    prefix = f"{path}." if path else ""
    return type(data)(
        {
            CONFIG_FIELDS.get(prefix + name, name): _rename_fields(value, prefix + name)
            for name, value in data.items()
        }
    )


def migrate_record(record: PlainData) -> PlainData:
    """Return a record of metrics.jsonl with the field names of this version."""
    return _rename_keys(record, RECORD_FIELDS)


def migrate_mask_metadata(metadata: PlainData) -> PlainData:
    """Return the metadata of a mask file with the field names of this version."""
    return _rename_keys(metadata, MASK_METADATA)


def migrate_checkpoint(
    arrays: Mapping[str, T], metadata: PlainData
) -> tuple[dict[str, T], PlainData]:
    """Return a checkpoint's arrays by their path in this version, and its metadata."""
    # Version 0.1 wrote no schema into checkpoints.
    if metadata.get("schema") == SCHEMA:
        return dict(arrays), metadata
    renamed = {_rename_path(path): array for path, array in arrays.items()}
    return renamed, {**metadata, "config": migrate_config(metadata.get("config"))}


def existing_path(path: Path) -> Path:
    """Return a file's path, or the one that version 0.1 gave it if only that exists."""
    old = path.with_name(FILES[path.name])
    return old if old.exists() and not path.exists() else path


def _rename_keys(data: PlainData, names: Mapping[str, str]) -> PlainData:
    if names.keys().isdisjoint(data):  # usual, and metrics have very many records
        return data
    return {names.get(name, name): value for name, value in data.items()}


def _rename_path(path: str) -> str:
    for pattern, replacement in ARRAY_PATHS:
        path = re.sub(pattern, replacement, path)
    return path


def migrate_manifest(fields: PlainData) -> PlainData:
    """Return the manifest of an agent's file with the names of version 2."""
    # Not ==, for which True and 1.0 are 1 too.
    if type(fields.get("version")) is not int or fields["version"] != 1:
        return fields
    fields = _rename_unless_taken(fields, MANIFEST_FIELDS) | {"version": 2}
    if "architecture" in fields:
        fields["architecture"] = _migrate_architecture(fields["architecture"])
    for name, migrate in (("layers", _migrate_layer), ("tasks", _migrate_task)):
        if isinstance(fields.get(name), list):
            fields[name] = [migrate(entry) for entry in fields[name]]
    return fields


def _migrate_architecture(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    fields = _rename_unless_taken(fields, ARCHITECTURE_FIELDS)
    return _replace_value(fields, "head", "choices", "categorical")


def _migrate_layer(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    fields = _rename_unless_taken(fields, LAYER_FIELDS)
    for name in ("storage", "bias"):
        fields = _replace_value(fields, name, "own", "per-task")
    return fields


def _migrate_task(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    fields = _rename_unless_taken(fields, TASK_FIELDS)
    observation = fields.get("observation")
    if isinstance(observation, dict):
        fields["observation"] = _rename_unless_taken(observation, OBSERVATION_FIELDS)
    return fields


def _rename_unless_taken(fields: PlainData, names: Mapping[str, str]) -> PlainData:
    """Return a table with other names, or itself if it has one of these already."""
    # Renaming on top of a field would silently drop one of the two.
    if not fields.keys().isdisjoint(names.values()):
        return dict(fields)
    return {names.get(name, name): value for name, value in fields.items()}


def _replace_value(fields: PlainData, name: str, old: str, new: str) -> PlainData:
    """Return a table whose field has a new value if it has the old one."""
    return fields | {name: new} if fields.get(name) == old else fields
