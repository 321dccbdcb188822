"""Tests of the analysis of masks on cases small enough to count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from personae.analysis import (
    densities,
    hamming_distances,
    l2_distances,
    overlaps,
    usage,
)
from personae.errors import PersonaeError
from personae.files import read_tensors, write_tensors
from personae.runs.directory import RunDirectory
from personae.runs.learned_masks import read_learned_masks

MASKS = np.array([[[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]]], bool)


def test_distances_by_counting():
    hamming = [[0, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0]]
    np.testing.assert_allclose(hamming_distances(MASKS), [hamming])
    np.testing.assert_allclose(overlaps(MASKS)[0, 0], [1, 1 / 3, 1])


def test_the_distance_of_scores():
    scores = np.array([[[0.0, 0.0], [3.0, 4.0]]], np.float32)
    np.testing.assert_allclose(l2_distances(scores), [[[0, 5], [5, 0]]])


@given(hnp.arrays(np.float32, (2, 3, 5), elements=st.floats(-10, 10, width=32)))
def test_distances_are_distances(scores):
    distances = l2_distances(scores)
    np.testing.assert_array_equal(np.diagonal(distances, axis1=1, axis2=2), 0)
    np.testing.assert_allclose(distances, distances.swapaxes(1, 2))
    direct = np.linalg.norm(scores[:, 0] - scores[:, 1], axis=-1)
    np.testing.assert_allclose(distances[:, 0, 1], direct, atol=1e-4)


def test_empty_masks_are_alike():
    assert overlaps(np.zeros((1, 2, 3), bool)).tolist() == [[[1, 1], [1, 1]]]


def test_usage_by_counting():
    layers = [MASKS, np.ones((1, 3, 1), bool)]
    # Users of the five weights: 3, 2, 1, 0 and 3.
    np.testing.assert_allclose(np.concatenate(usage(layers)), [0.2, 0.2, 0.2, 0.4])
    np.testing.assert_allclose(densities(layers), [[0.6, 0.6, 0.6]])


@given(hnp.arrays(bool, (2, 3, 7)))
def test_shares_add_up_and_are_never_negative(masks):
    shares = usage([masks])
    np.testing.assert_allclose(sum(shares), 1)
    assert min(share.min() for share in shares) >= -1e-12


@pytest.mark.parametrize("method", ["mask-ri", "mask-lc", "mask-blc"])
def test_masks_are_read_from_a_run(lives, tiny, method):
    record = lives[method]
    learned = read_learned_masks(record.directory)
    assert learned.tasks == tuple(task.name for task in tiny.tasks)
    tensors, _ = read_tensors(RunDirectory(record.directory).mask_file(2, "d2-00"))
    for layer, scores in learned.scores.items():
        expected = tensors[f"scores/{layer}"].reshape(2, -1)
        np.testing.assert_array_equal(scores[:, 2], expected)
        np.testing.assert_array_equal(learned.masks[layer][:, 2], expected >= 0)
    if method == "mask-ri":
        assert learned.coefficients == {}
        return
    for weights in learned.coefficients.values():
        assert np.isnan(weights[:, 0]).all()
        for task in range(1, 4):
            np.testing.assert_allclose(
                weights[:, task, : task + 1].sum(-1), 1, rtol=1e-5
            )
            assert np.isnan(weights[:, task, task + 1 :]).all()


def test_a_method_without_masks_has_none(baselines):
    assert read_learned_masks(baselines["ewc-mh"].directory) is None


def rewritten(source, out, change):
    """Copy a run's masks with a change to the tensors of each visit."""
    files = RunDirectory(out)
    for path in sorted(RunDirectory(source).masks.iterdir()):
        tensors, metadata = read_tensors(path)
        write_tensors(files.masks / path.name, change(tensors), metadata)
    return out


def test_layers_without_bits_and_shared_coefficients(lives, tmp_path):
    def change(tensors):
        changed = {n: t for n, t in tensors.items() if "coeffi" not in n}
        changed.pop("bits/critic")
        if "coefficients/critic" in tensors:
            changed["coefficients"] = tensors["coefficients/critic"]
        return changed

    source = lives["mask-lc"].directory
    original = read_learned_masks(source)
    learned = read_learned_masks(rewritten(source, tmp_path, change))
    assert set(learned.masks) == set(original.masks) - {"critic"}
    assert set(learned.coefficients) == {"all layers"}
    np.testing.assert_array_equal(
        learned.coefficients["all layers"], original.coefficients["critic"]
    )


def test_a_missing_visit_is_named(lives, tmp_path):
    rewritten(lives["mask-lc"].directory, tmp_path, lambda tensors: tensors)
    next(RunDirectory(tmp_path).masks.glob("001-*")).unlink()
    with pytest.raises(PersonaeError, match="lacks the masks of visit 1"):
        read_learned_masks(tmp_path)


def test_coefficients_are_those_of_the_first_visit(lives, tmp_path):
    rewritten(lives["mask-lc"].directory, tmp_path, lambda tensors: tensors)
    folder = RunDirectory(tmp_path).masks
    tensors, metadata = read_tensors(next(folder.glob("001-*")))
    sevens = {n: t * 0 + 7 if "bits" not in n else t for n, t in tensors.items()}
    write_tensors(folder / "004-d1-1.safetensors", sevens, metadata | {"visit": 4})
    before, after = (
        read_learned_masks(lives["mask-lc"].directory),
        read_learned_masks(tmp_path),
    )
    for layer, weights in before.coefficients.items():
        np.testing.assert_array_equal(after.coefficients[layer], weights)
        assert (after.scores[layer][:, 1] == 7).all()
