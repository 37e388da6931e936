import json
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import doors
import plain
from unlabel import OutputFilter, UnlabelError
from worlds import NUMBERS, ROWS

GOLDEN = Path(__file__).parents[2] / "golden"
UNICODE = ["naïve", "猫", 'quote"d\\', "a\nb\x00"]


@pytest.fixture
def fitted():
    return doors.fit(ROWS, NUMBERS, remove=[2, 0])


# What a file holds


@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("removed", [[], [2], [3, 0, 1]])
def test_a_filter_comes_back_as_it_was(tmp_path, method, kind, removed):
    rows = np.log(ROWS) if kind == "logits" else ROWS
    saved = doors.fit(rows, NUMBERS, remove=removed, method=method, kind=kind)
    saved.save(tmp_path / "filter")
    loaded = OutputFilter.load(tmp_path / "filter")
    assert loaded == saved
    assert (loaded.classes_out, loaded.removed) == (saved.classes_out, saved.removed)
    np.testing.assert_array_equal(loaded.apply(rows), saved.apply(rows))


def test_a_temperature_comes_back_to_the_last_bit(tmp_path, cifar10):
    saved = doors.fit(*cifar10, remove=[0], kind="logits", calibrate=True)
    saved.save(tmp_path / "filter")
    assert OutputFilter.load(tmp_path / "filter").temperature == saved.temperature != 1


@pytest.mark.parametrize("classes", [UNICODE, [0, -3, 2**63 - 1, "2"], ["", " ", "None", "true"]])
def test_labels_come_back_with_their_types(tmp_path, classes):
    doors.mask(classes, classes[:1]).save(tmp_path / "filter")
    loaded = OutputFilter.load(tmp_path / "filter")
    assert loaded.classes_in == tuple(classes)
    assert [*map(type, loaded.classes_in)] == [*map(type, classes)]


def test_a_file_is_safetensors_with_one_key_of_canonical_json(tmp_path, fitted):
    fitted.save(tmp_path / "filter")
    with safe_open(tmp_path / "filter", framework="numpy") as content:
        metadata = content.metadata()
        assert sorted(content.keys()) == ["counts", "means", "shares"]
    assert list(metadata) == ["unlabel"]
    assert metadata["unlabel"] == (
        '{"classes":[0,1,2,3],"kind":"probabilities","method":"osr","plan":{'
        '"changes":[[2,null],[0,null]],'
        '"digest":"348a7575c90c73b2d1b3d280474210b78d266fabe5770021957e395bf0c1d392",'
        '"note":"","title":"","unlisted":"keep"},'
        '"protocol":1,"temperature":1.0}'
    )


def test_a_file_holds_statistics_of_labels_and_no_row(tmp_path, fitted):
    fitted.save(tmp_path / "filter")
    content = (tmp_path / "filter").read_bytes()
    (header,) = struct.unpack("<Q", content[:8])
    assert len(content) == 8 + header + 2 * (2 * 4) * 8 + 2 * 8
    assert not any(row.tobytes() in content for row in ROWS)


def test_the_layout_of_arrays_in_memory_does_not_reach_the_file(tmp_path, fitted):
    arguments = {
        "classes_in": fitted.classes_in,
        "plan": fitted.plan,
        "counts": fitted.counts,
    }
    for order in "CF":
        OutputFilter(
            means=np.array(fitted.means, order=order),
            shares=np.array(fitted.shares, order=order),
            **arguments,
        ).save(tmp_path / order)
    assert (tmp_path / "C").read_bytes() == (tmp_path / "F").read_bytes()
    np.testing.assert_array_equal(OutputFilter.load(tmp_path / "F").means, fitted.means)


def test_a_committed_file_keeps_loading_and_is_written_as_it_was(tmp_path, both_ways):
    expected = json.loads((GOLDEN / "protocol-1.json").read_text(encoding="utf-8"))
    file = GOLDEN / "protocol-1.safetensors"
    loaded = OutputFilter.load(file)
    assert loaded.classes_in == tuple(expected["classes"])
    assert loaded.classes_out == tuple(expected["classes_out"])
    assert [*map(list, loaded.plan.changes.items())] == expected["changes"]
    assert [*loaded.counts] == expected["counts"]
    for name in ("title", "note", "unlisted"):
        assert getattr(loaded.plan, name) == expected[name]
    assert loaded.temperature == expected["temperature"]
    found = loaded.run(expected["rows"])
    np.testing.assert_allclose(found.confidences, expected["expected"], rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.removed_mass, expected["removed_mass"], rtol=0, atol=1e-14)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


def test_a_fit_gives_the_committed_statistics():
    expected = json.loads((GOLDEN / "protocol-1.json").read_text(encoding="utf-8"))
    loaded = OutputFilter.load(GOLDEN / "protocol-1.safetensors")
    calm = [plain.at_temperature(row, expected["temperature"]) for row in expected["reference"]]
    truth = ["owl"] * len(calm)
    fitted = doors.fit(calm, truth, classes=loaded.classes_in, plan=loaded.plan)
    assert fitted.counts == loaded.counts
    np.testing.assert_allclose(fitted.means, loaded.means, rtol=0, atol=1e-14)
    np.testing.assert_allclose(fitted.shares, loaded.shares, rtol=0, atol=1e-14)


def test_a_mask_has_no_statistics(tmp_path):
    mask = doors.mask(range(4), [2, 0])
    mask.save(tmp_path / "mask")
    with safe_open(tmp_path / "mask", framework="numpy") as content:
        shapes = {name: content.get_slice(name).get_shape() for name in sorted(content.keys())}
    assert shapes == {"means": [0, 4], "shares": [0, 4], "counts": [2]}
    assert OutputFilter.load(tmp_path / "mask") == mask


def test_a_mask_of_many_labels_is_small(tmp_path):
    mask = doors.mask(range(20_000), range(1000, 20_000))
    mask.save(tmp_path / "mask")
    assert (tmp_path / "mask").stat().st_size < 1 << 20
    row = np.full(20_000, 1 / 20_000)
    tracemalloc.start()
    try:
        np.testing.assert_allclose(OutputFilter.load(tmp_path / "mask").apply(row), 1 / 1000)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20  # a matrix of booleans has 380 MB
    finally:
        tracemalloc.stop()


# How much a file holds


def test_names_that_take_too_much_room_are_refused_before_anything_is_written(tmp_path):
    classes = [str(number) * 2_000_000 for number in range(4)]
    with pytest.raises(UnlabelError, match="take more than 4 MiB: shorten them"):
        doors.mask(classes, classes[:1]).save(tmp_path / "filter")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("n", "name"), [(100_000, "label number {}"), (1100, "[{}]")])
def test_names_may_be_many_and_hold_brackets(tmp_path, n, name):
    classes = [name.format(number) for number in range(n)]
    doors.mask(classes, [classes[7]]).save(tmp_path / "filter")
    assert OutputFilter.load(tmp_path / "filter").classes_in == tuple(classes)


def test_a_header_of_5_mebibytes_is_refused(tmp_path, fitted):
    path = tmp_path / "filter"
    fitted.save(path)
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = content[8:end].ljust(5 << 20)
    path.write_bytes(struct.pack("<Q", len(header)) + header + content[end:])
    with pytest.raises(UnlabelError, match="its header is too long"):
        OutputFilter.load(path)
