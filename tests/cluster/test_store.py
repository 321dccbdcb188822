"""Run directories that travel through a store."""

import pytest

from personae.cluster.nodes import Request
from personae.cluster.order import INTERRUPTED, Order, carry_out
from personae.cluster.store import Store
from personae.errors import PersonaeError
from personae.training import RunConfig

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
    monkeypatch.setattr(
        store._files,
        "put_file",
        lambda path, there: sent.append(there.split("/x/")[1]) or send(path, there),
    )
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
    assert store.has("x/metrics")


class Told:
    """What a task tells; the program ends after so many times."""

    def __init__(self, times=99):
        self.times = times

    def put_nowait(self, _):
        self.times -= 1
        if self.times == 0:
            raise KeyboardInterrupt


def test_a_run_goes_on_from_the_store(tiny, tmp_path, lives, assert_same_run):
    """On another node than the one that died, in a folder of its own."""
    config = RunConfig(tiny, "mask-lc", (0, 1)).to_plain()
    url = (tmp_path / "store").as_uri()
    order = Order("mask-lc", config, "some/run", Request(2, 0.0), url)
    assert carry_out(order, Told(3)).code == INTERRUPTED
    assert carry_out(order, Told()).code == 0
    Store(url).pull("some/run", tmp_path / "here")
    assert_same_run(tmp_path / "here", lives["mask-lc"].directory)


def test_a_url_that_nobody_knows_is_named():
    with pytest.raises(PersonaeError, match="'nowhere://x' cannot be used"):
        Store("nowhere://x")
