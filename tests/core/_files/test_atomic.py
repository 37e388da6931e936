"""Files appear whole or not at all, wherever a signal ends the run."""

import os
import stat
import threading
from pathlib import Path

import pytest

import doors
import unlabel
from signals import outcomes
from unlabel import LabelPlan, OutputFilter, UnlabelError

PACKAGE = Path(unlabel.__file__).parent
PLAN = LabelPlan({"cat": None})
FITTED = doors.mask(["cat", "dog"], ["cat"])
WRITE_BYTES = Path.write_bytes


def refused(words, path):
    with pytest.raises(UnlabelError, match=words):
        FITTED.save(path)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """The bytes of the filter's file."""
    path = tmp_path_factory.mktemp("filters") / "filter"
    FITTED.save(path)
    return path.read_bytes()


def after_write(monkeypatch, then):
    """Call a function after each file is written, and before it has its name."""
    monkeypatch.setattr(Path, "write_bytes", lambda *args: (WRITE_BYTES(*args), then(*args)))


# A file that is open when the signal comes is closed on collection, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("replaces", [False, True])
def test_no_half_file_is_left_whenever_a_signal_comes(tmp_path, replaces):
    target = tmp_path / "out.toml"
    PLAN.save(target)
    new = target.read_text()
    target.unlink()

    def found():
        state = (*os.listdir(tmp_path), target.read_text() if target.exists() else None)
        target.write_text("old") if replaces else target.unlink(missing_ok=True)
        return state

    *early, last = outcomes(lambda: PLAN.save(target), found, PACKAGE)
    assert early[0] == (None,)
    before = ("out.toml", "old") if replaces else (None,)
    assert set(early[1:]) == {before, ("out.toml", new)}
    assert last == ("out.toml", new)


@pytest.mark.parametrize("failing", ["write_bytes", "replace"])
@pytest.mark.parametrize("before", [None, b"precious"])
def test_a_failure_midway_leaves_what_was_there(tmp_path, monkeypatch, failing, before):
    path = tmp_path / "filter"
    if before is not None:
        path.write_bytes(before)

    def fail(part, *_):
        WRITE_BYTES(part, b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, failing, fail)
    refused("filter: it could not be written: No space left on device", path)
    monkeypatch.undo()
    left = [file.read_bytes() for file in tmp_path.iterdir()]
    assert left == ([] if before is None else [before])


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_a_stop_midway_leaves_nothing(tmp_path, monkeypatch, stop):
    def halt(part, content):
        WRITE_BYTES(part, content[: len(content) // 2])
        raise stop

    monkeypatch.setattr(Path, "write_bytes", halt)
    with pytest.raises(stop):
        FITTED.save(tmp_path / "filter")
    assert os.listdir(tmp_path) == []


def test_a_file_of_the_same_name_is_replaced(tmp_path, content):
    (tmp_path / "filter").write_bytes(b"old")
    FITTED.save(os.fspath(tmp_path / "filter"))
    assert (tmp_path / "filter").read_bytes() == content
    assert os.listdir(tmp_path) == ["filter"]


def test_of_two_writers_one_has_written_the_whole_file(tmp_path):
    filters = [FITTED, doors.mask(["cat", "dog"], ["dog"])]
    for number in range(50):
        path = tmp_path / str(number)
        writers = [threading.Thread(target=own.save, args=(path,)) for own in filters]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert OutputFilter.load(path) in filters
    assert len(os.listdir(tmp_path)) == 50


def test_a_link_is_written_through(tmp_path, monkeypatch, content):
    real, link, second = tmp_path / "far" / "real", tmp_path / "link", tmp_path / "second"
    real.parent.mkdir()
    real.write_text("old")
    link.symlink_to("far/real")
    second.symlink_to(link)
    parts = []
    after_write(monkeypatch, lambda part, _: parts.append(part.parent))
    FITTED.save(second)
    assert parts[0].samefile(real.parent)  # a rename goes no further than a file system
    assert real.read_bytes() == content
    assert (link.readlink().as_posix(), second.readlink()) == ("far/real", link)
    assert os.listdir(real.parent) == ["real"]


@pytest.mark.parametrize(("goal", "why"), [("gone", "No such file"), ("link", "Too many levels")])
def test_a_link_that_leads_nowhere_is_refused(tmp_path, goal, why):
    path = tmp_path / "link"
    path.symlink_to(goal)
    refused(rf"link that cannot be followed \({why}.*\)", path)
    assert os.listdir(tmp_path) == ["link"]
    assert path.is_symlink()


def test_only_regular_files_are_overwritten(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "folder", "link"):
        refused(f"{name}: it could not be .*not a regular file", tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


def test_a_file_gets_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        FITTED.save(tmp_path / "filter")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "filter").stat().st_mode) == 0o640


def test_a_file_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    names = ("file/out", "nowhere/out", "x" * 250, "x" * 300)
    for target in (tmp_path / name for name in names):
        refused(r"could not be written: .* (dir|long)", target)
    assert os.listdir(tmp_path) == ["file"]


def test_names_that_no_file_has_are_refused():
    refused("cannot be the name of a file", "a\0b")
    for load in (OutputFilter.load, LabelPlan.load):
        with pytest.raises(UnlabelError, match="cannot be the name of a file"):
            load("a\0b")
