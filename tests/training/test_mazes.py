"""Every kind of method is trained on mazes."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

import personae
from personae.curricula import Inputs, Task
from personae.curricula.crossing import maze_task
from personae.envs.crossing.maze import make_maze

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mazes(tiny):
    tasks = [maze_task(f"maze-{size}", make_maze(0, size)) for size in (5, 7)]
    return dataclasses.replace(
        tiny, id="test/Mazes-v0", tasks=tuple(tasks), inputs=Inputs(scale=0.1)
    )


@pytest.mark.parametrize("method", ["mask-lc", "ewc-mh", "packnet"])
def test_methods_train_on_fixed_mazes(mazes, tmp_path, method):
    record = personae.learn(mazes, method, seeds=2, out=tmp_path, quiet=True)
    assert record.evaluations.shape == (2, 4, 2)
    for preview, task in zip(record.previews, mazes.tasks, strict=True):
        # The walk along the optimal path pays exactly the target.
        steps = len(preview.actions)
        size = len(task.options["maze"])
        assert task.target == pytest.approx(1 - 0.9 * steps / (4 * size**2))
        np.testing.assert_allclose(preview.probabilities.sum(-1), 1, rtol=1e-5)


def test_a_method_trains_on_mazes_that_change(mazes, tmp_path):
    options = {"size": 5, "obstacle": "lava", "max_steps": 20}
    task = Task("changing", "personae/RandomCrossing-v0", options)
    curriculum = dataclasses.replace(mazes, tasks=(task,))
    record = personae.learn(curriculum, "mask-ri", seeds=2, out=tmp_path, quiet=True)
    assert record.evaluations.shape == (2, 2, 1)
    assert not record.previews  # no path is optimal for all of them


def test_random_mazes_by_name(personae_command):
    five, seven = map(personae.find_curriculum, ("crossing-5", "crossing-7"))
    assert seven.tasks[:5] == five.tasks
    assert personae.find_curriculum("personae/Crossing-5-v0") == five
    many = personae.find_curriculum("crossing-200").tasks
    assert len({tuple(task.options["maze"]) for task in many}) == 200
    assert five.ewc == personae.find_curriculum("mg10").ewc
    lava = personae.find_curriculum("lava-crossing-2")
    assert "~" in "".join(lava.tasks[1].options["maze"])
    for name in ("me/Crossing-5-v3", "personae/Crossing-5-v9", "crossing-" + "9" * 50):
        assert personae_command("curricula", name)[0] == 2
    code, _, errors = personae_command("curricula", "crossing-0")
    assert code == 2
    assert "the number of mazes must be 1 to 1000, not 0" in errors
    code, output, _ = personae_command("curricula", "lava-crossing-2")
    assert lava.tasks[0].options["maze"][3] in output
    code, output, _ = personae_command("curricula")
    assert "mg10" in output
    assert "crossing-N" in output


def test_naming_a_curriculum_does_not_start_jax():
    """A run configures JAX, which works only before a device is used."""
    code = (
        "import personae, jax; personae.find_curriculum('crossing-3');"
        "personae.find_curriculum('mg10');"
        "assert not jax._src.xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
