"""The tables of the page on what we reproduced are what the script gives."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

import reproduced
from unlabel.bench.suites import SUITES

NAMES = ("legend", "accuracy", "coverage", "kl_retrained", "kl_base", "beside", "time")


@pytest.fixture(scope="module")
def found():
    return reproduced.fragments(reproduced.RESULTS)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_tables_are_the_scripts(name, found):
    written = (reproduced.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert written == found[f"{name}.md"]


def test_every_table_is_on_the_page():
    page = (reproduced.DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert sorted(f"{name}.md" for name in NAMES) == sorted(
        path.name for path in reproduced.FOLDER.iterdir()
    )
    for name in NAMES:
        assert f"{{include}} reproduced/{name}.md" in page


@pytest.mark.parametrize("study", SUITES["paper"], ids=lambda study: study.architecture)
def test_the_committed_results_ran_with_the_settings_of_the_suite(study):
    settings = {"training": study.recipe, "unsir": study.unsir, "nhle_cwm": study.nhle}
    folder = reproduced.RESULTS / study.set / study.architecture
    if not folder.exists():
        pytest.skip(f"{study.set}/{study.architecture} has not been run")
    for file in sorted(folder.glob("s*/F*.json")):
        config = json.loads(file.read_text())["config"]
        for name in settings.keys() & config.keys():
            assert asdict(settings[name]).items() <= config[name].items(), (file, name)
