"""Lives in Gymnasium's environments: the same promises as in JAX's."""

import dataclasses
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.api import learn
from personae.curricula import (
    Curriculum,
    Evaluation,
    Hosting,
    Inputs,
    NetworkOptions,
    Normalisers,
    Task,
)
from personae.errors import PersonaeError, UsageError
from personae.files import read_tensors
from personae.learners import PPO
from personae.methods import make_method
from personae.report.data.comparable import check_whole
from personae.report.data.comparison import compare_records
from personae.rollouts.host_tasks import HostTasks
from personae.rollouts.vector_actors import Players
from personae.runs.directory import RunDirectory
from personae.training import Callback, RestoredRun
from personae.training.config import RunConfig
from personae.training.host_trainer import HostPrograms
from personae.training.loop import start

REVERSED = Task("reversed", "CartPole-v1", target=500.0, attributes={"force_mag": -10})


@pytest.fixture(scope="session")
def carts() -> Curriculum:
    """Two carts and a small network."""
    return Curriculum(
        id="test/Carts-v0",
        tasks=(Task("cart", "CartPole-v1", target=500.0), REVERSED),
        steps_per_task=4 * 64,
        network=NetworkOptions(hidden=(16,)),
        ppo=PPO(num_envs=2, rollout_length=32, num_minibatches=4, learning_rate=1e-2),
        evaluation=Evaluation(interval=2, episodes=3),
        normalise=Normalisers(observations=True, rewards=True),
    )


@pytest.fixture(scope="session")
def whole(carts, tmp_path_factory):
    """A life that nothing interrupted, with each method."""
    out = tmp_path_factory.mktemp("carts")

    def live(method):
        if not (out / method).exists():
            learn(carts, method, seeds=2, out=out / method, quiet=True)
        return out / method

    return live


@pytest.mark.parametrize(
    ("method", "chunks"),
    [("mask-lc", 1), ("mask-lc", 3), ("ewc-mh", 2), ("progress-compress", 3)],
)
def test_a_run_that_was_stopped_ends_bit_identical(
    carts, whole, tmp_path, stop_after, assert_same_run, method, chunks
):
    config = RunConfig(carts, method, (0, 1))
    directory = RunDirectory(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(chunks))
    learn(carts, method, seeds=2, out=tmp_path / "run", resume=True, quiet=True)
    assert_same_run(tmp_path / "run", whole(method))


def test_masks_keep_what_they_learned_exactly(whole):
    from personae.report import read_record

    record = read_record(whole("mask-lc"))
    own = record.evaluations[:, record.evaluation_visit == 1, 0]
    at_end = record.evaluations[:, record.evaluation_visit == 0, 0][:, -1:]
    np.testing.assert_array_equal(own, np.broadcast_to(at_end, own.shape))


def test_an_agent_lives_alike_beside_others(carts, whole, tmp_path):
    learn(carts, "mask-lc", seeds=[1], out=tmp_path / "alone", quiet=True)
    alone, _ = read_tensors(RunDirectory(tmp_path / "alone").mask_file(1, "reversed"))
    both, _ = read_tensors(RunDirectory(whole("mask-lc")).mask_file(1, "reversed"))
    for name, array in alone.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(array[0], both[name][1], atol=1e-5)


def small(*tasks, **changes):
    return Curriculum(
        id="test/Small-v0",
        tasks=tasks,
        steps_per_task=64,
        network=NetworkOptions((8,)),
        ppo=PPO(num_envs=2, rollout_length=16, num_minibatches=2),
        evaluation=Evaluation(interval=1, episodes=1),
        **changes,
    )


class TwoDials(gym.Env):
    """Pays for turning two dials to where they should be."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gym.spaces.Box(0, 255, (2, 3), np.uint8)
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return np.full((8, 8, 3), self.steps, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.full((2, 3), 7, np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        reward = float(tuple(action) == (1, 2))
        return np.full((2, 3), 7, np.uint8), reward, False, self.steps == 5, {}


gym.register("tests/TwoDials-v0", TwoDials)


@pytest.mark.parametrize(
    "task",
    [
        Task("lake", "FrozenLake-v1", {"max_episode_steps": 20}),
        Task("taxi", "Taxi-v4", {"max_episode_steps": 20}, floor=-500.0),
        Task("dials", "tests/TwoDials-v0", target=5.0),
        Task("swing", "Pendulum-v1", floor=-2000.0),
    ],
    ids=lambda task: task.name,
)
@pytest.mark.parametrize("bodies", [None, "separate"])
def test_spaces_of_every_kind_are_learned_in(task, bodies, tmp_path):
    curriculum = small(task)
    network = NetworkOptions((8,), bodies)
    curriculum = dataclasses.replace(curriculum, network=network)
    record = learn(curriculum, "mask-ri", out=tmp_path / "run", quiet=True)
    assert np.isfinite(record.evaluations).all()


def test_agents_are_brought_back_and_filmed(tmp_path):
    curriculum = small(Task("dials", "tests/TwoDials-v0", target=5.0))
    record = learn(curriculum, "mask-ri", seeds=2, out=tmp_path / "run", quiet=True)
    revival = RestoredRun(tmp_path / "run")
    returns = revival.evaluate()
    np.testing.assert_array_equal(returns.mean(-1), record.evaluations[:, -1])
    film = revival.film("dials", seed=1)
    assert [int(frame[0, 0, 0]) for frame in film.frames] == [0, 1, 2, 3, 4, 5]
    assert film.whole
    assert film.total == returns[1, 0, 0]


def test_tasks_of_different_shapes_are_refused_unless_padded(tmp_path, capsys):
    cart = Task("cart", "CartPole-v1", target=500.0)
    acrobot = Task("acrobot", "Acrobot-v1", floor=-500.0)
    with pytest.raises(UsageError, match=r"observations differ.*fit = \"pad\""):
        learn(small(cart, acrobot), "ppo", out=tmp_path / "no", quiet=True)
    assert not (tmp_path / "no").exists()
    curriculum = small(cart, acrobot, inputs=Inputs(fit="pad"))
    record = learn(curriculum, "mask-blc", out=tmp_path / "run")
    assert record.finished
    # Wherever returns are shown they are counted from floors, and it is said.
    evaluation, best = record.evaluations[:, -1].sum(-1).mean(), record.targets.sum()
    *_, last = capsys.readouterr().err.splitlines()
    assert f"evaluation {evaluation:.2f}/{best:g} " in last
    assert evaluation > 0
    assert record.measure == "return above floor"
    assert record.sum_of_measures == "sum of returns above floors over all tasks"
    mixed = small(cart, Task("swing", "Pendulum-v1", floor=-2000.0))
    with pytest.raises(UsageError, match="actions of one kind"):
        learn(
            dataclasses.replace(mixed, inputs=Inputs(fit="pad")),
            out=tmp_path / "no",
            quiet=True,
        )


@pytest.mark.parametrize("shared", [False, True])
def test_statistics_are_those_of_what_was_seen(carts, tmp_path, shared):
    """A row for each task, of which one is trained, or one row for both."""
    normalise = dataclasses.replace(carts.normalise, shared=shared)
    curriculum = dataclasses.replace(carts, normalise=normalise)
    programs = programs_of(curriculum, "mask-ri")
    agents, _ = programs.begin(programs.init(), 0, 0)
    seen = []
    collect = programs.players.collect

    def watch(acting, visit):
        collected = collect(acting, visit)
        seen.append(collected.rollout.steps.observation[0].reshape(-1, 4))
        return collected

    programs.players.collect = watch
    agents, _ = programs.chunk(agents, 0, 3)
    moments = agents.live.statistics.observations
    every = np.concatenate(seen)
    assert moments.number[0].tolist() == [len(every)] + [0] * (not shared)
    np.testing.assert_allclose(moments.mean[0, 0], every.mean(0), atol=1e-4)
    deviation = np.sqrt(moments.squares[0, 0] / len(every))
    np.testing.assert_allclose(deviation, every.std(0), rtol=1e-3, atol=1e-5)
    programs.close()


def stopping(carts, at):
    tasks = tuple(dataclasses.replace(task, stop_at=at) for task in carts.tasks)
    return dataclasses.replace(carts, tasks=tasks)


@pytest.mark.parametrize("method", ["mask-lc", "ewc-mh"])
def test_a_task_that_is_learned_well_enough_ends_early(
    carts, tmp_path, stop_after, assert_same_run, method
):
    curriculum = stopping(carts, at=1.0)  # the first evaluation is enough
    record = learn(curriculum, method, seeds=2, out=tmp_path / "whole", quiet=True)
    assert record.evaluation_visit.tolist() == [0, 1]
    assert [curve.steps[-1] for curve in record.training] == [128, 128]
    check_whole(record)
    config, directory = RunConfig(curriculum, method, (0, 1)), tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        start(config, RunDirectory(directory), stop_after(1))
    learn(curriculum, method, seeds=2, out=directory, resume=True, quiet=True)
    assert_same_run(directory, tmp_path / "whole")
    patient = stopping(carts, at=1e6)
    record = learn(patient, method, seeds=2, out=tmp_path / "patient", quiet=True)
    assert record.evaluation_visit.tolist() == [0, 0, 1, 1]


def test_a_method_of_several_phases_cannot_stop_early(carts):
    with pytest.raises(UsageError, match="packnet trains a task in 2 phases"):
        RunConfig(stopping(carts, at=1.0), "packnet", (0,))


def test_callbacks_hear_of_evaluations_and_may_end_a_task(carts, tmp_path):
    heard = []

    class Listen(Callback):
        def on_evaluation(self, now):
            heard.append(("evaluation", now.visit, now.steps))
            assert now.returns.keys() == {"cart", "reversed"}
            assert now.returns[now.task].shape == now.training_return.shape == (2,)
            return np.bool_(now.task == "reversed")

        def on_task_end(self, now):
            heard.append(("end", now.visit, now.steps))

    callbacks, out = [Listen()], tmp_path / "ppo"
    record = learn(carts, "ppo", seeds=2, out=out, callbacks=callbacks, quiet=True)
    assert heard == [
        ("evaluation", 0, 128),
        ("evaluation", 0, 256),
        ("end", 0, 256),
        ("evaluation", 1, 384),
        ("end", 1, 384),
    ]
    assert record.evaluation_visit.tolist() == [0, 0, 1]
    check_whole(record)
    longer = learn(carts, "l2", seeds=2, out=tmp_path / "l2", quiet=True)
    with pytest.raises(PersonaeError, match="ended early"):
        compare_records([record, longer], "ppo")


def test_a_callback_cannot_leave_out_a_phase(carts, tmp_path):
    class Stop(Callback):
        def on_evaluation(self, now):
            return True

    with pytest.raises(UsageError, match="packnet trains in 2 phases"):
        learn(carts, "packnet", out=tmp_path / "run", callbacks=[Stop()], quiet=True)


@pytest.mark.parametrize("evaluators", [1, 3])
def test_exams_beside_the_training_are_those_of_the_chunk(
    carts, whole, tmp_path, monkeypatch, assert_same_run, evaluators
):
    """Of agents as they were, though they have learned on since."""
    made = Players.__init__

    def judging_beside(self, *given):
        made(self, *given)
        self.judges_beside = True

    monkeypatch.setattr(Players, "__init__", judging_beside)
    hosting = dataclasses.replace(carts.hosting, evaluators=evaluators)
    several = dataclasses.replace(carts, hosting=hosting)
    learn(several, "mask-lc", seeds=2, out=tmp_path, quiet=True)
    assert_same_run(tmp_path, whole("mask-lc"))


def test_exams_that_are_over_are_not_looked_at(carts, monkeypatch):
    """Which does not change the others."""
    limits = (3, 3, 40, 3, 3)
    tasks = tuple(
        Task(f"cart{i}", "CartPole-v1", target=9.0, options={"max_episode_steps": n})
        for i, n in enumerate(limits)
    )
    five = dataclasses.replace(carts, tasks=tasks, steps_per_task=64)
    programs = HostPrograms(five, make_method("mask-ri", five.method_options), (0, 1))
    agents, _ = programs.begin(programs.init(), 0, 0)
    protocol = Evaluation(episodes=3, greedy=False)
    looked_at, examined = [], programs.players._examined

    def watched(*given):
        act_in = examined(*given)
        return lambda exams: looked_at.append(len(exams)) or act_in(exams)

    monkeypatch.setattr(programs.players, "_examined", watched)
    at_once = programs.evaluate(agents, protocol)
    assert looked_at == [5, 2, 1]
    assert (at_once[:, [0, 1, 3, 4]] == 3).all()
    assert (at_once[:, 2] > 3).all()
    each = programs.tasks.exams
    for number, exam in enumerate(each):
        monkeypatch.setattr(HostTasks, "exams", [exam])
        alone = programs.players.evaluate(
            lambda index: programs._judged(agents, programs.task_data(index)), protocol
        )
        np.testing.assert_array_equal(alone[0, :, 0], at_once[:, number])
    programs.close()


def test_a_life_with_each_environment_in_a_process(carts, whole, tmp_path):
    """From a thread, as the command line does."""
    before = signal.getsignal(signal.SIGINT)
    apart = dataclasses.replace(carts, hosting=Hosting(stepping="async"))
    with ThreadPoolExecutor() as pool:
        out = tmp_path / "run"
        pool.submit(learn, apart, "mask-lc", seeds=2, out=out, quiet=True).result()
    assert signal.getsignal(signal.SIGINT) is before
    metrics = (out / "metrics.jsonl").read_bytes()
    assert metrics == (whole("mask-lc") / "metrics.jsonl").read_bytes()


def programs_of(curriculum, method):
    chosen = RunConfig(curriculum, method, (0,)).make_method()
    return HostPrograms(curriculum, chosen, (0,))


def test_actions_that_a_task_does_not_have_are_never_taken():
    cart = Task("cart", "CartPole-v1", target=500.0)
    acrobot = Task("acrobot", "Acrobot-v1", floor=-500.0)
    curriculum = small(acrobot, cart, inputs=Inputs(fit="pad"))
    programs = programs_of(curriculum, "ewc-mh")
    agents, _ = programs.begin(programs.init(), 1, 0)
    acting = jax.tree.map(
        lambda leaf: leaf[0], programs._acting(agents, programs.task(1))
    )
    policy, _ = programs.on_task(acting, programs.task(1))(jnp.zeros(6))
    assert float(jnp.exp(policy.log_prob(jnp.asarray(2)))) == 0
    assert np.isfinite(float(policy.entropy()))
    # Neither does what EWC looks back on know of them.
    agents, _, samples = programs.iterate(agents, 1)
    part = jax.tree.map(lambda leaf: leaf[:, None], samples)
    reviewed = programs.accumulate_gradient(agents, 1, 0, part)
    importance = reviewed.method.regulariser.squares.heads[0].logits.bias[0, 1]
    assert importance[2] == 0 < importance[0]
    programs.close()


def test_a_time_limit_is_bootstrapped_and_an_end_is_not(tmp_path):
    """TwoDials is cut after five steps: the value of what follows joins the reward."""
    curriculum = small(Task("dials", "tests/TwoDials-v0", target=5.0))
    for bootstrap in (True, False):
        ppo = dataclasses.replace(curriculum.ppo, bootstrap_truncated=bootstrap)
        programs = programs_of(dataclasses.replace(curriculum, ppo=ppo), "ppo")
        agents, _ = programs.begin(programs.init(), 0, 0)
        acting = programs._acting(agents, programs.task(0))
        rollout, cut, *_ = programs.players.collect(acting, 0)
        done = rollout.steps.done[0]
        assert done[4].all()
        assert not done[:4].any()
        if bootstrap:  # all observations are alike, so all values are
            values = 0.99 * rollout.steps.value[0][done]
            np.testing.assert_allclose(cut[0][done], values, rtol=1e-5)
            assert np.abs(values).min() > 0
        assert not cut[0][~done].any()
        assert bootstrap or not cut.any()
        programs.close()
