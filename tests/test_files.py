"""Files appear whole or not at all, wherever a signal ends the run."""

import os

import pytest

from signals import outcomes
from unlabel import files
from unlabel.files import folder_beside, whole_file


# What is open when the signal comes is closed when it is collected, and Python warns of that.
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

    *early, last = outcomes(write, found, files)
    assert early[0] == ([], None)
    assert {(*names, text) for names, text in early[1:]} == {
        ("out.txt", "old"),
        ("out.txt", "new"),
    }
    assert last == (["out.txt"], "new")


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

    assert set(outcomes(work, found, files)) == {()}
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
    for target in (tmp_path / "file" / "out", tmp_path / ("x" * 250)):
        with (
            pytest.raises(files.UnlabelError, match=r"could not be written: .* (dir|long)"),
            whole_file(target, overwrite=True),
        ):
            pass
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    with (
        pytest.raises(files.UnlabelError, match=r"gone/out could not be written: No such file"),
        folder_beside(tmp_path / "gone" / "out"),
    ):
        pass
