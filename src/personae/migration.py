"""Plain data of earlier versions, brought to the names of this one.

Migration only renames. It takes any JSON without an error and leaves data that it does
not expect as they are, for the strict reader to refuse.
"""

from collections.abc import Mapping

from personae.serialise import PlainData

_MANIFEST_FIELDS = {
    "form": "architecture",
    "inputs": "observation_size",
    "recall": "previous_step",
}
_ARCHITECTURE_FIELDS = {
    "sizes": "action_sizes",
    "single": "scalar_action",
    "bounds": "log_std_bounds",
    "image": "image_shape",
}
_LAYER_FIELDS = {"stored": "storage"}
_TASK_FIELDS = {"shown": "observation", "taken": "action"}
_OBSERVATION_FIELDS = {"choices": "num_values"}


def migrate_manifest(fields: PlainData) -> PlainData:
    """Return the manifest of an agent's file with the names of version 2."""
    # Not ==, for which True and 1.0 are 1 too.
    if type(fields.get("version")) is not int or fields["version"] != 1:
        return fields
    fields = _rename(fields, _MANIFEST_FIELDS) | {"version": 2}
    if "architecture" in fields:
        fields["architecture"] = _migrate_architecture(fields["architecture"])
    for name, migrate in (("layers", _migrate_layer), ("tasks", _migrate_task)):
        if isinstance(fields.get(name), list):
            fields[name] = [migrate(entry) for entry in fields[name]]
    return fields


def _migrate_architecture(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    fields = _rename(fields, _ARCHITECTURE_FIELDS)
    return _replace_value(fields, "head", "choices", "categorical")


def _migrate_layer(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    fields = _rename(fields, _LAYER_FIELDS)
    for name in ("storage", "bias"):
        fields = _replace_value(fields, name, "own", "per-task")
    return fields


def _migrate_task(fields: object) -> object:
    if not isinstance(fields, dict):
        return fields
    fields = _rename(fields, _TASK_FIELDS)
    observation = fields.get("observation")
    if isinstance(observation, dict):
        fields["observation"] = _rename(observation, _OBSERVATION_FIELDS)
    return fields


def _rename(fields: PlainData, names: Mapping[str, str]) -> PlainData:
    """Return a table with other names, or itself if it has one of these already."""
    # Renaming on top of a field would silently drop one of the two.
    if not fields.keys().isdisjoint(names.values()):
        return dict(fields)
    return {names.get(name, name): value for name, value in fields.items()}


def _replace_value(fields: PlainData, name: str, old: str, new: str) -> PlainData:
    """Return a table whose field has a new value if it has the old one."""
    return fields | {name: new} if fields.get(name) == old else fields
