"""Models of PyTorch and of other tools."""

import json

import numpy as np
import pytest
from onnx.parser import parse_model

import doors
from onnx_models import mask_filter, parsed, run, strange_model
from unlabel.onnx import attach


@pytest.mark.parametrize("exporter", ["dynamo", "legacy"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_pytorch_exports(tmp_path, exporter):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 10),
    ).eval()
    images = torch.randn(200, 3, 8, 8)
    with torch.no_grad():
        logits = network(images).numpy()
    fitted = doors.fit(logits, np.arange(200) % 10, remove=[6, 2], kind="logits")
    path = tmp_path / "network.onnx"
    names = {"input_names": ["images"], "output_names": ["logits"]}
    if exporter == "dynamo":
        batch = ({0: torch.export.Dim("batch")},)
        program = torch.onnx.export(
            network, (images[:2],), dynamo=True, dynamic_shapes=batch, verbose=False, **names
        )
        program.save(path, external_data=True)
    else:
        axes = {"images": {0: "batch"}, "logits": {0: "batch"}}
        torch.onnx.export(network, (images[:2],), path, dynamo=False, dynamic_axes=axes, **names)
    model = attach(path, fitted)
    for rows in (1, 7):
        result = run(model, images=images[:rows].numpy())["logits"]
        np.testing.assert_allclose(result, fitted.apply(logits[:rows]), rtol=0, atol=1e-6)


def test_a_model_someone_else_made():
    model = strange_model()
    before = model.SerializeToString()
    fitted = mask_filter(4, remove=["c", "a"], classes=["a", "b", "c", "d"])
    grafted = attach(model, fitted, output="p:0")
    assert model.SerializeToString() == before
    x = np.random.default_rng(0).normal(size=(7, 600)).astype(np.float32)
    old, new = run(model, **{"in:0": x}), run(grafted, **{"in:0": x})
    np.testing.assert_allclose(new["p:0"], fitted.apply(old["p:0"]), rtol=0, atol=1e-6)
    column = new["p:0"].argmax(axis=1)[:, None]
    np.testing.assert_array_equal(new["word:0"], np.array(["b", "d"])[column])
    np.testing.assert_array_equal(new["top:0"], np.array([1, 3])[column])
    np.testing.assert_array_equal(new["echo:0"], old["echo:0"])
    metadata = {entry.key: entry.value for entry in grafted.metadata_props}
    recorded = json.loads(metadata["unlabel"])
    assert metadata["licence"] == "theirs"
    assert (recorded["removed"], recorded["classes_out"]) == (["c", "a"], ["b", "d"])
    assert recorded["outputs"] == ["p:0", "word:0", "top:0"]
    assert [list(map(str, grafted.opset_import)), grafted.ir_version, grafted.producer_name] == [
        list(map(str, model.opset_import)),
        6,
        "someone",
    ]
    # One of its nodes has a name of ours.
    names = [name for node in grafted.graph.node for name in (node.name, *node.output) if name]
    assert sum(name.startswith("unlabel/") for name in names) == 0
    assert "words" not in {tensor.name for tensor in grafted.graph.initializer}


def test_custom_functions_are_kept():
    model = parse_model("""<ir_version: 8, opset_import: ["": 17, "mine": 1]>
        net (float[N,3] x) => (float[N,3] p) { p = mine.soft(x) }
        <domain: "mine", opset_import: ["": 17]> soft (a) => (b) { b = Softmax<axis=1>(a) }""")
    grafted = attach(model, mask_filter(3))
    assert grafted.functions == model.functions
    assert run(grafted, x=np.zeros((2, 3), "f4"))["p"].tolist() == [[0.5, 0.5]] * 2


def test_a_width_that_is_not_known_is_checked_as_the_model_runs():
    model = parsed("open (float[N,M] x) => (float[N,M] p) { p = Identity(x) }")
    grafted = attach(model, mask_filter(3))
    assert run(grafted, x=np.array([[0.2, 0.5, 0.3]], "f4"))["p"] == pytest.approx(
        np.array([[0.4, 0.6]])
    )
    with pytest.raises(Exception, match="Reshape"):
        run(grafted, x=np.full((3, 4), 0.25, "f4"))
