"""Whether a file's arrays make the network that its manifest tells of."""

from collections.abc import Mapping

import numpy as np

from personae.policy.compact import check_array, check_layer, parts_of
from personae.policy.manifest import Manifest
from personae.policy.runtime import LAYERS_OF_A_STAGE
from personae.policy.tensors import check

MOST_IN_PATCHES = 1 << 24
"""Numbers in all patches of an image, which are made at once: 64 MiB."""


def check_network(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that do not make the network that the manifest tells of."""
    tasks, form = len(manifest.tasks), manifest.form
    known = [name for layer in manifest.layers for name in parts_of(layer)]
    for layer in manifest.layers:
        check_layer(layer, arrays, tasks)
    if manifest.normalised:
        for name in ("mean", "deviation"):
            check_array(arrays, name, (tasks, manifest.inputs), ("f4",))
            known.append(name)
    if manifest.scores:
        known += _check_scores(arrays, tasks)
    unknown = sorted(arrays.keys() - set(known))
    check(not unknown, f"it has arrays that nothing tells of: {unknown[:3]}")
    joined = manifest.beside + manifest.label_dim
    width = manifest.inputs
    for name, stride in zip(form.convolutions, form.strides, strict=True):
        shape = manifest.layer(name).shape
        fits = len(shape) == 4 and shape[2] == shape[3]
        check(fits and stride <= shape[2], f"layer {name!r} has the shape {shape}")
        whole = not form.residual or (shape[2] == 3 and stride == 1)
        check(whole, f"layer {name!r} is not of a stage: {shape}, stride {stride}")
    if form.convolutions:
        width = _features_of_images(manifest)
    chain = (*form.body, form.heads[0])
    for name in chain:
        width += joined if name in form.joined else 0
        _check_width(manifest, name, width)
        features, width = width, manifest.layer(name).shape[0]
    for name in form.heads[1:]:
        _check_width(manifest, name, features)
    actions = [manifest.layer(name).shape[0] for name in form.heads]
    _check_actions(manifest, actions)


def _check_scores(arrays: Mapping[str, np.ndarray], tasks: int) -> list[str]:
    """Refuse scores, or a backbone, that no life can go on from; return their names."""
    names = [name for name in arrays if name.startswith(("scores/", "backbone/"))]
    check(any(name.startswith("scores/") for name in names), "it lacks scores")
    for name in names:
        array, kind = arrays[name], arrays[name].dtype.str[1:]
        bits = name.startswith("backbone/signs/")
        check(kind == ("u1" if bits else "f4"), f"{name!r} is of type {array.dtype}")
        check(bits or bool(np.isfinite(array).all()), f"{name!r} is not all numbers")
        rows = array.shape[:1] == (tasks,)
        check(rows or name.startswith("backbone/"), f"{name!r} is not of {tasks} tasks")
    return names


def _check_width(manifest: Manifest, name: str, width: int) -> None:
    shape = manifest.layer(name).shape
    fits = len(shape) == 2 and shape[1] == width
    check(fits, f"layer {name!r} has the shape {shape} and {width} inputs")


def _features_of_images(manifest: Manifest) -> int:
    """Return how many numbers come out of the convolutions."""
    form, image = manifest.form, manifest.form.image
    last = image[-1] <= image[0]
    *sides, channels = image if last else (*image[1:], image[0])
    pixels = image[0] * image[1] * image[2]
    check(pixels == manifest.inputs, f"images {image}, {manifest.inputs} inputs")
    strides = zip(form.convolutions, form.strides, strict=True)
    for number, (name, stride) in enumerate(strides):
        outputs, inputs, kernel, _ = manifest.layer(name).shape
        check(inputs == channels, f"layer {name!r} does not fit {channels} channels")
        sides = [(side + 2 * form.padding - kernel) // stride + 1 for side in sides]
        check(min(sides) >= 1, f"images {image} are too small for {name!r}")
        patches = sides[0] * sides[1] * inputs * kernel**2
        check(patches <= MOST_IN_PATCHES, f"layer {name!r} looks at {patches} numbers")
        channels = outputs
        if form.residual:
            place = number % LAYERS_OF_A_STAGE
            sides = [(side + 1) // 2 for side in sides] if place == 0 else sides
            added = place == 0 or inputs == outputs
            check(added, f"layer {name!r} adds {outputs} channels to {inputs}")
    return sides[0] * sides[1] * channels


def _check_actions(manifest: Manifest, outputs: list[int]) -> None:
    form = manifest.form
    for task in manifest.tasks:
        taken, name = task.taken, task.name
        wanted = "gaussian" if taken.kind == "box" else "choices"
        check(form.head == wanted, f"task {name!r}: {taken.kind} from {form.head}")
        check(form.single == (taken.kind == "discrete"), f"task {name!r}: {taken.kind}")
        if taken.kind == "multi-discrete":
            check(taken.sizes == form.sizes, f"task {name!r} has choices of its own")
        check(taken.number <= outputs[0], f"task {name!r} has too many actions")
    same = all(number == outputs[0] for number in outputs)
    listed = form.head == "gaussian" or sum(form.sizes) == outputs[0]
    check(same and listed, f"its heads have {outputs} outputs")
