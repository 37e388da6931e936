"""Small ONNX models, run with ONNX Runtime, and filters for them."""

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import doors

SOFTMAX = "net (float[N,3] x) => (float[N,3] p) { p = Softmax<axis=1>(x) }"


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


def parsed(text, opset=17):
    return parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "ai.onnx.ml": 1]> {text}')


def strange_model():
    """An old model with names, outputs and data of its own, and a branch that sees its scores."""
    rng = np.random.default_rng(5)
    weights = numpy_helper.from_array(rng.normal(size=(600, 4)).astype(np.float32), "W:0")
    words = numpy_helper.from_array(np.array(["a", "b", "c", "d"], dtype=object), "words")
    zero = numpy_helper.from_array(np.array(0.5, dtype=np.float32), "half")

    def branch(name, op, *inputs):
        given = helper.make_tensor_value_info(f"{name}/out", TensorProto.FLOAT, None)
        node = helper.make_node(op, inputs, [f"{name}/out"])
        return helper.make_graph([node], name, [], [given])

    nodes = [
        helper.make_node("MatMul", ["in:0", "W:0"], ["mm:0"]),
        helper.make_node("Softmax", ["mm:0"], ["p:0"], axis=1),
        helper.make_node("ArgMax", ["mm:0"], ["top:0"], axis=1, keepdims=1, name="unlabel/x"),
        helper.make_node("Gather", ["words", "top:0"], ["word:0"]),
        helper.make_node("ReduceMax", ["p:0"], ["best:0"], keepdims=0),
        helper.make_node("Greater", ["best:0", "half"], ["sure:0"]),
        helper.make_node(
            "If",
            ["sure:0"],
            ["echo:0"],
            then_branch=branch("then", "Identity", "p:0"),
            else_branch=branch("else", "Neg", "p:0"),
        ),
    ]
    outputs = [
        helper.make_tensor_value_info("echo:0", TensorProto.FLOAT, [None, 4]),
        helper.make_tensor_value_info("word:0", TensorProto.STRING, [None, 1]),
        helper.make_tensor_value_info("p:0", TensorProto.FLOAT, [None, None]),
        helper.make_tensor_value_info("top:0", TensorProto.INT64, [None, 1]),
    ]
    given = helper.make_tensor_value_info("in:0", TensorProto.FLOAT, [None, 600])
    graph = helper.make_graph(nodes, "someone's", [given], outputs, [weights, words, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    model.producer_name = "someone"
    model.metadata_props.add(key="licence", value="theirs")
    return model


def mask_filter(n_labels=3, remove=(1,), kind="probabilities", classes=None):
    return doors.mask(range(n_labels) if classes is None else classes, list(remove), kind=kind)
