"""Run directories of version 0.1 in the form of this version.

Each reader of a file calls the function for it here, once, so that the rest of the
package knows one name for each field. A renamed field, file or array is one more line
in the tables below.
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
ARRAY_FIELDS = {
    # Training state.
    "learner": "learner_state",
    "worlds": "envs",
    # PackNet's state.
    "place": "order",
    "place_of_task": "order_of_task",
    # The states of regularisers.
    "regulariser.known": "regulariser.has_anchor",
    "regulariser.number": "regulariser.batches",
    "ewc.number": "ewc.batches",
    # Observations that come with the previous step.
    "shown": "current",
}
"""Fields within the paths of a checkpoint's arrays, such as `.learner[1][0].nu`. The
fields around one may be named as well, where its name alone has other meanings."""


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
    for old, new in ARRAY_FIELDS.items():
        path = re.sub(rf"\.{re.escape(old)}(?!\w)", f".{new}", path)
    return path
