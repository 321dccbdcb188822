"""Files of strangers: read as they are, or refused, and never anything else."""

import json
import os
import resource

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from personae.errors import PersonaeError
from personae.policy import BadAgentError, load
from personae.policy.agent import loads
from personae.policy.tensors import read_tensors
from personae.training import export_agent

MUTANTS = 12_000
TYPES = [np.uint8, np.float16, np.float32, np.int32, np.int64]


@pytest.fixture(scope="module")
def whole(lives, tmp_path_factory):
    """An agent's file."""
    out = tmp_path_factory.mktemp("files") / "agent.persona"
    return export_agent(lives["mask-lc"].directory, out).read_bytes()


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


def with_header(data, change):
    """Return a file whose header is changed."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = json.dumps(change(header) or header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def with_manifest(data, change):
    """Return a file whose manifest is changed."""

    def changed(header):
        manifest = json.loads(header["__metadata__"]["personae"])
        text = json.dumps(change(manifest) or manifest)
        header["__metadata__"]["personae"] = text

    return with_header(data, changed)


def places(node, path=()):
    """Yield where a plain value has others in it."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


STRANGE = [
    None, True, -1, 0, 1, 7, 2**31, 2**62, 10**30, 1.5, 1e308, float("nan"),
    float("inf"), "", "x", [], [0], [-1, 2**40], {}, {"a": 1}, [[[]]],
]  # fmt: skip


def with_strange_value(plain, rng):
    """Put something else in one place of plain data, or take it away."""
    where = list(places(plain))
    *path, key = where[rng.integers(len(where))]
    for step in path:
        plain = plain[step]
    strange = STRANGE[rng.integers(len(STRANGE))]
    if rng.random() < 0.15:
        del plain[key]
    elif isinstance(plain, list) and rng.random() < 0.3:
        plain.append(strange)
    else:
        plain[key] = strange


def mutant(data, rng):
    """Return the file with some of it changed."""
    kind = rng.integers(6)
    if kind == 0:
        return data[: rng.integers(len(data))]
    if kind == 1:
        return data + rng.bytes(rng.integers(1, 20))
    if kind in (2, 3):
        changed = bytearray(data)
        end = len(data) if kind == 2 else 3000
        for _ in range(rng.integers(1, 5)):
            changed[rng.integers(end)] = rng.integers(256)
        return bytes(changed)
    change = with_header if kind == 4 else with_manifest
    return change(data, lambda plain: with_strange_value(plain, rng))


def most_memory():
    """Return the bytes that this process has had at most."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_no_file_does_harm(whole):
    """What is read acts; the rest is refused; nothing takes much memory."""
    rng, read, refused = np.random.default_rng(0), 0, 0
    observation = np.zeros((12, 12))
    before = most_memory()
    for _ in range(MUTANTS):
        changed = mutant(whole, rng)
        try:
            agent = loads(changed, "a mutant")
            read += 1
            with np.errstate(all="ignore"):
                agent.act(observation, task=agent.tasks[0])
        except PersonaeError:
            refused += 1
    assert most_memory() - before < 100e6
    assert read > MUTANTS / 100
    assert refused > MUTANTS / 4


def cut(manifest):
    manifest["layers"][0]["shape"] = [1 << 40, 1 << 40]


def untold(header):
    del header["__metadata__"]


def later(manifest):
    manifest["version"] = 99


def other(manifest):
    manifest["form"]["heads"] = ["actor.logits"]


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
