"""Damages agents' files in many ways, and reads them: python mutants.py N FILES."""

import json
import resource
import sys
from pathlib import Path

import numpy as np

from personae.errors import PersonaeError
from personae.policy.agent import loads
from personae.policy.tensors import BadAgentError

MEMORY = 2_000_000_000
"""Bytes that reading may address, NumPy's own libraries included."""


def with_header(data, change):
    """Return a file whose header is changed."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    text = json.dumps(change(header) or header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def with_manifest(data, change):
    """Return a file whose manifest is changed."""

    def change_header(header):
        manifest = json.loads(header["__metadata__"]["personae"])
        text = json.dumps(change(manifest) or manifest)
        header["__metadata__"]["personae"] = text

    return with_header(data, change_header)


def paths(node, path=()):
    """Yield the path of each value in plain data."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


STRANGE = [
    None, True, -1, 0, 1, 7, 2**31, 2**62, 10**30, 10**400, 1.5, 1e308, float("nan"),
    float("inf"), "", "x", [], [0], [-1, 2**40], {}, {"a": 1}, [[[]]],
]  # fmt: skip


def with_strange_value(data, rng):
    """Replace or delete one value of plain data."""
    all_paths = list(paths(data))
    *path, key = all_paths[rng.integers(len(all_paths))]
    for step in path:
        data = data[step]
    strange = STRANGE[rng.integers(len(STRANGE))]
    if rng.random() < 0.15:
        del data[key]
    elif isinstance(data, list) and rng.random() < 0.3:
        data.append(strange)
    else:
        data[key] = strange


def mutant(data, rng):
    """Return a file with some of it changed."""
    kind = rng.integers(6)
    if kind == 0:
        return data[: rng.integers(len(data))]
    if kind == 1:
        return data + rng.bytes(rng.integers(1, 20))
    if kind in (2, 3):
        changed = bytearray(data)
        end = len(data) if kind == 2 else min(len(data), 3000)
        for _ in range(rng.integers(1, 5)):
            changed[rng.integers(end)] = rng.integers(256)
        return bytes(changed)
    change = with_header if kind == 4 else with_manifest
    return change(data, lambda fields: with_strange_value(fields, rng))


def main() -> None:
    """Read mutants; print how many were read, and how many were refused."""
    number, *names = sys.argv[1:]
    files = [Path(name).read_bytes() for name in names]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng, read, refused = np.random.default_rng(0), 0, 0
    np.seterr(all="ignore")
    for index in range(int(number)):
        try:
            agent = loads(mutant(files[index % len(files)], rng), "a mutant")
        except BadAgentError:
            refused += 1
            continue
        read += 1
        for task in agent.tasks:
            shape = agent.on(task).spec.observation.shape
            try:
                agent.act(np.zeros(shape), task=task, sample=bool(index % 2))
            except PersonaeError:
                assert agent.manifest.previous_step
    print(read, refused)


if __name__ == "__main__":
    main()
