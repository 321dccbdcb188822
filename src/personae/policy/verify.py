"""Checks that a file's arrays make the network that its manifest describes."""

import numpy as np

from personae.policy.compact import check_array, check_layer, parts_of
from personae.policy.manifest import Manifest
from personae.policy.runtime import LAYERS_PER_STAGE
from personae.policy.tensors import Arrays, check

MAX_PATCH_NUMBERS = 1 << 24
"""Numbers in all patches of an image, which are made at once: 64 MiB."""


def check_network(manifest: Manifest, arrays: Arrays) -> None:
    """Raise an error unless arrays make the network that a manifest describes."""
    # First, as the other checks read the manifest's shapes only.
    _check_arrays(manifest, arrays)
    _check_convolutions(manifest)
    _check_widths(manifest)
    _check_actions(manifest)


def _check_arrays(manifest: Manifest, arrays: Arrays) -> None:
    """Raise an error unless exactly the arrays of the manifest exist."""
    tasks = len(manifest.tasks)
    names = [name for layer in manifest.layers for name in parts_of(layer)]
    for layer in manifest.layers:
        check_layer(layer, arrays, tasks)
    if manifest.normalised:
        for name in ("mean", "deviation"):
            check_array(arrays, name, (tasks, manifest.observation_size), ("f4",))
            names.append(name)
    if manifest.scores:
        names += _check_scores(arrays, tasks)
    unknown = sorted(arrays.keys() - set(names))
    check(not unknown, f"its manifest does not mention the arrays {unknown[:3]}")


def _check_scores(arrays: Arrays, tasks: int) -> list[str]:
    """Check the arrays of a warm start; return their names."""
    # A warm start compares names and shapes with those of its own network, whose critic
    # the manifest does not describe.
    names = [name for name in arrays if name.startswith(("scores/", "backbone/"))]
    check(any(name.startswith("scores/") for name in names), "it lacks scores")
    for name in names:
        array, dtype = arrays[name], arrays[name].dtype.str[1:]
        bits = name.startswith("backbone/signs/")
        check(dtype == ("u1" if bits else "f4"), f"{name!r} is of type {array.dtype}")
        finite = bits or bool(np.isfinite(array).all())
        check(finite, f"{name!r} has numbers that are not finite")
        rows = array.shape[:1] == (tasks,)
        check(rows or name.startswith("backbone/"), f"{name!r} is not of {tasks} tasks")
    return names


def _check_convolutions(manifest: Manifest) -> None:
    """Raise an error unless convolutions have square kernels that fit their stride."""
    architecture = manifest.architecture
    layers = zip(architecture.convolutions, architecture.strides, strict=True)
    for name, stride in layers:
        shape = manifest.layer(name).shape
        # A larger stride than the kernel would leave out pixels.
        square = len(shape) == 4 and shape[2] == shape[3]
        check(square and stride <= shape[2], f"layer {name!r} has the shape {shape}")
        fits = not architecture.residual or (shape[2] == 3 and stride == 1)
        check(fits, f"layer {name!r} is not of a stage: {shape}, stride {stride}")


def _check_widths(manifest: Manifest) -> None:
    """Raise an error unless each layer takes the outputs of the one before it."""
    architecture = manifest.architecture
    width = manifest.observation_size
    if architecture.convolutions:
        width = _count_image_features(manifest)
    for name in (*architecture.body, architecture.heads[0]):
        if name in architecture.layers_with_extra_inputs:
            width += manifest.num_extra_inputs + manifest.label_dim
        _check_width(manifest, name, width)
        features, width = width, manifest.layer(name).shape[0]
    # All heads take the features of the last layer of the body.
    for name in architecture.heads[1:]:
        _check_width(manifest, name, features)


def _check_width(manifest: Manifest, name: str, width: int) -> None:
    shape = manifest.layer(name).shape
    fits = len(shape) == 2 and shape[1] == width
    check(fits, f"layer {name!r} has the shape {shape} and {width} inputs")


def _count_image_features(manifest: Manifest) -> int:
    """Check the sizes between convolutions; return the number of their outputs."""
    architecture, image = manifest.architecture, manifest.architecture.image_shape
    # The smaller end of the shape is the channel axis, as in `ConvolutionStack`.
    channels_last = image[-1] <= image[0]
    *sides, channels = image if channels_last else (*image[1:], image[0])
    pixels, size = image[0] * image[1] * image[2], manifest.observation_size
    check(pixels == size, f"images {image}, {size} inputs")
    layers = zip(architecture.convolutions, architecture.strides, strict=True)
    for index, (name, stride) in enumerate(layers):
        outputs, inputs, kernel, _ = manifest.layer(name).shape
        check(inputs == channels, f"layer {name!r} does not fit {channels} channels")
        padding = 2 * architecture.padding
        sides = [(side + padding - kernel) // stride + 1 for side in sides]
        check(min(sides) >= 1, f"images {image} are too small for {name!r}")
        numbers = sides[0] * sides[1] * inputs * kernel**2
        check(
            numbers <= MAX_PATCH_NUMBERS,
            f"layer {name!r} needs patches of {numbers} numbers",
        )
        channels = outputs
        if architecture.residual:
            pooled = index % LAYERS_PER_STAGE == 0
            sides = [(side + 1) // 2 for side in sides] if pooled else sides
            # Blocks add their outputs to their inputs.
            fits = pooled or inputs == outputs
            check(fits, f"layer {name!r} adds {outputs} channels to {inputs}")
    return sides[0] * sides[1] * channels


def _check_actions(manifest: Manifest) -> None:
    """Raise an error unless the heads' outputs are actions of every task."""
    architecture = manifest.architecture
    outputs = [manifest.layer(name).shape[0] for name in architecture.heads]
    for task in manifest.tasks:
        action, name = task.action, task.name
        head = "gaussian" if action.kind == "box" else "categorical"
        valid = architecture.head == head
        valid = valid and architecture.scalar_action == (action.kind == "discrete")
        check(
            valid, f"task {name!r}: {action.kind} actions of a {architecture.head} head"
        )
        if action.kind == "multi-discrete":
            same = action.sizes == architecture.action_sizes
            check(same, f"task {name!r} has other choices than the network")
        check(action.num_actions <= outputs[0], f"task {name!r} has too many actions")
    equal = all(number == outputs[0] for number in outputs)
    gaussian = architecture.head == "gaussian"
    complete = gaussian or sum(architecture.action_sizes) == outputs[0]
    check(equal and complete, f"its heads have {outputs} outputs")
