"""Act with onnxruntime and NumPy only: nothing of Personae, JAX or Gymnasium.

personae policy onnx agent.persona --out models
python examples/deploy_onnx.py models/d3-000.onnx
"""

import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
seen = session.get_inputs()[0]
shape = [1 if isinstance(size, str) else size for size in seen.shape]
observation = np.zeros(shape, np.float32)  # what your sensors show, in a batch of one
action, policy = session.run(["action", "policy"], {seen.name: observation})
print(f"observation {shape} -> action {action[0]}, policy {policy[0]}")
