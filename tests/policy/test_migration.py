"""Migration renames what it expects, and leaves everything else for strict reading."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutants import with_manifest

from personae.migration import migrate_manifest
from personae.policy import BadAgentError
from personae.policy.agent import loads
from personae.policy.manifest import Manifest
from personae.policy.tensors import read_tensors
from personae.serialise import from_plain, to_plain

FILE = Path(__file__).parent / "golden-0.1" / "heads.persona"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)


def manifest_of_version_1():
    _, metadata = read_tensors(FILE.read_bytes())
    return json.loads(metadata["personae"])


def test_it_reads_as_version_2_and_leaves_the_original_alone():
    fields = manifest_of_version_1()
    original = copy.deepcopy(fields)
    migrated = migrate_manifest(fields)
    assert fields == original
    manifest = from_plain(Manifest, migrated, "manifest")
    assert manifest.version == 2
    assert migrate_manifest(to_plain(manifest)) == to_plain(manifest)


def test_only_version_1_is_migrated():
    for version in (2, 99, True, 1.0, "1", None, [1]):
        fields = manifest_of_version_1() | {"version": version}
        assert migrate_manifest(fields) == fields


@given(st.sampled_from([*manifest_of_version_1()]), JSON)
def test_odd_fields_do_no_harm(name, value):
    migrate_manifest(manifest_of_version_1() | {name: value})
    for part in ("layers", "tasks"):
        migrate_manifest(manifest_of_version_1() | {part: [value]})


@given(st.sampled_from(["shown", "taken", "name"]), JSON)
def test_odd_fields_of_tasks_do_no_harm(name, value):
    fields = manifest_of_version_1()
    fields["tasks"][0][name] = value
    migrate_manifest(fields)


@pytest.mark.parametrize(
    ("old", "new"), [("form", "architecture"), ("inputs", "observation_size")]
)
def test_a_field_under_both_names_is_refused(old, new):
    def change(manifest):
        manifest[new] = manifest[old]

    with pytest.raises(BadAgentError, match="unknown field of manifest 'form'"):
        loads(with_manifest(FILE.read_bytes(), change), "both")
