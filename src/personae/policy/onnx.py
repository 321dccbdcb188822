"""One task of an agent as ONNX: what is shown goes in, the most likely action out."""

from typing import Any

import numpy as np

from personae.errors import PersonaeError, require
from personae.policy.agent import Agent
from personae.policy.runtime import (
    LAYERS_OF_A_STAGE,
    Convolution,
    ConvolutionStack,
    Gaussian,
    Layer,
)
from personae.policy.spaces import ActionSpec

OPSET = 17
"""Of ONNX's operators: old enough for most runtimes."""


class _Graph:
    """Nodes and constants, one after another."""

    def __init__(self, onnx: Any):
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(value, name))
        return name

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of what comes out."""
        name = f"x{len(self.nodes)}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), [name], **attributes))
        return name

    def linear(self, inputs: str, layer: Layer) -> str:
        bias = layer.bias
        if bias is None:
            bias = np.zeros(layer.weight.shape[0], np.float32)
        weight = self.constant(layer.weight)
        return self.apply("Gemm", inputs, weight, self.constant(bias), transB=1)

    def convolution(self, inputs: str, layer: Convolution) -> str:
        names = [self.constant(layer.weight)]
        names += [] if layer.bias is None else [self.constant(layer.bias)]
        sizes = {"strides": [layer.stride] * 2, "pads": [layer.padding] * 4}
        return self.apply("Conv", inputs, *names, **sizes)

    def reshaped(self, inputs: str, *shape: int) -> str:
        return self.apply("Reshape", inputs, self.constant(np.array(shape, np.int64)))


def to_onnx(agent: Agent, task: str) -> bytes:
    """Return a model: `observation`, a batch as float32, to `action`, and `policy`.

    What is shown as one of finitely many things is its number, as int64. `policy` has
    the logits, or the mean and the log standard deviation side by side.
    """
    onnx = _import_onnx()
    require(
        not agent.manifest.previous_step,
        "this agent sees its last action and reward; ONNX models see observations only",
    )
    graph, acting = _Graph(onnx), agent.on(task)
    features = _features(graph, agent, task)
    policy, action = _head(graph, agent, task, features)
    graph.nodes.append(onnx.helper.make_node("Identity", [policy], ["policy"]))
    graph.nodes.append(onnx.helper.make_node("Identity", [action], ["action"]))
    value, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    shown, taken = acting.spec.shown, acting.spec.taken
    seen_as = kinds.FLOAT if shown.choices is None else kinds.INT64
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            f"{agent.manifest.curriculum} {task}",
            [value("observation", seen_as, ["batch", *shown.shape])],
            [
                value("action", _kind_of(graph, taken), ["batch", *taken.shape]),
                value("policy", kinds.FLOAT, ["batch", None]),
            ],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="personae",
    )
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _features(graph: _Graph, agent: Agent, task: str) -> str:
    acting = agent.on(task)
    policy, size = acting.policy, acting.spec.shown.size
    flat = "observation"
    if acting.spec.shown.choices is not None:
        first = graph.constant(np.array(acting.spec.shown.start, np.int64))
        place = graph.apply("Sub", flat, first)
        depth = graph.constant(np.array(size, np.int64))
        values = graph.constant(np.array([0, 1], np.float32))
        flat = graph.apply("OneHot", place, depth, values)
    flat = graph.reshaped(flat, -1, size)
    missing = agent.manifest.inputs - size
    if missing:
        ends = graph.constant(np.array([0, 0, 0, missing], np.int64))
        flat = graph.apply("Pad", flat, ends)
    if policy.mean is not None and policy.deviation is not None:
        flat = graph.apply("Sub", flat, graph.constant(policy.mean[None]))
        flat = graph.apply("Div", flat, graph.constant(policy.deviation[None]))
    flat = graph.apply(
        "Mul", flat, graph.constant(np.array([[policy.scale]], np.float32))
    )
    if policy.eyes is not None:
        flat = _looked(graph, policy.eyes, flat)
    between = "Relu" if policy.activation == "relu" else "Tanh"
    for linear in policy.body:
        flat = graph.apply(between, graph.linear(flat, linear))
    return flat


def _looked(graph: _Graph, eyes: ConvolutionStack, flat: str) -> str:
    """Return the name of the features of flat images."""
    pictures = graph.reshaped(flat, -1, *eyes.image)
    if eyes.image[-1] <= eyes.image[0]:  # channels come last, which ONNX wants first
        pictures = graph.apply("Transpose", pictures, perm=[0, 3, 1, 2])
    if not eyes.residual:
        for layer in eyes.layers:
            pictures = graph.apply("Relu", graph.convolution(pictures, layer))
        return graph.apply("Flatten", pictures)
    size = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    for start in range(0, len(eyes.layers), LAYERS_OF_A_STAGE):
        first, *blocks = eyes.layers[start : start + LAYERS_OF_A_STAGE]
        whole = graph.convolution(pictures, first)
        pictures = graph.apply("MaxPool", whole, **size)
        for one, other in zip(blocks[::2], blocks[1::2], strict=True):
            inner = graph.convolution(graph.apply("Relu", pictures), one)
            outer = graph.convolution(graph.apply("Relu", inner), other)
            pictures = graph.apply("Add", pictures, outer)
    return graph.apply("Flatten", graph.apply("Relu", pictures))


def _head(graph: _Graph, agent: Agent, task: str, features: str) -> tuple[str, str]:
    """Return the names of the policy and of the most likely action."""
    acting = agent.on(task)
    head, taken = acting.policy.head, acting.spec.taken
    if isinstance(head, Gaussian):
        number, parts = taken.number, (head.mean, head.log_std)
        mean, spread = (
            _columns(graph, graph.linear(features, part), 0, number) for part in parts
        )
        ends = [graph.constant(np.array([[end]], np.float32)) for end in head.bounds]
        policy = graph.apply("Concat", mean, _between(graph, spread, *ends), axis=1)
        bounds = [np.ravel(bound).astype(np.float32)[None] for bound in taken.bounds]
        own = _between(graph, mean, *map(graph.constant, bounds))
        own = graph.reshaped(own, -1, *taken.shape)
        return policy, graph.apply("Cast", own, to=_kind_of(graph, taken))
    logits, start, chosen = graph.linear(features, head.logits), 0, []
    for size, first in zip(head.sizes, taken.start, strict=True):
        these = _columns(graph, logits, start, start + size)
        best = graph.apply("ArgMax", these, axis=1, keepdims=int(not head.single))
        offset = graph.constant(np.array(first, np.int64))
        chosen.append(graph.apply("Add", best, offset))
        start += size
    policy = _columns(graph, logits, 0, start)
    if head.single:
        return policy, chosen[0]
    together = graph.apply("Concat", *chosen, axis=1)
    return policy, graph.reshaped(together, -1, *taken.shape)


def _between(graph: _Graph, inputs: str, low: str, high: str) -> str:
    return graph.apply("Min", graph.apply("Max", inputs, low), high)


def _kind_of(graph: _Graph, taken: ActionSpec) -> int:
    """Return what ONNX calls the type of actions."""
    kinds = graph.onnx.TensorProto
    if taken.kind != "box":
        return int(kinds.INT64)
    return int(kinds.FLOAT if taken.dtype.startswith("float") else kinds.INT64)


def _columns(graph: _Graph, inputs: str, start: int, end: int) -> str:
    bounds = [graph.constant(np.array([n], np.int64)) for n in (start, end, 1)]
    return graph.apply("Slice", inputs, *bounds)


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise PersonaeError(
            "ONNX models need onnx: pip install 'personae[onnx]'"
        ) from error
    return onnx
