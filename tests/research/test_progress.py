"""The bar: on a terminal, where rich is installed."""

import pytest

from research import progress


@pytest.mark.parametrize("installed", [True, False])
def test_a_terminal_shows_a_bar_if_rich_is_installed(installed, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    if not installed:
        monkeypatch.setattr(progress, "find_spec", lambda name: None)
    assert list(progress.track(range(3), "Training", 3)) == [0, 1, 2]
    assert ("Training" in capsys.readouterr().err) == installed


def test_elsewhere_nothing_is_written(capsys):
    assert list(progress.track(range(3), "Training", 3)) == [0, 1, 2]
    assert capsys.readouterr().err == ""
