"""What masks tell, against cases small enough to count."""

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
    read_learned_masks,
    usage,
)
from personae.errors import PersonaeError
from personae.files import read_tensors, write_tensors
from personae.runs.directory import RunDirectory

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
    found = l2_distances(scores)
    np.testing.assert_array_equal(np.diagonal(found, axis1=1, axis2=2), 0)
    np.testing.assert_allclose(found, found.swapaxes(1, 2))
    direct = np.linalg.norm(scores[:, 0] - scores[:, 1], axis=-1)
    np.testing.assert_allclose(found[:, 0, 1], direct, atol=1e-4)


def test_empty_masks_are_alike():
    assert overlaps(np.zeros((1, 2, 3), bool)).tolist() == [[[1, 1], [1, 1]]]


def test_who_uses_what():
    layers = [MASKS, np.ones((1, 3, 1), bool)]
    # Users of the five weights: 3, 2, 1, 0 and 3.
    found = usage(layers)
    shares = found.by_none, found.by_one, found.by_several, found.by_all
    np.testing.assert_allclose(np.concatenate(shares), [0.2, 0.2, 0.2, 0.4])
    np.testing.assert_allclose(densities(layers), [[0.6, 0.6, 0.6]])


@given(hnp.arrays(bool, (2, 3, 7)))
def test_shares_add_up_and_are_never_negative(masks):
    found = usage([masks])
    np.testing.assert_allclose(sum(found), 1)
    assert min(share.min() for share in found) >= -1e-12


@pytest.mark.parametrize("method", ["mask-ri", "mask-lc", "mask-blc"])
def test_masks_are_read_from_a_run(lives, tiny, method):
    record = lives[method]
    kept = read_learned_masks(record.directory)
    assert kept.tasks == tuple(task.name for task in tiny.tasks)
    tensors, _ = read_tensors(RunDirectory(record.directory).mask_file(2, "d2-00"))
    for layer, scores in kept.scores.items():
        expected = tensors[f"scores/{layer}"].reshape(2, -1)
        np.testing.assert_array_equal(scores[:, 2], expected)
        np.testing.assert_array_equal(kept.masks[layer][:, 2], expected >= 0)
    if method == "mask-ri":
        assert kept.coefficients == {}
        return
    for weights in kept.coefficients.values():
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
        kept = {n: t for n, t in tensors.items() if "coeffi" not in n}
        kept.pop("bits/critic")
        if "coefficients/critic" in tensors:
            kept["coefficients"] = tensors["coefficients/critic"]
        return kept

    source = lives["mask-lc"].directory
    kept, whole = (
        read_learned_masks(rewritten(source, tmp_path, change)),
        read_learned_masks(source),
    )
    assert set(kept.masks) == set(whole.masks) - {"critic"}
    assert set(kept.coefficients) == {"all layers"}
    np.testing.assert_array_equal(
        kept.coefficients["all layers"], whole.coefficients["critic"]
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
    again = {n: t * 0 + 7 if "bits" not in n else t for n, t in tensors.items()}
    write_tensors(folder / "004-d1-1.safetensors", again, metadata | {"visit": 4})
    before, after = (
        read_learned_masks(lives["mask-lc"].directory),
        read_learned_masks(tmp_path),
    )
    for layer, weights in before.coefficients.items():
        np.testing.assert_array_equal(after.coefficients[layer], weights)
        assert (after.scores[layer][:, 1] == 7).all()
