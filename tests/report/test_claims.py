"""Tests of the claims: on made-up lives each one holds, fails or stays open."""

from pathlib import Path

import numpy as np
import pytest

import personae
from personae.curricula.paper_tables import TABLES, as_written
from personae.report import Collection, Record, compare_records
from personae.report.data.record import TrainingCurve
from personae.report.paper.claim import Runs
from personae.report.paper.claims import CLAIMS, verdicts
from personae.report.render.tables import claims_table, collection_tables
from personae.runs.learned_masks import LearnedMasks

NEVER = 20
"""Evaluations of a visit: a task with this start is never learned."""
USUAL = {
    "mask-ri": [5, 6, 5],
    "mask-lc": [3, 4, 3],
    "mask-blc": [1, 1, 2],
    "ppo": [8, 9, 8],
    "ewc-mh": [9, 9, 10],
    "expert": [9, 9, 9],
}
"""The evaluation of a visit at which each seed learns the task."""


def make_life(name, method, start, *, remembers=True):
    """Return a made-up run; `start` has a number per seed, or per seed and task."""
    plan = personae.find_curriculum(name).to_plain()
    tasks = tuple(task["name"] for task in plan["tasks"])
    targets = np.array([task["target"] for task in plan["tasks"]])
    interval = plan["steps_per_task"] // 512 // NEVER
    count = len(tasks)
    start = np.asarray(start, float)
    start = np.repeat(start[:, None], count, 1) if start.ndim == 1 else start
    trained = np.repeat(np.arange(count), NEVER)
    evaluation = np.tile(np.arange(NEVER), count)
    past = np.arange(count)[None] < trained[:, None]
    current = np.arange(count)[None] == trained[:, None]
    learning = current[None] & (evaluation[None, :, None] >= start[:, None])
    retained = past[None] & (start < NEVER)[:, None] & remembers
    return Record(
        directory=Path(method),
        run={
            "status": "finished",
            "config": {
                "curriculum": plan
                | {"evaluation": plan["evaluation"] | {"interval": interval}},
                "method": method,
                "seeds": list(range(len(start))),
            },
        },
        tasks=tasks,
        targets=targets,
        evaluation_steps=np.arange(len(trained)),
        evaluation_task=trained,
        evaluation_visit=trained,
        evaluations=(learning | retained) * targets,
        training=tuple(
            TrainingCurve(
                task,
                1000 * (1 + np.arange(NEVER)),
                (np.arange(NEVER) >= start[:, number, None]) * targets[number],
            )
            for number, task in enumerate(tasks)
        ),
    )


def make_masks(distances, shares):
    """Return made-up masks: distances of their scores, and last coefficients."""
    scores = np.cumsum([0, *distances])[None, :, None] * np.ones((3, 1, 1))
    tasks = scores.shape[1]
    random = np.random.default_rng(0).random((3, tasks, 4000))
    coefficients = np.full((3, tasks, tasks), np.nan)
    for task in range(1, tasks):
        coefficients[:, task, : task + 1] = 1 / (task + 1)
    coefficients[:, -1] = shares
    return LearnedMasks(
        tuple(map(str, range(tasks))),
        {"trunk.0": scores},
        {"trunk.0": random < 0.5},
        {"trunk.0": coefficients},
    )


def runs_of(name, changes=None, masks=None, forgetful=("ppo",)):
    lives = USUAL | (changes or {})
    records = [
        make_life(name, method, start, remembers=method not in forgetful)
        for method, start in lives.items()
    ]
    return Runs(compare_records(records, "mask-lc"), masks or {})


def verdict(name, claim, **changes):
    return verdicts(runs_of(name, **changes))[claim][1]


@pytest.mark.parametrize(
    ("claim", "name", "holds", "changes"),
    [
        ("no-forgetting", "ct8", True, {}),
        ("no-forgetting", "mg10", False, {"forgetful": ("ppo", "mask-lc")}),
        ("far-above-ppo", "ct8", True, {}),
        ("far-above-ppo", "ct8-md", False, {"forgetful": ()}),
        ("transfer-order", "ct12", True, {}),
        ("transfer-order", "ct8", False, {"changes": {"mask-lc": [12, 12, 13]}}),
        ("transfer-order", "ct8", None, {"changes": {"mask-blc": [1, 9, 1]}}),
        ("blc-fastest", "ct8", True, {}),
        ("blc-fastest", "ct8", False, {"changes": {"mask-blc": [6, 7, 6]}}),
        ("blc-fastest", "ct12", None, {"changes": {"mask-blc": [2, 7, 1]}}),
        ("blc-transfers-best", "mg10", True, {}),
        ("blc-transfers-best", "mg10", False, {"changes": {"mask-ri": [0, 0, 0]}}),
    ],
)
def test_claims_about_returns(claim, name, holds, changes):
    assert verdict(name, claim, **changes).holds is holds


def deep(*learned):
    """Return starts: four shallow graphs and a number of deep ones are learned."""
    return [[1] * (4 + count) + [NEVER] * (4 - count) for count in learned]


DEPTHS = {
    "mask-lc": deep(4, 4, 4),
    "mask-blc": deep(1, 2, 0),
    "mask-ri": deep(0, 1, 0),
    "ppo": deep(0, 0, 0),
    "ewc-mh": deep(0, 0, 0),
}


@pytest.mark.parametrize(
    ("holds", "changes"),
    [
        (True, {}),
        (False, {"mask-lc": deep(4, 0, 4)}),
        (False, {"mask-ri": deep(2, 2, 2)}),
        (False, {"mask-blc": deep(4, 4, 4)}),
        (False, {"mask-blc": deep(0, 0, 0)}),
    ],
)
def test_only_lc_goes_deep(holds, changes):
    assert (
        verdict("ct8-md", "only-lc-goes-deep", changes=DEPTHS | changes).holds is holds
    )


@pytest.mark.parametrize(
    ("claim", "holds", "method", "masks"),
    [
        ("uniform-coefficients", True, "mask-lc", make_masks([3, 1], [0.4, 0.3, 0.3])),
        ("uniform-coefficients", False, "mask-lc", make_masks([3, 1], [0.8, 0.1, 0.1])),
        ("lc-grow-similar", True, "mask-lc", make_masks([3, 1], [0.4, 0.3, 0.3])),
        ("lc-grow-similar", False, "mask-lc", make_masks([1, 3], [0.4, 0.3, 0.3])),
        ("ri-dissimilar", True, "mask-ri", make_masks([1, 1], [0.4, 0.3, 0.3])),
    ],
)
def test_claims_about_the_masks(claim, holds, method, masks):
    assert verdict("ct8", claim, masks={method: masks}).holds is holds


def test_masks_that_share_most_bits_are_not_dissimilar():
    alike = make_masks([1, 1], [0.4, 0.3, 0.3])
    alike.masks["trunk.0"][:, 1] = alike.masks["trunk.0"][:, 0]
    assert verdict("ct8", "ri-dissimilar", masks={"mask-ri": alike}).holds is False


def test_significance_is_compared_with_the_appendix():
    """In the paper, on CT8, LC differs in total from PPO and BLC, not RI and EWC."""
    same = verdict(
        "ct8", "significance", changes={"mask-ri": [3, 4, 3], "ewc-mh": [1, 9, 1]}
    )
    assert "total evaluation of mask-ri" not in same.evidence
    other = verdict("ct8", "significance")
    assert other.holds is False
    assert "not total evaluation of mask-ri" in other.evidence
    assert "(0.8)" in other.evidence  # the published p


def test_claims_apply_only_to_suitable_runs():
    names = {claim.name for claim in CLAIMS}
    assert len(names) == len(CLAIMS)
    assert {curriculum for claim in CLAIMS for curriculum in claim.curricula} == set(
        TABLES
    )
    for claim in CLAIMS:
        for name in claim.curricula:
            assert set(claim.methods) <= set(TABLES[name])
    single = runs_of("ct8", changes={method: [1] for method in USUAL})
    assert not verdicts(single)
    few = compare_records([make_life("ct8", "ppo", [1, 2])], "ppo")
    assert not claims_table(Runs(few, {})).rows
    table = claims_table(runs_of("ct8"))
    assert {row[0]: row[2] for row in table.rows}["no-forgetting"] == "holds"
    assert not {"lc-grow-similar", "only-lc-goes-deep"} & {row[0] for row in table.rows}


def test_a_failed_claim_names_its_likely_cause():
    texts = {}
    for name, changes in {"holds": {}, "fails": {"mask-ri": deep(4, 4, 4)}}.items():
        rows = claims_table(runs_of("ct8-md", changes=DEPTHS | changes)).rows
        texts[name] = {row[0]: row[2:] for row in rows}["only-lc-goes-deep"]
        assert texts[name][0] == name
    assert "25 seeds: 12 of PPO's 25 agents" in texts["fails"][1]
    assert "Likely cause" not in texts["holds"][1]
    other = runs_of("ct8-md", changes=DEPTHS | {"mask-ri": deep(4, 4, 4)})
    for record in other.comparison.records.values():
        record.run["config"]["curriculum"]["ppo"]["epochs"] = 8
    assert not any("Likely cause" in row[3] for row in claims_table(other).rows)
    for claim in CLAIMS:
        assert set(claim.causes) <= set(claim.curricula)


def test_the_text_of_the_paper_is_another_preset():
    written = as_written("mg10")
    assert (written.ppo.epochs, written.ewc.strength) == (8, 1e2)
    assert written.tasks == personae.find_curriculum("mg10").tasks


def test_a_report_begins_with_the_claims():
    comparison = runs_of("ct8").comparison
    collection = Collection(list(comparison.records.values()), None, comparison)
    claims, total = collection_tables(collection)[:2]
    assert claims.title == "Claims of the paper"
    assert "| transfer-order | Forward transfer" in claims.to_markdown()
    assert total.header[:4] == ("method", "total", "published", "difference")


@pytest.mark.slow
def test_the_command_reproduces_a_table(tmp_path, personae_command, monkeypatch):
    """All of it runs, with fewer methods and two iterations per task."""
    monkeypatch.setitem(TABLES, "ct8", ("ppo",))
    words = ["ct8", "--seeds", 2, "--steps-per-task", 512, "--out", tmp_path]
    code, output, errors = personae_command("reproduce", *words, "--quiet")
    assert code == 0, errors
    assert "Total evaluation on personae/CT8-v0" in output
    assert (tmp_path / "ct8" / "report.html").exists()
    assert {path.parent.name for path in tmp_path.glob("ct8/*/run.json")} == {
        "ppo",
        "expert",
    }
    code, _, errors = personae_command("reproduce", "ct9")
    assert code == 2
    assert "Did you mean 'ct8'" in errors
