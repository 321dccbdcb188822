"""One task of an agent as an ONNX model, from observations to actions."""

from types import ModuleType

import numpy as np

from personae.errors import PersonaeError, require
from personae.policy.agent import Agent, TaskAgent
from personae.policy.runtime import (
    LAYERS_PER_STAGE,
    Convolution,
    ConvolutionStack,
    GaussianHead,
    Layer,
)
from personae.policy.spaces import ActionSpec, ObservationSpec

OPSET = 17
"""The version of ONNX's operators: old enough for most runtimes."""
IR_VERSION = 8
"""The version of ONNX's file format that came with these operators."""


class _Graph:
    """Nodes and constants of a model, in the order in which they were added."""

    # The module is handed in, as onnx is an optional dependency.
    def __init__(self, onnx: ModuleType):
        self.onnx = onnx
        self.nodes: list[object] = []
        self.constants: list[object] = []

    def constant(self, value: np.ndarray) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(value, name))
        return name

    def apply(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Add a node; return the name of its output."""
        name = f"x{len(self.nodes)}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), [name], **attributes))
        return name

    def linear(self, inputs: str, layer: Layer) -> str:
        """Add a linear layer."""
        bias = layer.bias
        if bias is None:
            bias = np.zeros(layer.weight.shape[0], np.float32)
        weight = self.constant(layer.weight)
        return self.apply("Gemm", inputs, weight, self.constant(bias), transB=1)

    def convolution(self, inputs: str, layer: Convolution) -> str:
        """Add a convolution."""
        # Unlike Gemm, Conv needs no bias of zeros.
        names = [self.constant(layer.weight)]
        names += [] if layer.bias is None else [self.constant(layer.bias)]
        sizes = {"strides": [layer.stride] * 2, "pads": [layer.padding] * 4}
        return self.apply("Conv", inputs, *names, **sizes)

    def reshape(self, inputs: str, *shape: int) -> str:
        """Add a change of shape."""
        return self.apply("Reshape", inputs, self.constant(np.array(shape, np.int64)))

    def columns(self, inputs: str, start: int, end: int) -> str:
        """Add a slice of columns."""
        bounds = [self.constant(np.array([n], np.int64)) for n in (start, end, 1)]
        return self.apply("Slice", inputs, *bounds)

    def clip(self, inputs: str, low: str, high: str) -> str:
        """Add bounds on values."""
        # ONNX's own Clip takes bounds that are scalars only.
        return self.apply("Min", self.apply("Max", inputs, low), high)


def to_onnx(agent: Agent, task: str) -> bytes:
    """Return a model of one task: from `observation` to `action` and `policy`.

    `observation` is a batch as float32, or of int64 where the environment's
    observations are one of finitely many values. `policy` has the logits, or the mean
    and the log standard deviation side by side.
    """
    onnx = _import_onnx()
    require(
        not agent.manifest.previous_step,
        "the inputs of this agent include its last action and reward; ONNX models see "
        "observations only",
    )
    graph, task_agent = _Graph(onnx), agent.on(task)
    features = _features(graph, task_agent, agent.manifest.observation_size)
    policy, action = _head(graph, task_agent, features)
    # Outputs have fixed names, whichever nodes compute them.
    graph.nodes.append(onnx.helper.make_node("Identity", [policy], ["policy"]))
    graph.nodes.append(onnx.helper.make_node("Identity", [action], ["action"]))
    value, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    observation_spec, action_spec = task_agent.spec.observation, task_agent.spec.action
    numbers = observation_spec.num_values is None
    dtype = types.FLOAT if numbers else types.INT64
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            f"{agent.manifest.curriculum} {task}",
            [value("observation", dtype, ["batch", *observation_spec.shape])],
            [
                value(
                    "action", _dtype(graph, action_spec), ["batch", *action_spec.shape]
                ),
                # Its width is the number of this task's actions, or twice that.
                value("policy", types.FLOAT, ["batch", None]),
            ],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="personae",
    )
    # The full check infers all shapes, as a runtime does when it loads a model.
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _features(graph: _Graph, agent: TaskAgent, observation_size: int) -> str:
    """Add all layers before the head; return the name of their outputs."""
    policy = agent.policy
    flat = _encode(graph, agent.spec.observation, observation_size)
    if policy.mean is not None and policy.deviation is not None:
        flat = graph.apply("Sub", flat, graph.constant(policy.mean[None]))
        flat = graph.apply("Div", flat, graph.constant(policy.deviation[None]))
    flat = graph.apply(
        "Mul", flat, graph.constant(np.array([[policy.scale]], np.float32))
    )
    if policy.convolutions is not None:
        flat = _convolve(graph, policy.convolutions, flat)
    activation = "Relu" if policy.activation == "relu" else "Tanh"
    for layer in policy.body:
        flat = graph.apply(activation, graph.linear(flat, layer))
    return flat


def _encode(graph: _Graph, spec: ObservationSpec, observation_size: int) -> str:
    """Add the encoding of observations; return the name of flat, padded ones."""
    flat = "observation"
    if spec.num_values is not None:
        start = graph.constant(np.array(spec.start, np.int64))
        index = graph.apply("Sub", flat, start)
        depth = graph.constant(np.array(spec.size, np.int64))
        values = graph.constant(np.array([0, 1], np.float32))
        flat = graph.apply("OneHot", index, depth, values)
    flat = graph.reshape(flat, -1, spec.size)
    missing = observation_size - spec.size
    if missing:
        margins = graph.constant(np.array([0, 0, 0, missing], np.int64))
        flat = graph.apply("Pad", flat, margins)
    return flat


def _convolve(graph: _Graph, stack: ConvolutionStack, flat: str) -> str:
    """Add convolutions of flat images; return the name of their flat features."""
    images = graph.reshape(flat, -1, *stack.image_shape)
    # ONNX has channels first, as the smaller end of the shape is the channel axis.
    if stack.image_shape[-1] <= stack.image_shape[0]:
        images = graph.apply("Transpose", images, perm=[0, 3, 1, 2])
    if not stack.residual:
        for layer in stack.layers:
            images = graph.apply("Relu", graph.convolution(images, layer))
        return graph.apply("Flatten", images)
    pooling = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    for start in range(0, len(stack.layers), LAYERS_PER_STAGE):
        first, *blocks = stack.layers[start : start + LAYERS_PER_STAGE]
        images = graph.apply("MaxPool", graph.convolution(images, first), **pooling)
        for inner, outer in zip(blocks[::2], blocks[1::2], strict=True):
            hidden = graph.convolution(graph.apply("Relu", images), inner)
            residual = graph.convolution(graph.apply("Relu", hidden), outer)
            images = graph.apply("Add", images, residual)
    return graph.apply("Flatten", graph.apply("Relu", images))


def _head(graph: _Graph, agent: TaskAgent, features: str) -> tuple[str, str]:
    """Add the head; return the names of the policy and of the most likely action."""
    head, spec = agent.policy.head, agent.spec.action
    if isinstance(head, GaussianHead):
        return _gaussian_head(graph, head, spec, features)
    logits, start, actions = graph.linear(features, head.logits), 0, []
    for size, first in zip(head.sizes, spec.start, strict=True):
        choice = graph.columns(logits, start, start + size)
        # Of equal logits the first one, as NumPy takes it.
        best = graph.apply("ArgMax", choice, axis=1, keepdims=int(not head.scalar))
        offset = graph.constant(np.array(first, np.int64))
        actions.append(graph.apply("Add", best, offset))
        start += size
    policy = graph.columns(logits, 0, start)
    if head.scalar:
        return policy, actions[0]
    joined = graph.apply("Concat", *actions, axis=1)
    return policy, graph.reshape(joined, -1, *spec.shape)


def _gaussian_head(
    graph: _Graph, head: GaussianHead, spec: ActionSpec, features: str
) -> tuple[str, str]:
    mean, log_std = (
        graph.columns(graph.linear(features, layer), 0, spec.num_actions)
        for layer in (head.mean, head.log_std)
    )
    low, high = (
        graph.constant(np.array([[bound]], np.float32)) for bound in head.log_std_bounds
    )
    policy = graph.apply("Concat", mean, graph.clip(log_std, low, high), axis=1)
    low, high = (
        graph.constant(np.ravel(bound).astype(np.float32)[None])
        for bound in spec.bounds
    )
    action = graph.reshape(graph.clip(mean, low, high), -1, *spec.shape)
    return policy, graph.apply("Cast", action, to=_dtype(graph, spec))


def _dtype(graph: _Graph, spec: ActionSpec) -> int:
    """Return ONNX's number for the type of actions."""
    types = graph.onnx.TensorProto
    real = spec.kind == "box" and spec.dtype.startswith("float")
    return int(types.FLOAT if real else types.INT64)


def _import_onnx() -> ModuleType:
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
