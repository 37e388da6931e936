"""The latency that a grafted filter adds to a ResNet18 in ONNX Runtime.

PYTHONPATH=. python benchmarks/onnx_latency.py

The model and the grafted model take turns, on one thread each. The processor time of that thread
is measured, which is the latency of an idle machine even if this one is busy.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import torch
from onnx import helper

from research.torchvision_cpu import resnet18
from timing import fitted
from unlabel import OutputFilter
from unlabel.onnx import attach

REPEATS = 3
ROUNDS = {1: 60, 16: 12}  # by batch size
LABELS, REMOVED = (10, 1000), 3


def export(path: Path, n_labels: int) -> None:
    """Write a ResNet18 with random weights and a dynamic batch."""
    torch.manual_seed(0)
    torch.onnx.export(
        resnet18(weights=None, num_classes=n_labels).eval(),
        (torch.randn(2, 3, 224, 224),),
        path,
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        input_names=["images"],
        output_names=["logits"],
        external_data=False,
        verbose=False,
    )


def logits_filter(n_labels: int) -> OutputFilter:
    """Fit a filter that removes the first labels, on made-up logits."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(REMOVED), 20)
    logits = rng.normal(size=(len(truth), n_labels))
    logits[np.arange(len(truth)), truth] += 5
    return fitted(logits, truth, remove=range(REMOVED), kind="logits")


def filter_alone(filter: OutputFilter) -> onnx.ModelProto:
    """Graft the filter onto a model that returns its input."""
    shape = ["batch", len(filter.classes_in)]
    inputs = helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, shape)
    outputs = helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, shape)
    node = helper.make_node("Identity", ["images"], ["logits"])
    graph = helper.make_graph([node], "nothing", [inputs], [outputs])
    imports = [helper.make_opsetid("", 20)]
    return attach(helper.make_model(graph, opset_imports=imports, ir_version=9), filter)


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def seconds(model: ort.InferenceSession, images: npt.NDArray[np.float32]) -> float:
    start = time.thread_time()
    model.run(None, {"images": images})
    return time.thread_time() - start


def best(
    models: Sequence[ort.InferenceSession], images: npt.NDArray[np.float32], rounds: int
) -> npt.NDArray[np.float64]:
    """Return the best latency of each model in milliseconds, after a warm-up round."""
    times = [[seconds(model, images) for model in models] for _ in range(rounds + 1)]
    fastest: npt.NDArray[np.float64] = 1e3 * np.min(times[1:], axis=0)
    return fastest


def main() -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, one used, "
        f"Python {platform.python_version()}, ONNX Runtime {ort.__version__}, "
        f"onnx {onnx.__version__}, torch {torch.__version__}"
    )
    print(
        f"ResNet18, 224 x 224, {REMOVED} labels removed; best of {ROUNDS} rounds, {REPEATS} times"
    )
    for n_labels in LABELS:
        removing = logits_filter(n_labels)
        alone = session(filter_alone(removing))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "resnet18.onnx")
            export(path, n_labels)
            models = session(onnx.load(path)), session(attach(path, removing))
        for batch, rounds in ROUNDS.items():
            rng = np.random.default_rng(1)
            images = rng.normal(size=(batch, 3, 224, 224)).astype(np.float32)
            before, after = (model.run(None, {"images": images})[0] for model in models)
            assert np.abs(after - removing.apply(before)).max() < 1e-6
            measured = np.array([best(models, images, rounds) for _ in range(REPEATS)])
            added = np.sort(measured[:, 1] / measured[:, 0] - 1)
            plain, filtering = measured[:, 0].min(), best([alone], before, 200)[0]
            print(
                f"{n_labels} labels, batch {batch}: {plain:.1f} ms, grafted "
                f"{added[REPEATS // 2]:+.1%} (from {added[0]:+.1%} to {added[-1]:+.1%}); "
                f"the filter alone {filtering:.2f} ms ({filtering / plain:.1%})",
                flush=True,
            )


if __name__ == "__main__":
    main()
