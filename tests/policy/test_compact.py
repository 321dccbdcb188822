"""Weights survive packing in few bits, exactly."""

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from personae.policy.compact import check_layer, pack_weights, weight_of
from personae.policy.manifest import LayerSpec
from personae.policy.tensors import BadAgentError

SHAPES = st.sampled_from([(1, 1), (3, 5), (8, 8), (2, 3, 4, 4)])


def pack_and_unpack(weights, backbone, half=False):
    """Return the layer's specification, its arrays and the weights read back."""
    packed = pack_weights("a", weights, backbone, half)
    layer = LayerSpec("a", weights[0].shape, packed.storage, packed.constant)
    check_layer(layer, packed.arrays, len(weights))
    unpacked = [weight_of(layer, packed.arrays, task) for task in range(len(weights))]
    return layer, packed.arrays, unpacked


@given(st.data(), SHAPES, st.integers(1, 4), st.sampled_from([1, -1]))
def test_masks_of_signed_constants_are_bits(data, shape, tasks, smallest):
    """`smallest` is -1 where masks may also invert signs."""
    signs = data.draw(arrays_of.arrays(bool, shape))
    values = st.integers(min(smallest, 0), 1)
    masks = data.draw(arrays_of.arrays(np.int8, (tasks, *shape), elements=values))
    constant = np.float32(np.sqrt(2 / 7))
    backbone = np.where(signs, constant, -constant)
    weights = [backbone * mask.astype(np.float32) for mask in masks]
    layer, arrays, unpacked = pack_and_unpack(weights, backbone)
    assert layer.storage == ("signed-bits" if (masks < 0).any() else "bits")
    for weight, unpacked_weight in zip(weights, unpacked, strict=True):
        np.testing.assert_array_equal(weight, unpacked_weight)
        assert unpacked_weight.dtype == np.float32
    if layer.storage == "bits":
        size = sum(array.nbytes for array in arrays.values())
        assert size == (tasks + 1) * -(-signs.size // 8)


def test_other_numbers_are_stored_unchanged():
    rng = np.random.default_rng(0)
    backbone = np.where(rng.random((4, 6)) < 0.5, 0.5, -0.5).astype(np.float32)
    scores = rng.random((3, 4, 6)).astype(np.float32)
    weights = [backbone * score for score in scores]
    layer, _, unpacked = pack_and_unpack(weights, backbone)
    assert layer.storage == "per-task"
    np.testing.assert_array_equal(unpacked, weights)
    layer, arrays, unpacked = pack_and_unpack(weights, backbone, half=True)
    assert arrays["weights/a"].dtype == np.float16
    np.testing.assert_allclose(unpacked, weights, rtol=1e-3)


def test_numbers_of_all_tasks_are_stored_once():
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    layer, arrays, unpacked = pack_and_unpack([weight] * 5, None, half=True)
    assert layer.storage == "shared"
    assert arrays["weights/a"].shape == (1, 2, 3)
    np.testing.assert_array_equal(unpacked, [weight] * 5)


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
