"""A filter's file that changes while it is served."""

import hashlib
import os
import shutil

import pytest

from unlabel import OutputFilter, UnlabelError
from unlabel.serve import ServedFilter, reloading
from unlabel.serve.reloading import WatchedFilter

LABELS = ["cat", "dog", "fox"]
FIRST, SECOND = (OutputFilter.from_plan({label: None}, classes=LABELS) for label in LABELS[:2])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "f.safetensors"
    FIRST.save(path)
    return path


@pytest.fixture
def watched(file):
    return WatchedFilter(file, ServedFilter)


def digest_of(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_file_is_loaded_once(watched, file):
    loaded = watched.loaded
    assert loaded.served.fitted == FIRST
    assert loaded.digest == digest_of(file)
    assert not watched.reload()
    assert watched.loaded is loaded


def test_a_changed_file_is_loaded_again(watched, file):
    before = watched.loaded
    SECOND.save(file)
    assert watched.reload()
    assert watched.loaded.served.fitted == SECOND
    assert watched.loaded.digest == digest_of(file) != before.digest
    assert before.served.fitted == FIRST  # requests in flight keep it
    assert not watched.reload()


def test_a_file_of_the_same_size_and_time_is_another_by_its_place(watched, file):
    found = file.stat()
    SECOND.save(file)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert watched.reload()
    assert watched.loaded.served.fitted == SECOND


def test_it_can_be_forced(watched):
    before = watched.loaded
    assert watched.reload(force=True)
    assert watched.loaded is not before
    assert watched.loaded.digest == before.digest


def cut(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("damage", [cut, os.unlink, lambda file: file.write_bytes(b"")])
def test_an_invalid_file_leaves_the_filter_and_is_told_of_once(watched, file, damage):
    before = watched.loaded
    damage(file)
    with pytest.raises((UnlabelError, FileNotFoundError), match=file.name):
        watched.reload()
    assert watched.loaded is before
    assert not watched.reload()
    SECOND.save(file)
    assert watched.reload()
    assert watched.loaded.served.fitted == SECOND


def test_a_filter_that_cannot_be_served_leaves_the_old_one(file):
    def only_first(fitted):
        if fitted != FIRST:
            raise UnlabelError("Not this one.")
        return ServedFilter(fitted)

    watched = WatchedFilter(file, only_first)
    SECOND.save(file)
    with pytest.raises(UnlabelError, match="Not this one"):
        watched.reload()
    assert watched.loaded.served.fitted == FIRST


def test_filter_and_digest_are_of_one_state(watched, file, tmp_path, monkeypatch):
    second = tmp_path / "second.safetensors"
    SECOND.save(second)
    changes = iter([second])

    def load(path):
        fitted = OutputFilter.load(path)
        for other in changes:  # the file changes once, behind the back of who reads it
            shutil.copy(other, path)
        return fitted

    monkeypatch.setattr(reloading, "OutputFilter", type("Loading", (), {"load": load}))
    assert watched.reload(force=True)
    assert watched.loaded.served.fitted == SECOND
    assert watched.loaded.digest == digest_of(file)


def test_a_file_that_never_rests_is_refused(watched, file, monkeypatch):
    filters = iter([SECOND, FIRST] * 9)

    def load(path):
        fitted = OutputFilter.load(path)
        next(filters).save(path)
        return fitted

    monkeypatch.setattr(reloading, "OutputFilter", type("Loading", (), {"load": load}))
    before = watched.loaded
    with pytest.raises(UnlabelError, match="changes while it is read"):
        watched.reload(force=True)
    assert watched.loaded is before


def test_the_first_file_must_be_valid(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        WatchedFilter(tmp_path / "none.safetensors", ServedFilter)
