"""Files appear whole or not at all, wherever a signal ends the run."""

import os
import threading

import pytest

from signals import outcomes
from unlabel import UnlabelError
from unlabel._files import atomic
from unlabel._files.atomic import folder_beside, whole_file


# A file that is open when the signal comes is closed on collection, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_half_file_is_left_whenever_a_signal_comes(tmp_path):
    target = tmp_path / "out.txt"

    def write():
        with whole_file(target, overwrite=True) as part:
            assert part.parent == tmp_path
            assert part.exists()
            part.write_text("new")

    def found():
        names = os.listdir(tmp_path)
        text = target.read_text() if target.exists() else None
        target.write_text("old")
        return names, text

    *early, last = outcomes(write, found, atomic)
    assert early[0] == ([], None)
    assert {(*names, text) for names, text in early[1:]} == {
        ("out.txt", "old"),
        ("out.txt", "new"),
    }
    assert last == (["out.txt"], "new")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_half_file_is_left_where_nothing_may_be_overwritten(tmp_path):
    target = tmp_path / "out.txt"

    def write():
        with whole_file(target, overwrite=False) as part:
            part.write_text("new")

    def found():
        names = os.listdir(tmp_path)
        text = target.read_text() if target.exists() else None
        target.unlink(missing_ok=True)
        return (*names, text)

    *early, last = outcomes(write, found, atomic)
    assert set(early) == {(None,), ("out.txt", "new")}
    assert last == ("out.txt", "new")


def test_of_two_writers_one_is_told_that_the_other_was_first(tmp_path):
    told = []
    for number in range(150):
        target = tmp_path / str(number)
        both = threading.Barrier(2)

        def write(own, target=target, both=both):
            try:
                with whole_file(target, overwrite=False) as part:
                    part.write_text(own)
                    both.wait()
            except atomic.UnlabelError as error:
                told.append((own, target.read_text(), str(error)))

        writers = [threading.Thread(target=write, args=(own,)) for own in ("a", "b")]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    assert len(told) == 150
    for own, kept, sentence in told:
        assert {own, kept} == {"a", "b"}
        assert "exists already: choose another name" in sentence
    assert len(os.listdir(tmp_path)) == 150


def test_a_file_system_without_links_gets_files_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with whole_file(tmp_path / "out", overwrite=False) as part:
        part.write_text("new")
    assert (tmp_path / "out").read_text() == "new"
    with (
        pytest.raises(atomic.UnlabelError, match="meanwhile exists already"),
        whole_file(tmp_path / "meanwhile", overwrite=False),
    ):
        (tmp_path / "meanwhile").write_text("theirs")
    assert (tmp_path / "meanwhile").read_text() == "theirs"
    assert sorted(os.listdir(tmp_path)) == ["meanwhile", "out"]


def test_a_link_is_written_through(tmp_path):
    real, link, second = tmp_path / "far" / "real", tmp_path / "link", tmp_path / "second"
    real.parent.mkdir()
    real.write_text("old")
    link.symlink_to("far/real")
    second.symlink_to(link)
    with whole_file(second, overwrite=True) as part:
        assert part.parent.samefile(real.parent)  # a rename goes no further than a file system
        part.write_text("new")
    assert real.read_text() == "new"
    assert (link.readlink().as_posix(), second.readlink()) == ("far/real", link)
    assert [path.name for path in real.parent.iterdir()] == ["real"]
    with (
        pytest.raises(atomic.UnlabelError, match="link exists already"),
        whole_file(link, overwrite=False),
    ):
        pass


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("goal", "why"), [("gone", "No such file"), ("link", "Too many levels")])
def test_a_link_that_leads_nowhere_is_refused(tmp_path, overwrite, goal, why):
    (tmp_path / "link").symlink_to(goal)
    sentence = rf"link is a link that cannot be followed \({why}.*\): remove it, or choose another"
    with (
        pytest.raises(atomic.UnlabelError, match=sentence),
        whole_file(tmp_path / "link", overwrite=overwrite),
    ):
        pass
    assert os.listdir(tmp_path) == ["link"]
    assert (tmp_path / "link").is_symlink()


def test_only_regular_files_are_overwritten(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "folder", "link"):
        with (
            pytest.raises(atomic.UnlabelError, match=f"{name} could not be .*not a regular file"),
            whole_file(tmp_path / name, overwrite=True),
        ):
            pass
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


def test_no_folder_is_left_whenever_a_signal_comes_before_its_removal(tmp_path):
    done = []

    def work():
        with folder_beside(tmp_path / "out") as folder:
            (folder / "within").write_text("")
            done.append(folder)

    def found():
        names = () if done else os.listdir(tmp_path)
        done.clear()
        return tuple(names)

    assert set(outcomes(work, found, atomic)) == {()}
    assert len(os.listdir(tmp_path)) < 10  # a signal may cut the removal itself short


def test_a_file_is_readable_to_whom_others_are(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "out", overwrite=False) as part:
            part.write_text("")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_file_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file" / "out", tmp_path / ("x" * 250), tmp_path / ("x" * 300)):
        with (
            pytest.raises(atomic.UnlabelError, match=r"could not be written: .* (dir|long)"),
            whole_file(target, overwrite=True),
        ):
            pass
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    with (
        pytest.raises(atomic.UnlabelError, match=r"gone/out could not be written: No such file"),
        folder_beside(tmp_path / "gone" / "out"),
    ):
        pass


def test_names_that_no_file_has_are_refused():
    with pytest.raises(UnlabelError, match="cannot be the name of a file"):
        atomic.require_file("a\0b")
    with (
        pytest.raises(UnlabelError, match="cannot be the name of a file"),
        atomic.whole_file("a\0b", overwrite=True),
    ):
        pass
