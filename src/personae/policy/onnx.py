"""One task of an agent as ONNX: what is shown goes in, the most likely action out."""

from typing import Any

import numpy as np

from personae.errors import PersonaeError, require
from personae.policy.agent import Agent
from personae.policy.runtime import Gaussian, Layer

OPSET = 17
"""Of ONNX's operators: old enough for most runtimes."""


class _Graph:
    """Nodes and constants, one after another."""

    def __init__(self, onnx: Any):
        self._onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(value, name))
        return name

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of what comes out."""
        name = f"x{len(self.nodes)}"
        make = self._onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), [name], **attributes))
        return name

    def linear(self, inputs: str, layer: Layer) -> str:
        bias = layer.bias
        if bias is None:
            bias = np.zeros(layer.weight.shape[0], np.float32)
        weight = self.constant(layer.weight)
        return self.apply("Gemm", inputs, weight, self.constant(bias), transB=1)

    def reshaped(self, inputs: str, *shape: int) -> str:
        return self.apply("Reshape", inputs, self.constant(np.array(shape, np.int64)))


def to_onnx(agent: Agent, task: str) -> bytes:
    """Return a model: `observation`, a batch as float32, to `action`, and `policy`.

    `policy` has the logits, or the mean and the log standard deviation side by side.
    """
    onnx = _import_onnx()
    require(
        not agent.manifest.recall,
        "this agent sees its last action and reward; ONNX models see observations only",
    )
    graph, acting = _Graph(onnx), agent.on(task)
    features = _features(graph, agent, task)
    policy, action = _head(graph, agent, task, features)
    graph.nodes.append(onnx.helper.make_node("Identity", [policy], ["policy"]))
    graph.nodes.append(onnx.helper.make_node("Identity", [action], ["action"]))
    value, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    shown, taken = acting.spec.shown, acting.spec.taken
    seen = (shown.size,) if shown.choices is not None else shown.shape
    taken_as = kinds.FLOAT if taken.kind == "box" else kinds.INT64
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            f"{agent.manifest.curriculum} {task}",
            [value("observation", kinds.FLOAT, ["batch", *seen])],
            [
                value("action", taken_as, ["batch", *taken.shape]),
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
    flat = graph.reshaped("observation", -1, size)
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
        image = policy.eyes.image
        pictures = graph.reshaped(flat, -1, *image)
        if image[-1] <= image[0]:  # channels come last, which ONNX wants first
            pictures = graph.apply("Transpose", pictures, perm=[0, 3, 1, 2])
        for layer in policy.eyes.layers:
            names = [graph.constant(layer.weight)]
            names += [] if layer.bias is None else [graph.constant(layer.bias)]
            stride = [layer.stride] * 2
            pictures = graph.apply("Conv", pictures, *names, strides=stride)
            pictures = graph.apply("Relu", pictures)
        flat = graph.apply("Flatten", pictures)
    between = "Relu" if policy.activation == "relu" else "Tanh"
    for linear in policy.body:
        flat = graph.apply(between, graph.linear(flat, linear))
    return flat


def _head(graph: _Graph, agent: Agent, task: str, features: str) -> tuple[str, str]:
    """Return the names of the policy and of the most likely action."""
    acting = agent.on(task)
    head, taken = acting.policy.head, acting.spec.taken
    if isinstance(head, Gaussian):
        mean, deviation = graph.linear(features, head.mean), head.log_std
        spread = graph.linear(features, deviation)
        policy = graph.apply("Concat", mean, spread, axis=1)
        own = _columns(graph, mean, 0, taken.number)
        low, high = (np.ravel(b).astype(np.float32)[None] for b in taken.bounds)
        own = graph.apply("Max", own, graph.constant(low))
        own = graph.apply("Min", own, graph.constant(high))
        return policy, graph.reshaped(own, -1, *taken.shape)
    logits, start, chosen = graph.linear(features, head.logits), 0, []
    for size, first in zip(head.sizes, taken.start, strict=True):
        these = _columns(graph, logits, start, start + size)
        best = graph.apply("ArgMax", these, axis=1, keepdims=int(not head.single))
        offset = graph.constant(np.array(first, np.int64))
        chosen.append(graph.apply("Add", best, offset))
        start += size
    if head.single:
        return logits, chosen[0]
    together = graph.apply("Concat", *chosen, axis=1)
    return logits, graph.reshaped(together, -1, *taken.shape)


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
