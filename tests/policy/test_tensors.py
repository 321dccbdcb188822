"""Files of strangers: read as they are, or refused, and never anything else."""

import os
import subprocess
import sys

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
def whole(lives, tmp_path_factory):
    """An agent's file."""
    out = tmp_path_factory.mktemp("files") / "agent.persona"
    return export_agent(lives["mask-lc"].directory, out).read_bytes()


@pytest.fixture(scope="module")
def others(lives, baselines, tmp_path_factory):
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
def test_what_safetensors_writes_is_read(arrays):
    data = save(arrays, {"some": "text"})
    found, metadata = read_tensors(data)
    assert metadata == {"some": "text"}
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_no_file_does_harm(whole, others, tmp_path):
    """What is read acts; the rest is refused; nothing takes much memory.

    In a process of its own, without type checks and with little memory to be had.
    """
    files = []
    for number, data in enumerate((whole, *others)):
        files.append(tmp_path / f"{number}.persona")
        files[-1].write_bytes(data)
    program = [sys.executable, mutants.__file__, str(MUTANTS), *map(str, files)]
    found = subprocess.run(program, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    read, refused = map(int, found.stdout.split())
    assert read > MUTANTS / 100
    assert refused > MUTANTS / 4
    assert read + refused == MUTANTS


def cut(manifest):
    manifest["layers"][0]["shape"] = [1 << 40, 1 << 40]


def untold(header):
    del header["__metadata__"]


def later(manifest):
    manifest["version"] = 99


def other(manifest):
    manifest["form"]["heads"] = ["actor.logits"]


def twice(manifest):
    manifest["layers"].append(manifest["layers"][0])


def unnamed(manifest):
    manifest["tasks"][0]["name"] = "../../etc/passwd"


def unreal(manifest):
    manifest["scale"] = float("nan")


def large(manifest):
    manifest["scale"] = 10**400


def narrow(manifest):
    manifest["tasks"][0]["taken"] |= {"dtype": "uint8", "start": [-5]}


def deep(header):
    header["__metadata__"]["personae"] = "[" * 200_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "only 0 bytes long"),
        (lambda data: data[:-1], "is cut off"),
        (lambda data: data + b"x", "something follows"),
        (lambda data: b"\xff" * 8 + data[8:], "header would be"),
        (lambda data: data[:8] + b"x" + data[9:], "should be JSON"),
        (lambda data: with_manifest(data, cut), r"is .*, not"),
        (lambda data: with_manifest(data, later), "version 99; this program reads 1"),
        (lambda data: with_manifest(data, other), "unknown field of manifest.form"),
        (lambda data: with_manifest(data, twice), "has the layers"),
        (lambda data: with_manifest(data, unnamed), "is also a file name"),
        (lambda data: with_manifest(data, unreal), "NaN is no number"),
        (lambda data: with_manifest(data, large), "manifest.scale: .* too large"),
        (lambda data: with_manifest(data, narrow), "are of type 'uint8'"),
        (lambda data: with_header(data, untold), "has no manifest"),
        (lambda data: with_header(data, deep), "should be JSON"),
    ],
)
def test_it_is_said_what_is_wrong(whole, tmp_path, change, message):
    path = tmp_path / "agent.persona"
    path.write_bytes(change(whole))
    with pytest.raises(
        BadAgentError, match=f"agent.persona is not a whole .*{message}"
    ):
        load(path)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(BadAgentError, match="cannot be read: No such file"):
        load(tmp_path / "none.persona")
    with pytest.raises(BadAgentError, match="not a plain file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadAgentError, match="not a plain file"):
        load(tmp_path / "pipe")
