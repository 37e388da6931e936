"""Whether a model gives logits or probabilities, where its last operators say so."""

from __future__ import annotations

from unlabel._typing import Kind
from unlabel.errors import UnlabelError
from unlabel.onnx.graph import CLASSIFIERS, MIXING, PASSING, GraphReader, Head, attribute

# Operators that leave logits logits and probabilities probabilities.
POOLING = {"AveragePool", "GlobalAveragePool", "ReduceMean"}
QUANTIZING = {"DequantizeLinear", "QuantizeLinear"}
KEEPING = PASSING | POOLING | QUANTIZING | {"Clip", "Dropout", "Relu", "Transpose"}
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
NOT_EXCLUSIVE = "neither"
GIVING = {
    "Log": "logits",
    "LogSoftmax": "logits",
    "Sigmoid": NOT_EXCLUSIVE,
    "Softmax": "probabilities",
}


def kind_of(reader: GraphReader, head: Head) -> Kind | None:
    """Return the kind of a model's confidences, or None if the last operators leave it open."""
    found = _kind(reader, head.tensor)
    if found == NOT_EXCLUSIVE:
        raise UnlabelError(
            f"The output {head.output!r} comes from a Sigmoid: only labels that exclude each other "
            "can be changed."
        )
    if found == "logits":
        return "logits"
    return "probabilities" if found == "probabilities" or head.zipmap else None


def _kind(reader: GraphReader, tensor: str) -> str | None:
    node = reader.producers.get(tensor)
    if node is None or node.domain not in DOMAINS:
        return None
    match node.op_type:
        case op if op in KEEPING:
            return _kind(reader, node.input[0])
        case op if op in GIVING:
            return GIVING[op]
        case "Einsum" | "MatMul" if _kind(reader, node.input[0]) == "probabilities":
            return None  # a mean of several models' probabilities, or sums over labels
        case op if op in MIXING or (op == "Add" and any(map(reader.is_constant, node.input))):
            return "logits"
        case op if op in CLASSIFIERS:
            after = attribute(node, "post_transform").s
            if op == "LinearClassifier" and after in (b"", b"NONE"):
                return "logits"
            return "probabilities" if after == b"SOFTMAX" else None
        case "Normalizer" if attribute(node, "norm").s == b"L1":
            return "probabilities"
    return None
