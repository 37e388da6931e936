"""The tables of the page on what we reproduced are what the script gives."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

import reproduced
from unlabel.bench.suites import SUITES

NAMES = ("legend", "accuracy", "coverage", "kl_retrained", "kl_base", "beside", "time")
# One set is computed anew, the one whose test rows are all stored. All of them take a minute.
SET = "cifar10"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    (folder / SET).symlink_to(reproduced.RESULTS / SET, target_is_directory=True)
    return reproduced.fragments(folder)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_tables_are_the_scripts(name, found):
    written = (reproduced.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    heading, *tables = found[f"{name}.md"].rstrip().split("\n### ")
    assert len(tables) == (0 if name == "legend" else 2)
    assert written.startswith(heading)
    for table in tables:
        assert f"\n### {table}\n" in written


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
