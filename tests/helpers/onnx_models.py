"""Small ONNX models, run with ONNX Runtime."""

import numpy as np
import onnxruntime as ort
from onnx import helper


def run(model, **inputs):
    """Run a model, and return its outputs by name."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def identity_model(n_labels, dtype="float32", opset=17):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    taken = helper.make_tensor_value_info("x", kind, ["rows", n_labels])
    given = helper.make_tensor_value_info("scores", kind, ["rows", n_labels])
    node = helper.make_node("Identity", ["x"], ["scores"], name="copy")
    graph = helper.make_graph([node], "identity", [taken], [given])
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=3 if opset < 11 else 8)
