"""Convolutions of single images, as products of patches and kernels or by XLA."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from personae.types import PRNGKey


class Convolution(eqx.Module):
    """A convolution of one image with square kernels."""

    weight: Float[Array, "outputs inputs kernel kernel"]
    bias: Float[Array, " outputs"] | None
    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)
    """Zeros added on each side of the image."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        use_bias: bool,
        key: PRNGKey,
        padding: int = 0,
    ):
        # The default range of PyTorch and Equinox.
        bound = 1 / math.sqrt(inputs * kernel**2)
        shape = (outputs, inputs, kernel, kernel)
        weight_key, bias_key = jax.random.split(key)
        self.weight = jax.random.uniform(weight_key, shape, minval=-bound, maxval=bound)
        bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        self.bias = bias if use_bias else None
        self.stride = stride
        self.padding = padding

    def __call__(
        self, image: Float[Array, "height width inputs"]
    ) -> Float[Array, "new_height new_width outputs"]:
        """Convolve one image, whose channels are last."""
        side = (self.padding, self.padding)
        image = jnp.pad(image, (side, side, (0, 0)))
        # Networks with padding have many layers, whose patches would fill a GPU.
        uses_patches = not self.padding or jax.default_backend() == "cpu"
        convolve = convolve_patches if uses_patches else convolve_with_xla
        result = convolve(image, self.weight, self.stride)
        return result if self.bias is None else result + self.bias


def convolve_with_xla(image: Array, weight: Array, stride: int) -> Array:
    """Convolve with XLA, which stores no patches for gradients."""
    layout = ("NHWC", "OIHW", "NHWC")
    strides = (stride, stride)
    return jax.lax.conv_general_dilated(
        image[None], weight, strides, "VALID", dimension_numbers=layout
    )[0]


def convolve_patches(image: Array, weight: Array, stride: int) -> Array:
    """Multiply all patches of an image with all kernels at once.

    The image is cut into blocks as large as the stride. A patch then is a few whole
    blocks, which are copied in long rows. XLA's own convolutions take three times as
    long on a CPU, and a little longer on a GPU (docs/impala.md).
    """
    outputs, inputs, kernel, _ = weight.shape
    # Kernels must be multiples of their strides: 8 by 4, 4 by 2, 3 by 1, 1 by 1.
    blocks = kernel // stride
    height, width = (_size_after(size, kernel, stride) for size in image.shape[:2])
    rows, columns = height + blocks - 1, width + blocks - 1
    # Pixels beyond the last whole patch have no effect.
    cropped = image[: rows * stride, : columns * stride]
    cut = cropped.reshape(rows, stride, columns, stride, inputs).swapaxes(1, 2)
    grid = cut.reshape(rows, columns, -1)
    corners = itertools.product(range(blocks), repeat=2)
    shifted = [grid[i : i + height, j : j + width] for i, j in corners]
    patches = jnp.concatenate(shifted, -1).reshape(height * width, -1)
    # The kernels' entries in the order of a patch: block, pixel in the block, channel.
    parts = weight.reshape(outputs, inputs, blocks, stride, blocks, stride)
    kernels = jnp.transpose(parts, (2, 4, 3, 5, 1, 0)).reshape(-1, outputs)
    return (patches @ kernels).reshape(height, width, outputs)


def _size_after(size: int, kernel: int, stride: int) -> int:
    return (size - kernel) // stride + 1
