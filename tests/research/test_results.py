import json
import zipfile

import numpy as np
import pytest

from bench_results import facts
from research import filters
from research.grid import Cell
from research.results.files import (
    Result,
    read_facts,
    read_result,
    rounded,
    stored_cells,
    write_result,
)
from unlabel import UnlabelError

CELL = Cell("cifar10", "resnet18", 0, "F2", removed=(0, 4))


@pytest.fixture
def result(cifar10):
    logits, labels = cifar10
    fitted = filters.osr(logits, labels, CELL.removed)
    arrays = {"unsir": rounded(logits), "linear_filtration_naive": np.eye(10, dtype=np.float32)}
    return Result(CELL, facts(["osr", "unsir"]), arrays, fitted)


def test_a_result_is_read_as_it_was_written(tmp_path, result):
    write_result(tmp_path, result)
    back = read_result(tmp_path, CELL)
    assert back.facts["removed"] == [0, 4]
    assert back.facts["methods"] == ["osr", "unsir"]
    assert back.arrays.keys() == result.arrays.keys()
    for name, array in result.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, strict=True)
    np.testing.assert_array_equal(back.filter.means, result.filter.means)
    assert stored_cells(tmp_path) == [CELL]


def test_the_same_result_is_the_same_bytes(tmp_path, result):
    for folder in ("a", "b"):
        write_result(tmp_path / folder, result)
    for ending in (".json", ".npz", ".safetensors"):
        first, second = (CELL.file(tmp_path / name, ending).read_bytes() for name in ("a", "b"))
        assert first == second


def test_logits_change_by_less_than_a_hundredth(cifar10):
    logits, _ = cifar10
    stored = rounded(logits)
    assert stored.dtype == np.float16
    assert np.abs(stored - logits).max() <= 1 / 128
    np.testing.assert_array_equal(stored.argmax(axis=1), logits.argmax(axis=1))


def test_members_are_compressed(tmp_path, result):
    write_result(tmp_path, result)
    with zipfile.ZipFile(CELL.file(tmp_path, ".npz")) as members:
        assert {member.compress_type for member in members.infolist()} == {zipfile.ZIP_LZMA}


def test_the_json_is_written_last(tmp_path, result, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("killed")

    monkeypatch.setattr("unlabel.filter.filter_file.save", fail)
    with pytest.raises(RuntimeError):
        write_result(tmp_path, result)
    assert read_result(tmp_path, CELL) is None
    assert stored_cells(tmp_path) == []


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"protocol": 2}', '{"protocol": 1', '{"protocol": 1, "methods": 3}']
)
def test_a_damaged_json_is_named(tmp_path, result, text):
    write_result(tmp_path, result)
    CELL.file(tmp_path, ".json").write_text(text)
    with pytest.raises(UnlabelError, match=r"F2\.json is damaged: delete .*F2\.\*"):
        read_facts(tmp_path, CELL)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": {}},
        {"config": {"unsir": 3}},
        {"made": {}},
        {"made": {"osr": {"hardware": "a machine"}}},
        {"seconds": {"osr": 3}},
        {"seconds": {"osr": {"projection": "1 s"}}},
        {"seconds": {"other": {}}},
        {"made": {"osr": {"versions": {}}}},
        {"full_precision": {"osr": None}},
        {"full_precision": {"osr": {"A_F": 0.5}}},
        {"methods": [1, {}]},
        {"methods": ["other"]},
    ],
    ids=str,
)
def test_facts_of_another_shape_are_damage(tmp_path, result, wrong):
    write_result(tmp_path, Result(CELL, result.facts | wrong, result.arrays, result.filter))
    with pytest.raises(UnlabelError, match=r"F2\.json is damaged: delete .*F2\.\*"):
        read_facts(tmp_path, CELL)


def test_damaged_arrays_are_named(tmp_path, result):
    write_result(tmp_path, result)
    path = CELL.file(tmp_path, ".npz")
    content = path.read_bytes()
    for cut in (b"", content[:100], content[: len(content) // 2] + b"\0" * 50):
        path.write_bytes(cut)
        with pytest.raises(UnlabelError, match=r"F2\.npz is damaged"):
            read_result(tmp_path, CELL)


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_a_file_that_is_gone_is_named(tmp_path, result, ending):
    write_result(tmp_path, result)
    CELL.file(tmp_path, ending).unlink()
    with pytest.raises(UnlabelError, match=rf"F2\{ending} is missing: delete .*F2\.\*"):
        read_facts(tmp_path, CELL)


def test_an_array_that_is_gone_is_noticed(tmp_path, result):
    write_result(tmp_path, Result(CELL, facts(["osr", "unsir", "retrain"]), result.arrays))
    result.filter.save(CELL.file(tmp_path, ".safetensors"))
    with pytest.raises(UnlabelError, match=r"F2\.npz is damaged"):
        read_result(tmp_path, CELL)


def test_results_are_deleted_with_their_base_model(tmp_path, result):
    base = Cell("cifar10", "resnet18", 0, "F0")
    write_result(tmp_path, Result(base, facts(["base"]), {}))
    with pytest.raises(UnlabelError, match=r"F0\.npz is missing: delete .*resnet18/s0 and run"):
        read_facts(tmp_path, base)


def test_values_that_are_not_finite_are_null(tmp_path):
    write_result(tmp_path, Result(CELL, {"condition": np.inf, "methods": []}))
    assert json.loads(CELL.file(tmp_path, ".json").read_text())["condition"] is None


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UnlabelError, match="nowhere is not a folder"):
        stored_cells(tmp_path / "nowhere")
