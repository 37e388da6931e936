"""Models of 100 labels whose confidences follow from their input, in the Open Inference Protocol.

A test knows the model's answer without asking for it: `confidences(rows, datatype)`.
"""

import struct

import msgspec
import numpy as np

LABELS = tuple(f"label {number:02}" for number in range(100))
FEATURES = 4
WEIGHTS = np.random.default_rng(19).normal(scale=3, size=(FEATURES, len(LABELS)))
DTYPES = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "INT64": np.int64}
MODELS = {"animals": "FP32", "animals64": "FP64", "animals16": "FP16", "others": "FP32"}


class BadRequestError(Exception):
    """A request that the model refuses, as a server answers with status 400."""


def confidences(rows, datatype="FP32"):
    logits = np.asarray(rows, dtype=np.float64) @ WEIGHTS
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (exponentials / exponentials.sum(axis=1, keepdims=True)).astype(DTYPES[datatype])


def outputs_of(model, rows):
    """Give a model's outputs by name: its confidences, its answers, and a third that is neither."""
    scores = confidences(rows, MODELS[model])
    top = scores.argmax(axis=1)
    if model == "animals64":
        answers = ("INT64", top)
    else:
        answers = ("BYTES", np.array([LABELS[i] for i in top], dtype=object))
    return {
        "probabilities": (MODELS[model], scores),
        "label": answers,
        "embedding": ("FP32", np.asarray(rows, dtype=np.float32)[:, :2] * 2),
    }


def metadata(model):
    label = "INT64" if model == "animals64" else "BYTES"
    return {
        "name": model,
        "versions": ["1"],
        "platform": "test",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, FEATURES]}],
        "outputs": [
            {
                "name": "probabilities",
                "datatype": MODELS[model],
                "shape": [-1, len(LABELS)],
                "parameters": {"labels": LABELS},
            },
            {"name": "label", "datatype": label, "shape": [-1]},
            {"name": "embedding", "datatype": "FP32", "shape": [-1, 2]},
        ],
    }


def infer(model, version, body, header_length):
    """Answer a request; return the JSON as an object, and the binary tensors that follow it."""
    try:
        request = msgspec.json.decode(body[:header_length] if header_length else body)
        rows = _rows(request["inputs"][0], body[header_length:] if header_length else b"")
    except (msgspec.DecodeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise BadRequestError(f"{type(error).__name__}: {error}") from error
    computed = outputs_of(model, rows)
    wanted = request.get("outputs") or [{"name": name} for name in computed]
    all_binary = (request.get("parameters") or {}).get("binary_data_output", False)
    tensors, binary = [], []
    for asked in wanted:
        if asked["name"] not in computed:
            raise BadRequestError(f"no output {asked['name']!r}")
        options = asked.get("parameters") or {}
        datatype, values = computed[asked["name"]]
        if options.get("classification"):
            datatype, values = "BYTES", _classified(values, options["classification"])
        tensor = {"name": asked["name"], "shape": [*values.shape], "datatype": datatype}
        if asked["name"] == "probabilities" and datatype == "FP64":  # this model says its labels
            tensor["parameters"] = {"labels": LABELS}
        if options.get("binary_data", all_binary):
            binary.append(_as_bytes(datatype, values))
            tensor["parameters"] = {
                **tensor.get("parameters", {}),
                "binary_data_size": len(binary[-1]),
            }
        else:
            tensor["data"] = values.ravel().tolist()
        tensors.append(tensor)
    answer = {"model_name": model, "model_version": version, "outputs": tensors}
    if "id" in request:
        answer["id"] = request["id"]
    return answer, binary


def _rows(tensor, binary):
    size = (tensor.get("parameters") or {}).get("binary_data_size")
    dtype = DTYPES[tensor["datatype"]]
    if size is not None and not 0 <= size <= len(binary):
        raise ValueError(f"{size} bytes of {len(binary)}")
    flat = tensor["data"] if size is None else np.frombuffer(binary[:size], dtype=dtype)
    return np.asarray(flat, dtype=dtype).reshape(tensor["shape"])


def _classified(values, number):
    """Answer as Triton's classification extension does: `score:index:label`, the best first."""
    best = np.argsort(-values, axis=1, kind="stable")[:, :number]
    return np.array(
        [[f"{row[i]:f}:{i}:{LABELS[i]}" for i in at] for row, at in zip(values, best, strict=True)],
        dtype=object,
    )


def _as_bytes(datatype, values):
    if datatype != "BYTES":
        return values.astype(values.dtype.newbyteorder("<")).tobytes()
    texts = [text.encode() for text in values.ravel()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
