"""Files of strangers are read or refused, and do nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import hypothesis.extra.numpy as arrays_of
import mutants
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutants import with_header, with_manifest
from safetensors.numpy import save

from personae.policy import BadAgentError, load
from personae.policy.tensors import read_tensors
from personae.training import export_agent

MUTANTS = 12_000
TYPES = [np.uint8, np.float16, np.float32, np.int32, np.int64]


@pytest.fixture(scope="module")
def valid_file(lives, tmp_path_factory):
    """An agent's file."""
    out = tmp_path_factory.mktemp("files") / "agent.persona"
    return export_agent(lives["mask-lc"].directory, out).read_bytes()


@pytest.fixture(scope="module")
def other_files(lives, baselines, tmp_path_factory):
    """Files of other kinds: with scores, and with numbers and biases."""
    out = tmp_path_factory.mktemp("files") / "agent.persona"
    scored = export_agent(lives["mask-lc"].directory, out, with_scores=True)
    kinds = [scored.read_bytes()]
    for method in ("ewc-mh", "packnet"):
        kinds.append(export_agent(baselines[method].directory, out).read_bytes())
    return kinds


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.sampled_from(TYPES).flatmap(
            lambda kind: arrays_of.arrays(
                kind, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0)
            )
        ),
        max_size=4,
    ).filter(lambda arrays: "__metadata__" not in arrays)
)
def test_files_of_safetensors_are_read(arrays):
    data = save(arrays, {"some": "text"})
    tensors, metadata = read_tensors(data)
    assert metadata == {"some": "text"}
    assert set(tensors) == set(arrays)
    for name, array in arrays.items():
        assert tensors[name].dtype == array.dtype
        np.testing.assert_array_equal(tensors[name], array)


def test_no_file_does_harm(valid_file, other_files, tmp_path):
    """Mutants act or are refused, in a process with little memory and no type checks.

    Files of version 1, which are migrated first, are among them.
    """
    files = sorted((Path(__file__).parent / "golden-0.1").glob("*.persona"))
    assert len(files) == 4
    for number, data in enumerate((valid_file, *other_files)):
        files.append(tmp_path / f"{number}.persona")
        files[-1].write_bytes(data)
    program = [sys.executable, mutants.__file__, str(MUTANTS), *map(str, files)]
    result = subprocess.run(program, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    read, refused = map(int, result.stdout.split())
    assert read > MUTANTS / 100
    assert refused > MUTANTS / 4
    assert read + refused == MUTANTS


def with_huge_layer(manifest):
    manifest["layers"][0]["shape"] = [1 << 40, 1 << 40]


def without_manifest(header):
    del header["__metadata__"]


def of_later_version(manifest):
    manifest["version"] = 99


def with_unknown_field(manifest):
    manifest["architecture"]["heads"] = ["actor.logits"]


def with_repeated_layer(manifest):
    manifest["layers"].append(manifest["layers"][0])


def with_path_as_name(manifest):
    manifest["tasks"][0]["name"] = "../../etc/passwd"


def with_nan(manifest):
    manifest["scale"] = float("nan")


def with_large_number(manifest):
    manifest["scale"] = 10**400


def with_narrow_type(manifest):
    manifest["tasks"][0]["action"] |= {"dtype": "uint8", "start": [-5]}


def with_deep_json(header):
    header["__metadata__"]["personae"] = "[" * 200_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "only 0 bytes long"),
        (lambda data: data[:-1], "is cut off"),
        (lambda data: data + b"x", "something follows"),
        (lambda data: b"\xff" * 8 + data[8:], "header would be"),
        (lambda data: data[:8] + b"x" + data[9:], "should be JSON"),
        (lambda data: with_manifest(data, with_huge_layer), r"is .*, not"),
        (
            lambda data: with_manifest(data, of_later_version),
            "version 99; this program reads 1 to 2",
        ),
        (
            lambda data: with_manifest(data, with_unknown_field),
            "unknown field of manifest.architecture",
        ),
        (lambda data: with_manifest(data, with_repeated_layer), "has the layers"),
        (lambda data: with_manifest(data, with_path_as_name), "is also a file name"),
        (lambda data: with_manifest(data, with_nan), "NaN is no number"),
        (
            lambda data: with_manifest(data, with_large_number),
            "manifest.scale: .* too large",
        ),
        (lambda data: with_manifest(data, with_narrow_type), "are of type 'uint8'"),
        (lambda data: with_header(data, without_manifest), "has no manifest"),
        (lambda data: with_header(data, with_deep_json), "should be JSON"),
    ],
)
def test_errors_name_the_problem(valid_file, tmp_path, change, message):
    path = tmp_path / "agent.persona"
    path.write_bytes(change(valid_file))
    with pytest.raises(
        BadAgentError, match=f"agent.persona is not a whole .*{message}"
    ):
        load(path)


def test_paths_without_a_regular_file_are_refused(tmp_path):
    with pytest.raises(BadAgentError, match="cannot be read: No such file"):
        load(tmp_path / "none.persona")
    with pytest.raises(BadAgentError, match="not a plain file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadAgentError, match="not a plain file"):
        load(tmp_path / "pipe")
