"""Published image sets are read; damaged ones are refused by file name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import doors

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

from research.datasets.cifar import CIFAR10, CIFAR100, load_cifar  # noqa: E402
from unlabel import UnlabelError  # noqa: E402

SMALL10 = replace(
    CIFAR10, train={f"data_batch_{i}.bin": 4 for i in range(1, 6)}, test={"test_batch.bin": 3}
)
SMALL100 = replace(CIFAR100, train={"train.bin": 20}, test={"test.bin": 5})


def written(layout, folder):
    """Write a set to its folder; return the images and labels in it."""
    rng, truth = np.random.default_rng(0), {}
    (folder / layout.folder).mkdir()
    for part, files in (("train", layout.train), ("test", layout.test)):
        count = sum(files.values())
        images = rng.integers(256, size=(count, 3, 32, 32), dtype=np.uint8)
        labels = rng.integers(10, size=count)
        coarse = [rng.integers(20, size=count)] * (layout.label_bytes - 1)
        records = np.column_stack([*coarse, labels, images.reshape(count, -1)]).astype(np.uint8)
        truth |= {f"{part}_images": images, f"{part}_labels": labels}
        for name, part_records in zip(files, np.split(records, len(files)), strict=True):
            part_records.tofile(folder / layout.folder / name)
    return truth


@pytest.mark.parametrize("layout", [SMALL10, SMALL100], ids=["cifar10", "cifar100"])
def test_the_files_of_an_archive_are_read(layout, tmp_path):
    truth = written(layout, tmp_path)
    images = load_cifar(layout, tmp_path)
    for name, expected in truth.items():
        found = getattr(images, name)
        assert found.dtype == (torch.uint8 if name.endswith("images") else torch.int64)
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("data_batch_3.bin", None, r"data_batch_3\.bin could not be read .*: unpack https://.* in"),
        ("test_batch.bin", bytes(3073 * 2), r"test_batch\.bin has 6,146 bytes instead of 9,219"),
    ],
)
def test_a_damaged_folder_is_refused_by_file(name, data, message, tmp_path):
    written(SMALL10, tmp_path)
    file = tmp_path / SMALL10.folder / name
    file.unlink() if data is None else file.write_bytes(data)
    with pytest.raises(UnlabelError, match=message):
        load_cifar(SMALL10, tmp_path)


def colour(label, image):
    return (2 * label, 50 * image, 255 - label)


def faces(folder, identities, images, *, size=(64, 64), parts=("train", "test")):
    for part in parts:
        for label in range(identities):
            identity = folder / part / f"n{label:06d}"
            identity.mkdir(parents=True)
            for image in range(images[part]):
                plain = Image.new("RGB", size, colour(label, image))
                plain.save(identity / f"{image + 1:04d}.jpg", quality=95, subsampling=0)


def test_all_of_a_hundred_identities_are_read_in_order(tmp_path):
    faces(tmp_path, 100, {"train": 2, "test": 1})
    images = doors.load_set("faces", tmp_path)
    assert images.train_images.shape == (200, 3, 64, 64)
    assert images.train_labels.tolist() == [i for i in range(100) for _ in range(2)]
    assert images.test_labels.tolist() == list(range(100))
    for row, expected in ((0, colour(0, 0)), (151, colour(75, 1))):
        found = images.train_images[row].float().mean(dim=(1, 2))
        torch.testing.assert_close(found, torch.tensor(expected).float(), rtol=0, atol=4)


def test_of_more_identities_the_same_hundred_are_drawn(tmp_path):
    faces(tmp_path, 110, {"train": 1, "test": 1}, size=(8, 8))
    first, second = doors.load_set("faces", tmp_path), doors.load_set("faces", tmp_path)
    assert torch.equal(first.train_images, second.train_images)
    shades = first.test_images[:, 0].float().mean(dim=(1, 2)).round().tolist()
    assert len(shades) == 100
    assert max(shades) > 200 + 10  # those of a label are twice its number


def test_other_identities_in_test_hold_out_images_of_train(tmp_path):
    faces(tmp_path, 100, {"train": 5}, size=(8, 8), parts=["train"])
    (tmp_path / "test" / "n900000").mkdir(parents=True)
    images = doors.load_set("faces", tmp_path)
    assert images.train_labels.tolist() == [i for i in range(100) for _ in range(4)]
    assert images.test_labels.tolist() == list(range(100))


def test_other_sizes_are_scaled_and_cut_in_the_middle(tmp_path):
    faces(tmp_path, 100, {"train": 1, "test": 1}, size=(8, 8))
    wide = np.zeros((100, 300, 3), dtype=np.uint8)
    wide[:, 100:200] = 255
    file = tmp_path / "train" / "n000003" / "0001.jpg"
    Image.fromarray(wide).save(file, quality=95)
    inner = doors.load_set("faces", tmp_path).train_images[3, :, :, 4:-4]
    assert inner.min() > 240


def test_identities_that_are_not_there_are_named(tmp_path):
    with pytest.raises(UnlabelError, match=r"train could not be read \(No such file"):
        doors.load_set("faces", tmp_path)
    for part in ("train", "test"):
        (tmp_path / part / "n000000").mkdir(parents=True)
    with pytest.raises(UnlabelError, match="has too few identities in train and test: 1 of 100"):
        doors.load_set("faces", tmp_path)


def test_unreadable_and_missing_images_are_named(tmp_path):
    faces(tmp_path, 100, {"train": 1, "test": 1}, size=(8, 8))
    broken = tmp_path / "test" / "n000042" / "0001.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    with pytest.raises(UnlabelError, match=r"n000042.0001\.jpg could not be read as an image"):
        doors.load_set("faces", tmp_path)
    broken.unlink()
    with pytest.raises(UnlabelError, match=r"n000042 has no \.jpg images"):
        doors.load_set("faces", tmp_path)


def test_the_digits_are_the_same_every_time(tmp_path):
    digits, again = doors.load_set("digits", tmp_path), doors.load_set("digits", tmp_path)
    assert torch.equal(digits.test_images, again.test_images)
    assert digits.train_images.shape == (1198, 3, 8, 8)
    assert digits.test_images.shape == (599, 3, 8, 8)
    assert digits.train_images.max() == 255
    assert torch.equal(digits.train_images[:, 0], digits.train_images[:, 2])
    assert all(57 <= count <= 62 for count in torch.bincount(digits.test_labels))
    every = torch.cat([digits.train_images, digits.test_images])[:, 0].numpy()
    expected = np.rint(load_digits().images * 255 / 16).astype(np.uint8)
    assert sorted(map(bytes, every)) == sorted(map(bytes, expected))


def test_an_unknown_set_is_named(tmp_path):
    with pytest.raises(UnlabelError, match="no set 'mnist'"):
        doors.load_set("mnist", tmp_path)
