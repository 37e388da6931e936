"""Stored results are read as they were written; damaged ones are named."""

import json
import zipfile

import numpy as np
import pytest

import doors
from bench_results import facts
from research import filters
from research.grid import Cell
from research.results.files import rounded, stored_cells
from unlabel import UnlabelError

CELL = Cell("cifar10", "resnet18", 0, "F2", removed=(0, 4))
ENDINGS = (".json", ".npz", ".safetensors")


@pytest.fixture
def result(cifar10):
    """The facts, the arrays and the filter of a cell."""
    logits, labels = cifar10
    arrays = {"unsir": rounded(logits), "linear_filtration_naive": np.eye(10, dtype=np.float32)}
    return facts(["osr", "unsir"]), arrays, filters.osr(logits, labels, CELL.removed)


@pytest.fixture
def folder(tmp_path, result):
    doors.store(tmp_path, CELL, *result)
    return tmp_path


def test_a_result_is_read_as_it_was_written(folder, result):
    _, arrays, fitted = result
    back = doors.stored(folder, CELL)
    assert back.facts["removed"] == [0, 4]
    assert back.facts["methods"] == ["osr", "unsir"]
    assert back.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, strict=True)
    np.testing.assert_array_equal(back.filter.means, fitted.means)
    assert [(cell, cell.removed) for cell in stored_cells(folder)] == [(CELL, (0, 4))]


def test_the_same_result_is_the_same_bytes(tmp_path, result):
    for name in ("a", "b"):
        doors.store(tmp_path / name, CELL, *result)
    for ending in ENDINGS:
        first, second = (CELL.file(tmp_path / name, ending).read_bytes() for name in ("a", "b"))
        assert first == second


def test_logits_change_by_less_than_a_hundredth(cifar10):
    logits, _ = cifar10
    stored = rounded(logits)
    assert stored.dtype == np.float16
    assert np.abs(stored - logits).max() <= 1 / 128
    np.testing.assert_array_equal(stored.argmax(axis=1), logits.argmax(axis=1))


def test_members_are_compressed(folder):
    with zipfile.ZipFile(CELL.file(folder, ".npz")) as members:
        assert {member.compress_type for member in members.infolist()} == {zipfile.ZIP_LZMA}


def test_the_json_is_written_last(tmp_path, result, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("killed")

    monkeypatch.setattr("unlabel.filter.filter_file.save", fail)
    with pytest.raises(RuntimeError):
        doors.store(tmp_path, CELL, *result)
    assert doors.stored(tmp_path, CELL) is None
    assert stored_cells(tmp_path) == []


def damaged(content):
    return b"", content[:100], content[: len(content) // 2] + b"\0" * 50


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_damaged_file_is_named(folder, ending):
    path = CELL.file(folder, ending)
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(UnlabelError, match=rf"F2\{ending} is damaged: delete .*F2\.\*"):
            doors.stored(folder, CELL)


@pytest.mark.parametrize("wrong", [[1], {"protocol": 2}, {"methods": None}], ids=str)
def test_facts_of_another_shape_are_damage(folder, wrong):
    path = CELL.file(folder, ".json")
    whole = json.loads(path.read_text())
    if isinstance(wrong, dict):
        wrong = {key: value for key, value in (whole | wrong).items() if value is not None}
    path.write_text(json.dumps(wrong))
    with pytest.raises(UnlabelError, match=r"F2\.json is damaged"):
        stored_cells(folder)


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_a_file_that_is_gone_is_named(folder, ending):
    CELL.file(folder, ending).unlink()
    with pytest.raises(UnlabelError, match=rf"F2\{ending} is missing: delete .*F2\.\*"):
        doors.stored(folder, CELL)


def test_results_are_deleted_with_their_base_model(tmp_path, result):
    doors.store(tmp_path, CELL.base, *result[:2])
    CELL.base.file(tmp_path, ".npz").unlink()
    with pytest.raises(UnlabelError, match=r"F0\.npz is missing: delete .*resnet18/s0 and run"):
        doors.stored(tmp_path, CELL.base)


def test_values_that_are_not_finite_are_null(tmp_path):
    doors.store(tmp_path, CELL, {"condition": np.inf, "methods": []})
    assert json.loads(CELL.file(tmp_path, ".json").read_text())["condition"] is None


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UnlabelError, match="nowhere is not a folder"):
        stored_cells(tmp_path / "nowhere")
