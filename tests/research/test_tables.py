"""The tables show our values beside the paper's, and blanks for missing ones."""

from __future__ import annotations

import csv
import io
import math
import re
import subprocess
import sys

import pytest

import bench_results
from bench_results import ARCHITECTURE, SET
from browser import PROGRAM, Browser
from research.grid import Cell
from research.results.files import Result, read_result, write_result
from research.results.notes import TABLES, read_notes
from research.tables.aggregate import Gathered, Spread, gather
from research.tables.html import render
from research.tables.layout import KINDS, seconds
from research.tables.published import Key, paper_values
from research.tables.write import COLUMNS, markdown, tidy, write_tables
from unlabel import UnlabelError

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    bench_results.write_results(folder)
    return gather(folder)


def rows_of(text, section):
    """Return the rows of a section's first table by metric and method."""
    lines = text.split(f"\n## {section}\n")[1].split("\n## ")[0].splitlines()
    found, metric = {}, ""
    for line in lines:
        if line.startswith("| ") and not line.startswith("| | |"):
            name, method, *cells = (part.strip() for part in line.strip("|").split("|"))
            metric = name or metric
            found[metric, method] = cells
    return found


def key(method, metric, forget="F1", component=""):
    return Key(SET, ARCHITECTURE, method, component, metric, forget)


def made_up(values):
    """Make results of one seed with these means."""
    spreads = {at: Spread(value, value, value, 1) for at, value in values.items()}
    cell = Cell(SET, ARCHITECTURE, 0, "F1")
    return Gathered(spreads, {cell: bench_results.facts(["retrain"])}, no_notes(cell))


def no_notes(cell):
    return {(cell.set, cell.architecture): {table: [] for table in TABLES}}


def test_every_table_of_the_paper_is_there(gathered):
    text = markdown(gathered)
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
        "Accuracy",
        "Coverage",
        "KL to the retrained model",
        "KL to the base model",
        "Metrics that the paper does not have",
        "Processing time",
    ]
    assert text.count("### CIFAR-10, ResNet18") == 6
    assert text.count("Our images are blurred.") == 6
    assert text.count("Both are trained from scratch for 40 epochs.") == 6
    assert text.count("The machine was busy.") == 1
    assert "The machine was busy." in text.split("## Processing time")[1]
    assert text.count("Seeds: 2 for the base model and the methods, 3 for retraining.") == 6
    assert "at least 1e-12" in text


def test_our_values_are_beside_the_papers(gathered):
    spread = gathered.spreads[key("osr", "KL_base_R")]
    rows = rows_of(markdown(gathered), "KL to the base model")
    cell = rows["KL ↓, inputs of retained labels", "OSR"][0]
    ours, apart, paper = re.fullmatch(r"\**(\.\d{4})\** ±(\.\d{4}) \((.*)\)", cell).groups()
    assert float(ours) == pytest.approx(spread.mean, abs=5e-5)
    assert float(apart) == pytest.approx((spread.high - spread.low) / 2, abs=5e-5)
    assert paper == ".0030"


def test_reconstructions_floors_and_infinite_ranks_are_written(gathered):
    text = markdown(gathered)
    assert "| NHLE-CWM (reconstruction) |" in text
    assert not re.search(r"NHLE-CWM(?! \(reconstruction\))", text)
    to_retrained = rows_of(text, "KL to the retrained model")
    floor = to_retrained["KL ↓, inputs of removed labels", "seed floor: retrained again"]
    assert all(re.fullmatch(r"\.?\d[.\d]* ±[.<\d]+", cell) for cell in floor)
    assert rows_of(text, "Coverage")["Cov_F ↑", "OSR"] == ["**∞** (∞)"] * 4


def test_seconds_come_by_component_in_the_order_of_the_work(gathered):
    rows = rows_of(markdown(gathered), "Processing time")
    names = [method for _, method in rows if method.startswith("UNSIR")]
    parts = ("noise", "retain", "impair", "repair", "total")
    assert names == [f"UNSIR: {part}" for part in parts]
    assert rows["Seconds ↓", "UNSIR: total"][0] == "7.50 (6.794)"
    assert rows["Seconds ↓", "mask: total"][0] == "**.0625**"
    assert rows["Seconds ↓", "NHLE-CWM (reconstruction): masking"][0].startswith("<.0001 (")
    assert [seconds(value) for value in (123.4, 12.34, 1.234)] == ["123", "12.3", "1.23"]


def test_the_best_is_bold_and_so_are_its_equals():
    values = {"base": 0.99, "retrain": 0.8, "osr": 0.9, "mask": 0.8996, "unsir": 0.89}
    rows = rows_of(markdown(made_up({key(m, "A_R"): v for m, v in values.items()})), "Accuracy")
    bold = {method for (_, method), cells in rows.items() if "**" in cells[0]}
    assert bold == {"OSR", "mask"}
    alike = made_up({key("osr", "A_F"): 0.0, key("mask", "A_F"): 0.0})
    assert "**" not in "".join(rows_of(markdown(alike), "Accuracy")["A_F ↓", "OSR"])


def test_a_retrained_model_does_not_compete_in_distances():
    values = {"retrain": 0.1, "osr": 0.2, "mask": 0.3}
    rows = rows_of(
        markdown(made_up({key(m, "KL_base_R"): v for m, v in values.items()})),
        "KL to the base model",
    )
    assert "**" in rows["KL ↓, inputs of retained labels", "OSR"][0]
    assert "**" not in rows["KL ↓, inputs of retained labels", "retrained"][0]


def test_missing_cells_are_blank(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    cells = rows_of(markdown(gather(tmp_path)), "Accuracy")["A_R ↑", "OSR"]
    assert cells[0] == "\N{EN DASH} (.9352)"
    assert re.match(r"\**\.\d{4}", cells[1])
    assert cells[2].startswith("\N{EN DASH}")


def test_a_method_that_failed_is_named(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    cell = Cell(SET, ARCHITECTURE, 0, "F2")
    stored = read_result(tmp_path, cell)
    del stored.arrays["unsir"]
    failed = stored.facts | {"failed": {"unsir": "The <loss> ran away."}}
    failed["methods"] = [method for method in stored.facts["methods"] if method != "unsir"]
    write_result(tmp_path, Result(cell, failed, stored.arrays, stored.filter))
    found = gather(tmp_path)
    text = markdown(found)
    assert "- cifar10/resnet18/s0/F2, UNSIR: The <loss> ran away." in text
    assert rows_of(text, "Accuracy")["A_R ↑", "UNSIR"][1].startswith("\N{EN DASH}")
    assert "The &lt;loss&gt; ran away." in render(found)


def test_differences_from_the_paper_are_above_the_table():
    facts = bench_results.facts(["retrain"]) | {
        "classes": 100,
        "config": {"training": {"epochs": 5, "start": "ImageNet-1K", "side": 128}},
        "rows": {"test": 10_000, "judged": 2_000},
    }
    cell = Cell("cifar100", "mobilenet_v2", 0, "F1", removed=(0,))
    at = Key("cifar100", "mobilenet_v2", "osr", "", "A_R", "F1")
    facts["full_precision"] = {"osr": {"A_R": 0.8}, "unsir": {"A_R": 0.9}}
    spreads = {at: Spread(0.8, 0.8, 0.8, 1)}
    text = markdown(Gathered(spreads, {cell: facts}, no_notes(cell)))
    assert "Ours is fine-tuned from ImageNet-1K at 128 pixels for 5 epochs, the paper's" in text
    assert "Judged on 2,000 of 10,000 test images, the first 20 per label: coverage" in text
    # 99 labels of 20 images: the root of .8 x .2 / 1,980
    assert "A_R has a standard error of up to .0090, and values on removed labels" in text
    assert "rest on as few as 20 images." in text


def test_notes_are_named_for_every_table():
    assert tuple(kind.name for kind in KINDS) == TABLES


def test_notes_of_a_network_come_after_those_of_its_set(tmp_path):
    bench_results.write_notes(tmp_path / SET, every="All.")
    bench_results.write_notes(tmp_path / SET / ARCHITECTURE, every="One.", time="Slow.")
    found = read_notes(tmp_path, SET, ARCHITECTURE)
    assert found.pop("time") == ["All.", "One.", "Slow."]
    assert found == {table: ["All.", "One."] for table in TABLES if table != "time"}
    assert read_notes(tmp_path, SET, "allcnn")["time"] == ["All."]


@pytest.mark.parametrize("text", ["", "[]", '{"tims": "Slow."}', '{"time": 3}'])
def test_other_notes_are_refused(tmp_path, text):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    (tmp_path / SET / "notes.json").write_text(text)
    with pytest.raises(UnlabelError, match=r"notes\.json does not hold notes: write JSON.*time"):
        gather(tmp_path)


def test_seeds_are_counted_where_they_are(tmp_path):
    bench_results.write_seed(tmp_path, 0)
    bench_results.write_seed(tmp_path, 1, forget=["F1", "F2"])
    bench_results.write_seed(tmp_path, 2, forget=["F1"])
    text = markdown(gather(tmp_path))
    assert "Seeds: 1 to 3 for the base model and the methods, 1 to 3 for retraining." in text


def test_a_network_that_has_only_begun_is_left_out(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    begun = Result(Cell(SET, "allcnn", 0, "F0"), bench_results.facts(["base"]), {"base": [[0.0]]})
    write_result(tmp_path, begun)
    text = markdown(gather(tmp_path))
    assert "CIFAR-10, ResNet18" in text
    assert "AllCNN" not in text


def test_a_seed_without_its_base_model_counts_for_retraining_alone(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    bench_results.write_seed(tmp_path, 1, forget=["F1"])
    Cell(SET, ARCHITECTURE, 1, "F0").file(tmp_path, ".json").unlink()
    found = gather(tmp_path)
    assert "Seeds: 1 for the base model and the methods, 2 for retraining." in markdown(found)
    seeds = {at.method: spread.seeds for at, spread in found.spreads.items() if at.metric == "A_R"}
    assert seeds.pop("retrain") == 2
    assert set(seeds.values()) == {1}


def test_the_effect_of_rounding_is_reported(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    cell = Cell(SET, ARCHITECTURE, 0, "F2")
    stored = read_result(tmp_path, cell)
    found = gather(tmp_path)
    assert found.rounding == {}
    assert "rounding" not in markdown(found)
    accuracy, ranks = (found.spreads[key("osr", metric, "F2")].mean for metric in ("A_R", "Cov_R"))
    before = {"A_R": accuracy + 0.0123, "A_F": None, "coverage_retained": ranks - 0.25}
    facts = stored.facts | {"full_precision": {"osr": before}}
    write_result(tmp_path, Result(cell, facts, stored.arrays, stored.filter))
    moved = "rounding the logits for storage changed A_R by .0123, Cov_R by .2500 at most"
    assert moved in markdown(gather(tmp_path))


def test_a_mask_that_was_not_run_has_no_values(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    cell = Cell(SET, ARCHITECTURE, 0, "F2")
    stored = read_result(tmp_path, cell)
    methods = [method for method in stored.facts["methods"] if method != "mask"]
    write_result(
        tmp_path, Result(cell, stored.facts | {"methods": methods}, stored.arrays, stored.filter)
    )
    assert key("mask", "A_R", "F2") not in gather(tmp_path).spreads


def test_the_condition_of_linear_filtration_is_reported(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    cell = Cell(SET, ARCHITECTURE, 0, "F2")
    stored = read_result(tmp_path, cell)
    write_result(
        tmp_path,
        Result(cell, stored.facts | {"condition": 36_745.07}, stored.arrays, stored.filter),
    )
    text = markdown(gather(tmp_path))
    assert text.count("The condition number of linear filtration's matrix is 36,745.") == 1


def test_the_csv_has_every_value(gathered):
    lines = list(csv.DictReader(io.StringIO(tidy(gathered))))
    assert tuple(lines[0]) == COLUMNS
    assert len(lines) == len(gathered.spreads)
    for line in lines:
        at = Key(*(line[name] for name in Key._fields))
        spread = gathered.spreads[at]
        for name, value in zip(("mean", "low", "high"), spread, strict=False):
            assert float(line[f"ours_{name}"]) == pytest.approx(value, rel=1e-5)
        assert int(line["seeds"]) == spread.seeds
        assert line["paper"] == paper_values().get(at, "")
    assert {line["table"] for line in lines} == {
        "accuracy", "coverage", "kl_retrained", "kl_base", "beside", "time",
    }  # fmt: skip
    assert any(math.isinf(float(line["ours_mean"])) for line in lines)


def test_three_files_are_written_and_written_again(tmp_path):
    results = tmp_path / "results"
    bench_results.write_seed(results, 0, forget=["F1"])
    out = tmp_path / "new" / "tables"
    text = write_tables(results, out)
    names = ["tables.csv", "tables.html", "tables.md"]
    assert sorted(path.name for path in out.iterdir()) == names
    before = {name: (out / name).read_bytes() for name in names}
    assert before["tables.md"].decode() == text
    write_tables(results, out)
    assert {name: (out / name).read_bytes() for name in names} == before


RUN_AND_PRINT_IMPORTS = """
import sys
from research.__main__ import main
try:
    main()
finally:
    print(*{"torch", "torchvision", "PIL"} & sys.modules.keys(), file=sys.stderr)
"""


def test_the_command_prints_the_tables_and_needs_no_pytorch(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    command = [sys.executable, "-c", RUN_AND_PRINT_IMPORTS, "tables", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split()) == (0, [])
    assert done.stdout.strip() == (tmp_path / "tables.md").read_text(encoding="utf-8").strip()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    (tmp_path / "file").touch()
    with pytest.raises(UnlabelError, match=r"file.* could not be written"):
        write_tables(tmp_path, tmp_path / "file" / "tables")


def test_the_page_needs_nothing_else(gathered):
    page = render(gathered)
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    assert page.count("<table") == page.count("</table>")
    assert "NHLE-CWM (reconstruction)" in page
    assert ">paper" not in page  # the style adds it


def test_a_network_without_a_floor_has_no_plot_of_it(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    assert "over its seed floor" not in render(gather(tmp_path))


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window(width, gathered, tmp_path):
    page = tmp_path / "tables.html"
    page.write_text(render(gathered), encoding="utf-8")
    browser = Browser(tmp_path / "profile")
    try:
        requests, trouble = browser.open(page, width, "dark")
        assert (requests, trouble) == ([page.as_uri()], [])
        browser.value("document.querySelectorAll('details').forEach(d => d.open = true) || 0")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.value(wide) == 0
    finally:
        browser.close()
