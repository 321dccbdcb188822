"""Bits survive packing, alone and in rows, in NumPy and in JAX."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays

from personae.bits import pack_bits, pack_bits_in_jax, pack_rows, unpack_bits


@given(arrays(bool, array_shapes(max_dims=4, max_side=9)))
def test_bits_survive_packing(bits):
    packed = pack_bits(bits)
    assert packed.nbytes == -(-bits.size // 8)
    np.testing.assert_array_equal(unpack_bits(packed, bits.shape), bits)


@given(arrays(bool, array_shapes(min_dims=2, max_dims=4, max_side=9)))
def test_rows_survive_packing(bits):
    packed = pack_rows(bits)
    np.testing.assert_array_equal(packed, [pack_bits(row) for row in bits])
    unpacked = unpack_bits(packed, bits.shape[1:])
    assert unpacked.dtype == bool
    np.testing.assert_array_equal(unpacked, bits)


def test_jax_packs_the_same_way():
    bits = np.random.RandomState(0).rand(5, 7) > 0.5
    packed = jax.jit(pack_bits_in_jax)(bits)
    np.testing.assert_array_equal(packed, pack_bits(bits))


def test_bits_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="2 bytes cannot hold"):
        unpack_bits(pack_bits(np.zeros(16, bool)), (3, 8))
