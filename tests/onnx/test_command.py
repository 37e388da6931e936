"""The command `unlabel onnx`: its files, with external data or without, and its mistakes."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from commands import unlabel
from onnx_models import identity_model, mask_filter, run, strange_model
from unlabel.onnx import attach


@pytest.fixture
def files(tmp_path):
    """A model with external data, and a filter for it."""
    folder = tmp_path / "given"
    folder.mkdir()
    onnx.save(
        strange_model(),
        folder / "strange.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=1024,
    )
    fitted = mask_filter(4, remove=["c"], classes=["a", "b", "c", "d"])
    fitted.save(folder / "filter.safetensors")
    return folder


def left_behind(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_command_filters_a_model_with_external_data(files, tmp_path):
    out = tmp_path / "taken" / "new.onnx"
    out.parent.mkdir()
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--out", out)
    code, printed, errors = unlabel(*arguments, "--output", "p:0")
    assert (code, printed) == (0, "")
    assert "".join(errors.split()).endswith("1of4labelsremovedinp:0,word:0,top:0.")
    assert left_behind(out.parent) == ["new.onnx", "new.onnx.data"]
    onnx.checker.check_model(out)
    x = np.random.default_rng(0).normal(size=(7, 600)).astype(np.float32)
    session = ort.InferenceSession(out, providers=["CPUExecutionProvider"])
    fitted = mask_filter(4, remove=["c"], classes=["a", "b", "c", "d"])
    expected = run(attach(strange_model(), fitted, output="p:0"), **{"in:0": x})["p:0"]
    np.testing.assert_array_equal(session.run(["p:0"], {"in:0": x})[0], expected)

    code, _, errors = unlabel(*arguments, "--output", "p:0")
    assert code == 2
    assert "exists already" in errors
    assert unlabel(*arguments, "--output", "p:0", "--force")[0] == 0
    assert left_behind(out.parent) == ["new.onnx", "new.onnx.data"]


def test_external_data_lies_beside_the_file_that_a_link_leads_to(files, tmp_path):
    real, link = tmp_path / "real" / "new.onnx", tmp_path / "link.onnx"
    real.parent.mkdir()
    real.touch()
    link.symlink_to(real)
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--out", link)
    assert unlabel(*arguments, "--output", "p:0", "--force")[0] == 0
    assert left_behind(real.parent) == ["new.onnx", "new.onnx.data"]
    assert left_behind(tmp_path) == ["given", "link.onnx", "real"]
    onnx.checker.check_model(real)


def test_the_command_writes_one_file_where_there_is_no_external_data(files, tmp_path):
    onnx.save(identity_model(4), files / "small.onnx")
    out = tmp_path / "new.onnx"
    fitted = files / "filter.safetensors"
    assert unlabel("onnx", files / "small.onnx", fitted, "--out", out)[0] == 0
    assert left_behind(tmp_path) == ["given", "new.onnx"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "strange.onnx").unlink(), "could not be read: No such file"),
        (lambda f: (f / "strange.onnx").write_text("no model" * 99), "is not an ONNX model"),
        (lambda f: (f / "strange.onnx").write_bytes(b""), "is not a valid ONNX model"),
        (lambda f: (f / "weights.bin").unlink(), "external data of"),
        (lambda f: (f / "weights.bin").write_bytes(b"short"), "external data of"),
        (lambda f: (f / "filter.safetensors").write_bytes(b""), "is not a filter"),
        (
            lambda f: (f / "strange.onnx").replace(f / "x") and (f / "strange.onnx").mkdir(),
            "regular",
        ),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(files, tmp_path, damage, message):
    damage(files)
    out = tmp_path / "new.onnx"
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--out", out)
    code, printed, errors = unlabel(*arguments, "--output", "p:0")
    assert (code, printed) == (2, "")
    assert errors.startswith("Error: ")
    assert errors.count("\n") == 1
    assert message in errors
    assert left_behind(tmp_path) == ["given"]


def test_two_outputs_are_named_by_the_command(files, tmp_path):
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors")
    code, _, errors = unlabel(*arguments, "--out", tmp_path / "new.onnx")
    assert code == 2
    assert "'echo:0' and 'p:0'" in errors
    assert left_behind(tmp_path) == ["given"]


def test_a_folder_that_is_not_there(files, tmp_path):
    arguments = ("onnx", files / "strange.onnx", files / "filter.safetensors", "--output", "p:0")
    code, _, errors = unlabel(*arguments, "--out", tmp_path / "nowhere" / "new.onnx")
    assert code == 2
    assert "could not be written" in errors
