"""Runs and actors on a real Ray cluster of two nodes on this machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from personae.api import compare, learn
from personae.curricula import Curriculum, Evaluation, Hosting, NetworkOptions, Task
from personae.errors import PersonaeError, UsageError
from personae.launch.jobs import Job
from personae.launch.ray_jobs import learn_on_ray
from personae.learners import IMPALA
from personae.rollouts.ray_actors import ActorLog
from personae.runs.directory import RunDirectory
from personae.training.callbacks import Callback
from personae.training.config import RunConfig

# Ray starts nodes from this process, in which JAX has threads.
pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CARTS = Curriculum(
    id="test/Carts-v0",
    tasks=(Task("cart", "CartPole-v1", target=500.0),),
    steps_per_task=40_000,
    learner="impala",
    network=NetworkOptions(hidden=(16,)),
    impala=IMPALA(num_envs=4, rollout_length=16, batch_size=4),
    evaluation=Evaluation(interval=20, episodes=2),
    hosting=Hosting(actors=4),
)


def test_an_actors_log_counts_replacements():
    log = ActorLog()
    log.add(frames=100, seconds=2.0, lag=1, identity=7)
    log.add(frames=100, seconds=2.0, lag=3, identity=8)
    report = {"rollouts": 2, "frames_per_second": 50, "policy_lag": 2, "replaced": 1}
    assert log.take() == report
    assert log.take() == {**dict.fromkeys(report, 0.0), "replaced": 1}


def test_without_ray_the_extra_is_named(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PersonaeError, match=r"personae\[ray\]"):
        compare(tiny, ["mask-ri"], seeds=2, out=tmp_path, on="ray")
    with pytest.raises(PersonaeError, match=r"personae\[ray\]"):
        learn(CARTS, "mask-ri", out=tmp_path, on="ray")


def test_a_store_needs_a_cluster(tiny, tmp_path):
    with pytest.raises(UsageError, match="--store is for a cluster"):
        compare(tiny, ["mask-ri"], seeds=2, out=tmp_path, store="file:///x")


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of two cores each, which Ray starts as processes of their own."""
    pytest.importorskip("ray")
    os.environ["RAY_AUTH_MODE"] = "disabled"
    from ray.cluster_utils import Cluster

    nodes = Cluster()
    for _ in range(2):
        nodes.add_node(num_cpus=2, include_dashboard=False)
    yield nodes
    nodes.shutdown()


@pytest.mark.cluster
def test_runs_are_those_of_this_machine(cluster, tiny, tmp_path, assert_same_run):
    for on, out in ((None, "here"), (cluster.address, "there")):
        compare(tiny, ["mask-lc"], seeds=4, out=tmp_path / out, quiet=True, on=on)
    for method in ("mask-lc", "expert"):
        assert_same_run(tmp_path / "here" / method, tmp_path / "there" / method)


@pytest.mark.cluster
def test_seeds_shared_out_go_through_a_store(cluster, tiny, tmp_path, assert_same_run):
    """Two runs of two seeds on two nodes, put together at home."""
    url = (tmp_path / "store").as_uri()
    config = RunConfig(tiny, "mask-lc", (0, 1, 2, 3))
    learn(tiny, "mask-lc", seeds=4, out=tmp_path / "here", quiet=True)
    job = Job("mask-lc", config, tmp_path / "there")
    learn_on_ray([job], cluster.address, quiet=True, store=url)
    groups = (tmp_path / "store").glob("**/run.json")
    assert {path.parent.name for path in groups} == {"0-1", "2-3"}
    assert_same_run(tmp_path / "here", tmp_path / "there")


def starting(cluster, cores):
    """Return the command that starts one more node, as users do."""
    ray = str(Path(sys.executable).with_name("ray"))
    start = [ray, "start", "--address", cluster.address, "--num-cpus", str(cores)]
    return [*start, "--block"]


def meanwhile(do):
    """Do something while the test goes on, which it does not survive if it fails."""
    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    return thread


@pytest.mark.cluster
def test_a_node_that_dies_costs_nothing(cluster, tiny, tmp_path, assert_same_run):
    """Three agents need three cores: the doomed node has them, and then another."""
    longer = replace(tiny, steps_per_task=256 * 64)
    learn(longer, "mask-ri", seeds=3, out=tmp_path / "here", quiet=True)
    there, nodes = RunDirectory(tmp_path / "there"), []

    def die():
        while not any(there.masks.glob("*")):
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)
        nodes.append(subprocess.Popen(starting(cluster, cores=3)))

    doomed = cluster.add_node(num_cpus=3, include_dashboard=False)
    death = meanwhile(die)
    job = Job("mask-ri", RunConfig(longer, "mask-ri", (0, 1, 2)), there.root)
    learn_on_ray([job], cluster.address, quiet=True)
    death.join()
    nodes[0].terminate()
    nodes[0].wait()
    assert len(there.read_run()["resumed"]) == 1
    assert_same_run(tmp_path / "here", there.root)


@pytest.mark.cluster
def test_ctrl_c_stops_and_the_same_again_goes_on(cluster, tiny, tmp_path):
    words = ["ct8", "--methods", "mask-ri", "--seeds", "2", "--steps-per-task", "25600"]
    given = [*words, "--on", cluster.address, "--out", str(tmp_path)]
    program = [sys.executable, "-m", "personae.cli", "compare", *given]
    run = RunDirectory(tmp_path / "mask-ri")
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    while not run.metrics_file.exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert run.read_run()["status"] != "finished"
    assert not (run.root / ".owner").exists()
    subprocess.run([*program, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    assert run.finished
    assert len(run.read_run()["resumed"]) == 1


def actors_alive():
    """Return the processes of remote actors."""
    processes = []
    for path in os.listdir("/proc"):
        try:
            with open(f"/proc/{path}/cmdline") as file:
                if "ray::RayWorker" in file.read():
                    processes.append(int(path))
        except OSError:
            pass
    return processes


class Killer(Callback):
    """Kills two actors when all four have acted; ends the life when both are back."""

    def __init__(self, run):
        self.run, self.killed = run, []

    def report(self):
        """Return the last record of the actors."""
        records = [r for r in self.run.read_metrics() if r["kind"] == "actors"]
        return records[-1] if records else {"rollouts": [0], "replaced": [0]}

    def on_evaluation(self, event):
        report = self.report()
        if not self.killed and all(report["rollouts"]):
            self.killed = actors_alive()[:2]
            for process in self.killed:
                os.kill(process, signal.SIGKILL)
        return sum(report["replaced"]) == 2


@pytest.mark.cluster
def test_actors_that_die_are_replaced(cluster, tmp_path):
    killer = Killer(RunDirectory(tmp_path))
    long = replace(CARTS, steps_per_task=4_000_000)
    with_killer = {"callbacks": [killer], "quiet": True, "on": cluster.address}
    record = learn(long, "mask-ri", out=tmp_path, **with_killer)
    assert len(killer.killed) == 2
    assert sum(killer.report()["replaced"]) == 2
    assert record.total_evaluation > 0


@pytest.mark.cluster
def test_what_cannot_act_elsewhere_is_refused(cluster, tiny, tmp_path):
    ppo = replace(CARTS, learner="ppo")
    with pytest.raises(UsageError, match="only IMPALA corrects"):
        learn(ppo, "mask-ri", out=tmp_path, on=cluster.address)
    with pytest.raises(UsageError, match="environments on the host"):
        learn(tiny, "mask-ri", out=tmp_path, on=cluster.address)


@pytest.mark.cluster
@pytest.mark.parametrize("where", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"])
def test_a_cluster_that_nobody_started_is_named(cluster, tiny, tmp_path, where):
    with pytest.raises(PersonaeError, match=f"a Ray cluster at '{where}'"):
        compare(tiny, ["mask-ri"], seeds=2, out=tmp_path, on=where)


def refused(tiny, out, cluster, match):
    with pytest.raises(PersonaeError, match=match):
        compare(tiny, ["mask-ri"], seeds=2, out=out, quiet=True, on=cluster.address)
    assert not any(out.glob("*/*"))


@pytest.mark.cluster
def test_a_node_with_other_packages_is_named(cluster, tiny, tmp_path):
    """An old optax comes first on its path."""
    metadata = tmp_path / "path/optax-0.0.1.dist-info/METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: optax\nVersion: 0.0.1\n")
    path = {"PYTHONPATH": str(tmp_path / "path")}
    node = cluster.add_node(num_cpus=1, include_dashboard=False, env_vars=path)
    try:
        refused(tiny, tmp_path / "out", cluster, r"has optax 0\.0\.1, this machine")
    finally:
        cluster.remove_node(node)


@pytest.mark.cluster
def test_a_node_that_does_not_see_the_results_is_named(cluster, tiny, tmp_path):
    """Started by `ray start`, with a folder of its own in the place of ours."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        pytest.skip("no folder can be hidden without root")
    join = " ".join(starting(cluster, cores=1))
    hide = f"mount -t tmpfs none {tmp_path} && exec {join}"
    words = ["unshare", "--mount", "sh", "-c", hide]
    node = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert any("runtime started" in line for line in node.stdout)
        refused(tiny, tmp_path / "out", cluster, f"does not see {tmp_path}")
    finally:
        node.terminate()
        node.communicate()
