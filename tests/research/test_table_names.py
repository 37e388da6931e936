"""Tables of results that come from elsewhere: other methods, sets, models and labels."""

from __future__ import annotations

import csv
import shutil
from importlib.resources import files

import pytest

import bench_results
from bench_results import ARCHITECTURE, SET
from doors import research_tables
from read_tables import rows_of, section_of, values_of


@pytest.fixture
def one_cell(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    return tmp_path


def test_what_is_not_registered_is_shown_under_its_own_name(one_cell):
    stored = bench_results.arrays(one_cell, "F2")
    mine = {"mine": stored["unsir"], "mine_short": stored["retrain"]}
    bench_results.change(one_cell, "F2", **mine)
    shutil.move(one_cell / SET / ARCHITECTURE, one_cell / "my_set" / "my_model")
    text = research_tables(one_cell, one_cell)
    assert "### my_set, my_model\n\nThis set is not in the paper." in text
    lines = values_of(one_cell)
    metrics = {metric for method, _, metric, _ in lines if method == "unsir"} - {"seconds"}
    for metric in metrics:
        for component in ("", "retained entries", "all entries"):
            ours = lines.get(("unsir", component, metric, "F2"))
            same = lines.get(("mine", component, metric, "F2"))
            assert (ours and ours["ours_mean"]) == (same and same["ours_mean"])
    assert ("mine_short", "", "KL_base_R", "F2") in lines
    assert "| mine: all entries |" in text
    assert text.index("| mask |") < text.index("| mine |") < text.index("| mine_short |")


def test_other_labels_than_the_papers_have_no_values_of_the_paper_beside_them(one_cell):
    assert "(.9386)" in research_tables(one_cell, one_cell)
    for file in (one_cell / SET / ARCHITECTURE / "s0").glob("F2.*"):
        file.rename(file.with_stem("F1"))
    cells = rows_of(research_tables(one_cell, one_cell), "Accuracy")["A_R ↑", "OSR"]
    assert "(" not in cells[0]
    assert "(" in cells[1]


def test_what_the_text_says_of_the_papers_kl_is_in_its_table(one_cell):
    with (files("research.tables") / "paper-tables.csv").open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["metric"] == "KL_base_F"]
    values = {(line["set"], line["architecture"], line["method"]): line for line in lines}
    below = sum(
        float(line[forget]) < float(values[at[0], at[1], "osr"][forget])
        for at, line in values.items()
        for forget in ("F1", "F2", "F3", "F4")
    )
    text = section_of(research_tables(one_cell, one_cell), "KL to the base model")
    assert (below, values["faces", "vit_b_16", "unsir"]["F1"]) == (8, "0.0187")
    assert "prints .0187 for UNSIR with ViT-B/16 and F1" in text
    assert "eight such values below OSR's" in text
