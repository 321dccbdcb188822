"""Weights in few bits, and back again, exactly."""

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personae.policy.compact import check_layer, pack, weight_of
from personae.policy.manifest import LayerSpec
from personae.policy.tensors import BadAgentError

SHAPES = st.sampled_from([(1, 1), (3, 5), (8, 8), (2, 3, 4, 4)])


def unpacked(name, weights, backbone, half=False):
    stored, arrays = pack(name, weights, backbone, half)
    layer = LayerSpec(name, weights[0].shape, **stored)
    check_layer(layer, arrays, len(weights))
    return layer, arrays, [weight_of(layer, arrays, k) for k in range(len(weights))]


@given(st.data(), SHAPES, st.integers(1, 4), st.sampled_from([1, -1]))
def test_masks_of_signed_constants_are_bits(data, shape, tasks, smallest):
    """`smallest` is -1 where masks may also turn weights around."""
    signs = data.draw(arrays_of.arrays(bool, shape))
    values = st.integers(min(smallest, 0), 1)
    masks = data.draw(arrays_of.arrays(np.int8, (tasks, *shape), elements=values))
    constant = np.float32(np.sqrt(2 / 7))
    backbone = np.where(signs, constant, -constant)
    weights = [backbone * mask.astype(np.float32) for mask in masks]
    layer, arrays, found = unpacked("a", weights, backbone)
    assert layer.stored == ("signed-bits" if (masks < 0).any() else "bits")
    for weight, again in zip(weights, found, strict=True):
        np.testing.assert_array_equal(weight, again)
        assert again.dtype == np.float32
    if layer.stored == "bits":
        size = sum(array.nbytes for array in arrays.values())
        assert size == (tasks + 1) * -(-signs.size // 8)


def test_other_numbers_are_kept_as_they_are():
    rng = np.random.default_rng(0)
    backbone = np.where(rng.random((4, 6)) < 0.5, 0.5, -0.5).astype(np.float32)
    scores = rng.random((3, 4, 6)).astype(np.float32)
    weights = [backbone * score for score in scores]
    layer, _, found = unpacked("a", weights, backbone)
    assert layer.stored == "own"
    np.testing.assert_array_equal(found, weights)
    layer, arrays, found = unpacked("a", weights, backbone, half=True)
    assert arrays["weights/a"].dtype == np.float16
    np.testing.assert_allclose(found, weights, rtol=1e-3)


def test_what_is_the_same_on_all_tasks_is_kept_once():
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    layer, arrays, found = unpacked("a", [weight] * 5, None, half=True)
    assert layer.stored == "shared"
    assert arrays["weights/a"].shape == (1, 2, 3)
    np.testing.assert_array_equal(found, [weight] * 5)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("masks/a", None, "lacks 'masks/a'"),
        ("masks/a", np.zeros((2, 3), np.uint8), "is uint8"),
        ("signs/a", np.zeros(2, np.float32), "is float32"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, array, message):
    layer = LayerSpec("a", (3, 5), "bits", 0.5)
    arrays = {"signs/a": np.zeros(2, np.uint8), "masks/a": np.zeros((2, 2), np.uint8)}
    check_layer(layer, arrays, 2)
    arrays[name] = array
    if array is None:
        del arrays[name]
    with pytest.raises(BadAgentError, match=message):
        check_layer(layer, arrays, 2)
