import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import doors
import plain
from unlabel import OutputFilter, UnlabelError
from worlds import NUMBERS, ROWS

GOLDEN = Path(__file__).parents[2] / "golden"
PROTOCOL = 2  # the latest
UNICODE = ["naïve", "猫", 'quote"d\\', "a\nb\x00"]


@pytest.fixture
def fitted():
    return doors.fit(ROWS, NUMBERS, remove=[2, 0])


# What a file holds


@pytest.mark.parametrize("method", ["osr", "mask", "literal"])
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


@pytest.mark.parametrize("classes", [UNICODE, [0.1, -3, 10**30, 1e-300], [False, True, "1", 0.5]])
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
        '{"classes":[0,1,2,3],"input":"probabilities","method":"osr","plan":{'
        '"digest":"348a7575c90c73b2d1b3d280474210b78d266fabe5770021957e395bf0c1d392","from":[2,0],"note":"","title":"","to":[null,null],"unlisted":"keep",'
        '"weight":[null,null]},"protocol":2,"temperature":1.0}'
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


@pytest.mark.parametrize("protocol", range(1, PROTOCOL + 1))
def test_files_of_every_protocol_keep_loading(tmp_path, protocol):
    expected = json.loads((GOLDEN / f"protocol-{protocol}.json").read_text(encoding="utf-8"))
    loaded = OutputFilter.load(GOLDEN / f"protocol-{protocol}.safetensors")
    assert loaded.classes_in == tuple(expected["classes"])
    assert loaded.removed == tuple(expected["removed"])
    changes = expected.get("changes", [[label, None] for label in expected["removed"]])
    assert [*map(list, loaded.plan.changes.items())] == changes
    assert loaded.plan.title == expected.get("title", "")
    assert loaded.note == expected.get("note", "")
    assert loaded.temperature == expected["temperature"]
    np.testing.assert_allclose(
        loaded.apply(expected["rows"]), expected["expected"], rtol=1e-12, atol=1e-15
    )


def test_a_mask_has_no_statistics_and_files_with_zeros_in_their_place_load(tmp_path):
    mask = doors.mask(range(4), [2, 0])
    mask.save(tmp_path / "mask")
    with safe_open(tmp_path / "mask", framework="numpy") as content:
        shapes = {name: content.get_slice(name).get_shape() for name in sorted(content.keys())}
        metadata = content.metadata()
    assert shapes == {"means": [0, 4], "shares": [0, 4], "counts": [2]}
    zeros = np.zeros((2, 4))
    tensors = {"means": zeros, "shares": zeros, "counts": np.zeros(2, np.int64)}
    save_file(tensors, tmp_path / "dense", metadata)
    loaded = OutputFilter.load(tmp_path / "dense")
    assert loaded == mask == OutputFilter.load(tmp_path / "mask")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "mask").read_bytes()


def test_a_mask_of_many_labels_is_small(tmp_path):
    mask = doors.mask(range(20_000), range(1000, 20_000))
    mask.save(tmp_path / "mask")
    assert (tmp_path / "mask").stat().st_size < 1 << 20
    row = np.full(20_000, 1 / 20_000)
    np.testing.assert_allclose(OutputFilter.load(tmp_path / "mask").apply(row), 1 / 1000)


def test_the_current_protocol_is_still_written_as_it_was(tmp_path):
    golden = GOLDEN / f"protocol-{PROTOCOL}.safetensors"
    OutputFilter.load(golden).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == golden.read_bytes()


@pytest.mark.parametrize("protocol", [1, 2])
def test_the_golden_results_are_those_of_the_plain_implementation(protocol):
    golden = json.loads((GOLDEN / f"protocol-{protocol}.json").read_text(encoding="utf-8"))
    reference, classes = np.array(golden["reference"]), golden["classes"]
    truth = [classes.index(label) for label in golden["true_labels"]]
    removed = [classes.index(label) for label in golden["removed"]]
    references = [reference[np.array(truth) == column] for column in removed]
    rows = plain.apply(golden["rows"], plain.fit(references, removed, len(classes)))
    if protocol == 2:  # 0 "cat" keeps its name, 1 is split, 2 and 3 are merged
        first, second, third, fourth = rows.T
        rows = np.column_stack([first + 0.25 * second, 0.75 * second, third + fourth])
    rows = rows ** (1 / golden["temperature"])
    expected = rows / rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(golden["expected"], expected, rtol=1e-12, atol=1e-15)


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
