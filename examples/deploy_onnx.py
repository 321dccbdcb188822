"""Act with onnxruntime and NumPy only, without Personae, JAX or Gymnasium.

personae policy onnx agent.persona --out models
python examples/deploy_onnx.py models/d3-000.onnx
"""

import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
model_input = session.get_inputs()[0]
shape = [1 if isinstance(size, str) else size for size in model_input.shape]
# Put the readings of your sensors here, as a batch of one.
observation = np.zeros(shape, np.float32)
action, policy = session.run(["action", "policy"], {model_input.name: observation})
print(f"observation {shape} -> action {action[0]}, policy {policy[0]}")
