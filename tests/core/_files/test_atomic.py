"""Files appear whole or not at all, wherever a signal ends the run."""

import os
import stat
import threading
from pathlib import Path

import pytest

import doors
import unlabel
from signals import outcomes
from unlabel import LabelPlan, UnlabelError

PACKAGE = Path(unlabel.__file__).parent
PLAN = LabelPlan({"cat": None})
FITTED = doors.mask(["cat", "dog"], ["cat"])
WRITE_BYTES = Path.write_bytes


def refused(words, path, *):
    with pytest.raises(UnlabelError, match=words):
        FITTED.save(path, overwrite=overwrite)


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
@pytest.mark.parametrize("overwrite", [False, True])
def test_no_half_file_is_left_whenever_a_signal_comes(tmp_path, overwrite):
    target = tmp_path / "out.toml"
    PLAN.write(target)
    new = target.read_text()
    target.unlink()

    def found():
        state = (*os.listdir(tmp_path), target.read_text() if target.exists() else None)
        target.write_text("old") if overwrite else target.unlink(missing_ok=True)
        return state

    *early, last = outcomes(lambda: PLAN.write(target, overwrite=overwrite), found, PACKAGE)
    assert early[0] == (None,)
    before = ("out.toml", "old") if overwrite else (None,)
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
    refused("filter could not be written: No space left on device", path)
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


def test_a_file_that_exists_is_kept_unless_told_otherwise(tmp_path, content):
    path = tmp_path / "filter"
    path.write_bytes(b"precious")
    refused(r"filter exists already: .*overwrite=True", path, overwrite=False)
    assert path.read_bytes() == b"precious"
    FITTED.save(os.fspath(path))
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["filter"]


def test_of_two_writers_one_is_told_that_the_other_was_first(tmp_path, monkeypatch):
    both, told = threading.Barrier(2), []
    after_write(monkeypatch, lambda *_: both.wait())

    def write(own, path):
        try:
            own.save(path)
        except UnlabelError as error:
            told.append((own, OutputFilter.load(path), str(error)))

    filters = [FITTED, doors.mask(["cat", "dog"], ["dog"])]
    for number in range(150):
        path = tmp_path / str(number)
        writers = [threading.Thread(target=write, args=(own, path)) for own in filters]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert len(told) == len(os.listdir(tmp_path)) == 150
    for own, kept, sentence in told:
        assert {own, kept} == {*filters}
        assert "exists already: choose another name" in sentence


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, monkeypatch, content, has_links):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    FITTED.save(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content
    path = tmp_path / "meanwhile"
    after_write(monkeypatch, lambda *_: WRITE_BYTES(path, b"theirs"))
    refused("meanwhile exists already", path, overwrite=False)
    assert path.read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["meanwhile", "out"]


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
    refused("link exists already", link, overwrite=False)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("goal", "why"), [("gone", "No such file"), ("link", "Too many levels")])
def test_a_link_that_leads_nowhere_is_refused(tmp_path, overwrite, goal, why):
    path = tmp_path / "link"
    path.symlink_to(goal)
    refused(rf"link that cannot be followed \({why}.*\)", path, overwrite=overwrite)
    assert os.listdir(tmp_path) == ["link"]
    assert path.is_symlink()


def test_only_regular_files_are_overwritten(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "folder", "link"):
        refused(f"{name} could not be .*not a regular file", tmp_path / name)
    refused("folder exists already", tmp_path / "folder", overwrite=False)
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
    for load in (doors.load, doors.load_plan):
        with pytest.raises(UnlabelError, match="cannot be the name of a file"):
            load("a\0b")
