"""Folders to work in, which the parts that write several files use."""

import os

import pytest

from signals import outcomes
from unlabel import UnlabelError
from unlabel._files import atomic
from unlabel._files.atomic import folder_beside


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


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    with (
        pytest.raises(UnlabelError, match="gone/out: it could not be written: No such file"),
        folder_beside(tmp_path / "gone" / "out"),
    ):
        pass
