"""Run directories that travel through a store."""

import os
import re
from dataclasses import replace

import pytest

from personae.errors import PersonaeError
from personae.launch.ray_nodes import Request, installed
from personae.launch.ray_orders import FAILED, INTERRUPTED, Order, carry_out
from personae.runs.store import Claim, Store
from personae.training.config import RunConfig

pytest.importorskip("fsspec")


@pytest.fixture
def store(tmp_path):
    return Store((tmp_path / "store").as_uri())


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_what_is_sent_comes_back(store, tmp_path):
    write(tmp_path / "a", run="1", masks__one="2")
    store.push(tmp_path / "a", "x/y")
    store.pull("x/y", tmp_path / "b")
    assert (tmp_path / "b/run").read_text() == "1"
    assert (tmp_path / "b/masks/one").read_text() == "2"
    store.pull("nothing", tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_only_changes_are_sent_the_checkpoint_last(store, tmp_path, monkeypatch):
    here = tmp_path / "here"
    sent, send = [], store._files.put_file

    def note(path, there):
        sent.append(there.split("/x/")[1].removesuffix(".tmp"))
        send(path, there)

    monkeypatch.setattr(store._files, "put_file", note)
    write(here, metrics="1", masks__one="2", **{"run.json": "{}"})
    write(here, **{"checkpoints__chunk-1": "3", "checkpoints__state-1": "4"})
    write(here, **{".metrics.tmp": "half"})
    store.push(here, "x")
    told = ["checkpoints/chunk-1", "run.json"]
    assert sent == ["checkpoints/state-1", "masks/one", "metrics", *told]
    sent.clear()
    write(here, metrics="12")
    (here / "masks/one").unlink()
    store.push(here, "x")
    assert sent == ["metrics"]
    assert not store.has("x/masks/one")
    assert store.read("x/metrics") == "12"


class Told:
    """What a task tells; the program ends after so many times."""

    def __init__(self, times=99):
        self.times = times

    def put_nowait(self, _):
        self.times -= 1
        if self.times == 0:
            raise KeyboardInterrupt


def make_order(tiny, tmp_path):
    url = (tmp_path / "store").as_uri()
    store, config = Store(url), RunConfig(tiny, "mask-lc", (0, 1)).to_plain()
    store.write("mark", "")
    request = Request(2, 0.0)
    return store, Order(
        "mask-lc", config, url, "some/run", request, installed(), "mark", shared=False
    )


def test_a_run_goes_on_from_the_store(tiny, tmp_path, lives, assert_same_run):
    """On another node than the one that died, in a folder of its own."""
    store, order = make_order(tiny, tmp_path)
    assert carry_out(order, Told(3)).code == INTERRUPTED
    assert carry_out(order, Told()).code == 0
    store.pull("some/run", tmp_path / "here")
    assert_same_run(tmp_path / "here", lives["mask-lc"].directory)
    assert not store.has(f"some/run/{Claim.FILE}")


@pytest.mark.slow
def test_who_is_cut_off_sends_nothing_more(tiny, tmp_path):
    store, order = make_order(tiny, tmp_path)

    class Another(Told):
        """Takes the run over while it is made."""

        def put_nowait(self, _):
            Claim(store, order.out)

    outcome = carry_out(order, Another())
    assert outcome.code == FAILED
    assert "taken this run over" in outcome.said
    told = store.read("some/run/metrics.jsonl").splitlines()
    assert sum('"evaluation"' in line for line in told) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"installed": {**installed(), "source": "0"}},
            "has source .*, this machine 0",
        ),
        ({"mark": "nothing"}, "does not see file:"),
    ],
)
def test_a_node_that_came_later_is_looked_at_too(tiny, tmp_path, change, said):
    _, order = make_order(tiny, tmp_path)
    outcome = carry_out(replace(order, **change), Told())
    assert outcome.code == FAILED
    assert re.search(said, outcome.said)


def test_a_run_on_a_gpu_takes_its_share_of_the_memory(tiny, tmp_path, monkeypatch):
    """Said before JAX looks; a setting of the machine's own would contradict it."""
    _, order = make_order(tiny, tmp_path)
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.9")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")
    on_a_gpu = replace(order, request=Request(2, 0.25), mark="nothing")
    assert carry_out(on_a_gpu, Told()).code == FAILED  # before it computes anything
    assert os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.225"
    assert "XLA_CLIENT_MEM_FRACTION" not in os.environ


def test_who_has_another_run_keeps_its_files(store, tmp_path):
    """What one task has not seen is not deleted by it."""
    write(tmp_path / "a", run="1")
    store.push(tmp_path / "a", "x")
    write(tmp_path / "b", run="2", more="3")
    Store((tmp_path / "store").as_uri()).push(tmp_path / "b", "x")
    store.push(tmp_path / "a", "x")
    assert store.read("x/more") == "3"


def test_a_url_that_nobody_knows_is_named():
    with pytest.raises(PersonaeError, match="'nowhere://x' cannot be used"):
        Store("nowhere://x")
