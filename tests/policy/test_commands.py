"""`personae policy`, from a run to a model hub."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import personae
from personae.policy import load
from personae.policy.card import write_folder
from personae.policy.onnx import to_onnx
from personae.training import export_agent

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def run(lives):
    return lives["mask-blc"].directory


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    return export_agent(run, tmp_path_factory.mktemp("exported") / "agent.persona")


def test_export_and_show(run, personae_command, tmp_path):
    out = tmp_path / "some.persona"
    code, output, _ = personae_command(
        "policy", "export", str(run), "--seed", "1", "--out", str(out)
    )
    assert code == 0
    assert "some.persona: 4 tasks" in output
    code, output, _ = personae_command("policy", "show", str(out))
    assert code == 0
    assert "mask-blc on test/Tiny-v3, seed 1" in output
    assert "d2-11" in output
    assert "bits" in output


def test_play_and_film(file, personae_command):
    code, output, _ = personae_command("policy", "play", str(file), "--episodes", "2")
    assert code == 0
    assert output.count("steps, return") == 8
    code, output, _ = personae_command(
        "policy", "play", str(file), "--task", "d1-1", "--video"
    )
    film = file.with_name("agent-d1-1.gif")
    assert film.read_bytes().startswith(b"GIF")
    assert film.name in output.replace("\n", "")


def test_errors_name_the_problem(file, personae_command, tmp_path):
    code, _, errors = personae_command("policy", "play", str(file), "--task", "d1-2")
    assert code == 2
    assert "Did you mean" in errors
    (tmp_path / "no.persona").write_bytes(b"some text that is no agent")
    code, _, errors = personae_command("policy", "show", str(tmp_path / "no.persona"))
    assert code == 1
    assert "is not a whole agent" in errors
    code, _, errors = personae_command("policy", "export", str(tmp_path))
    assert code == 1
    assert "holds no readable run" in errors


def test_onnx_acts_alike(file, personae_command, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    code, output, _ = personae_command(
        "policy", "onnx", str(file), "--out", str(tmp_path / "models")
    )
    assert code == 0
    assert output.count(".onnx") == 4
    agent = load(file)
    rng = np.random.default_rng(0)
    observations = rng.integers(0, 256, (2000, 12, 12)).astype(np.float32)
    for task in agent.tasks:
        session = onnxruntime.InferenceSession(tmp_path / "models" / f"{task}.onnx")
        action, logits = session.run(
            ["action", "policy"], {"observation": observations}
        )
        task_agent = agent.on(task)
        flat = task_agent.spec.observation.encode(observations, 144)
        policy = task_agent.policy
        expected = policy.head.logits(policy.features(flat))
        np.testing.assert_allclose(logits, expected, atol=1e-5)
        np.testing.assert_array_equal(action, logits.argmax(-1))
        single = session.run(["action"], {"observation": observations[:1]})[0]
        np.testing.assert_array_equal(single, action[:1])


def test_a_model_hub_reads_the_folder(file, personae_command, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    folder = tmp_path / "agent"
    code, _, _ = personae_command("policy", "card", str(file), "--out", str(folder))
    assert code == 0
    card = hub.ModelCard.load(folder / "README.md")
    assert card.data.to_dict()["library_name"] == "personae"
    results = card.data.eval_results
    manifest = load(folder / "agent.persona").manifest
    assert [result.dataset_name for result in results] == [
        t.name for t in manifest.tasks
    ]
    assert [result.metric_value for result in results] == [
        task.evaluation for task in manifest.tasks
    ]
    config = json.loads((folder / "config.json").read_text())
    assert config["curriculum"] == "test/Tiny-v3"


def test_a_model_card_names_method_and_tasks(file, tmp_path):
    folder = write_folder(load(file), file, tmp_path / "agent")
    card = (folder / "README.md").read_text()
    assert "# mask-blc on test/Tiny-v3, seed 0" in card
    assert "| d2-11 | `personae/CTGraph-v0` |" in card
    assert 'agent.act(observation, task="d1-0")' in card


@pytest.mark.parametrize("example", ["play_all.py", "deploy_onnx.py"])
def test_the_examples_run(example, file, tmp_path):
    path = file
    if example == "deploy_onnx.py":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")
        path = tmp_path / "d1-0.onnx"
        path.write_bytes(to_onnx(load(file), "d1-0"))
    program = [sys.executable, str(EXAMPLES / example), str(path)]
    result = subprocess.run(program, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    expected = "d2-11: " if example == "play_all.py" else "-> action"
    assert expected in result.stdout


def test_the_example_of_a_warm_start_fits_ct8():
    following = personae.load_curriculum(EXAMPLES / "next.toml")
    ct8 = personae.find_curriculum("ct8")
    assert following.label_dim == ct8.label_dim
    assert (following.network, following.inputs.scale) == (
        ct8.network,
        ct8.inputs.scale,
    )
