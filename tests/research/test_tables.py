"""The tables show our values beside the paper's, and blanks for missing ones."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys

import pytest

import bench_results
from bench_results import ARCHITECTURE, SET
from doors import research_tables
from read_tables import rows_of, section_of, values_of
from unlabel import UnlabelError

OTHER = "allcnn"
BLANK = "\N{EN DASH}"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    bench_results.write_results(folder / "results")
    research_tables(folder / "results", folder)
    return folder


@pytest.fixture(scope="module")
def text(out):
    return (out / "tables.md").read_text(encoding="utf-8")


@pytest.fixture
def one_cell(tmp_path):
    """A folder with one base model and one of its cells."""
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    return tmp_path


def tables_of(folder):
    return research_tables(folder, folder)


def test_every_table_of_the_paper_is_there(text):
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == [
        "Accuracy",
        "Intervals of differences in A_R",
        "Coverage",
        "KL to the retrained model",
        "KL to the base model",
        "Metrics that the paper does not have",
        "Orders of removal",
        "Processing time",
        "Settings",
    ]
    assert text.count("### CIFAR-10, ResNet18") == 8
    assert text.count("Our images are blurred.") == 8
    assert text.count("Both are trained from scratch for 40 epochs.") == 8
    assert text.count("The machine was busy.") == 1
    assert "The machine was busy." in section_of(text, "Processing time")
    assert text.count("Seeds: 2 for the base model and the methods, 3 for retraining.") == 8
    assert "at least 1e-12" in text


def test_our_values_are_beside_the_papers(out, text):
    line = values_of(out)["osr", "", "KL_base_R", "F1"]
    mean, low, high = (float(line[f"ours_{name}"]) for name in ("mean", "low", "high"))
    cell = rows_of(text, "KL to the base model")["KL ↓, inputs of retained labels", "OSR"][0]
    ours, apart, paper = re.fullmatch(r"\**(\.\d{4})\** ±(\.\d{4}) \((.*)\)", cell).groups()
    assert float(ours) == pytest.approx(mean, abs=5e-5)
    assert float(apart) == pytest.approx((high - low) / 2, abs=5e-5)
    assert (paper, line["paper"]) == (".0030", "0.0030")


def test_reconstructions_floors_and_infinite_ranks_are_written(text):
    assert "| NHLE-CWM (reconstruction) |" in text
    assert not re.search(r"NHLE-CWM(?! \(reconstruction\))", text)
    to_retrained = rows_of(text, "KL to the retrained model")
    floor = to_retrained["KL ↓, inputs of removed labels", "seed floor: retrained again"]
    assert all(re.fullmatch(r"\.?\d[.\d]* ±[.<\d]+", cell) for cell in floor)
    assert rows_of(text, "Coverage")["Cov_F ↑", "OSR"] == ["**∞** (∞)"] * 4


def test_seconds_come_by_component_in_the_order_of_the_work(text):
    rows = rows_of(text, "Processing time")
    names = [method for _, method in rows if method.startswith("UNSIR")]
    parts = ("noise", "retain", "impair", "repair", "total")
    assert names == [f"UNSIR: {part}" for part in parts]
    assert rows["Seconds ↓", "UNSIR: total"][0] == "7.50 (6.794)"
    assert rows["Seconds ↓", "retrained: total"][0].startswith("20.0 (")
    assert rows["Seconds ↓", "mask: total"][0] == "**.0625**"
    assert rows["Seconds ↓", "NHLE-CWM (reconstruction): masking"][0].startswith("<.0001 (")


def test_the_best_is_bold_and_so_are_its_equals(one_cell):
    totals = {"base": 0.1, "retrain": 0.7, "osr": 0.5, "mask": 0.5004, "unsir": 0.6}
    seconds = {method: {"total": total} for method, total in totals.items()}
    bench_results.change(one_cell, "F2", facts={"seconds": seconds})
    rows = rows_of(tables_of(one_cell), "Processing time")
    bold = {method for (_, method), cells in rows.items() if "**" in cells[1]}
    assert bold == {"OSR: total", "mask: total"}
    alike = seconds | {method: {"total": 0.5} for method in ("retrain", "unsir")}
    bench_results.change(one_cell, "F2", facts={"seconds": alike})
    assert "**" not in section_of(tables_of(one_cell), "Processing time")


def test_a_retrained_model_does_not_compete_in_distances(one_cell):
    bench_results.change(one_cell, "F2", retrain=bench_results.masked_base(one_cell, "F2"))
    rows = rows_of(tables_of(one_cell), "KL to the base model")
    mask, retrained = (
        rows["KL ↓, inputs of retained labels", method][1] for method in ("mask", "retrained")
    )
    assert mask.split()[0] == f"**{retrained.split()[0]}**"


def test_missing_cells_are_blank(one_cell):
    cells = rows_of(tables_of(one_cell), "Accuracy")["A_R ↑", "OSR"]
    assert cells[0] == f"{BLANK} (.9352)"
    assert re.match(r"\**\.\d{4}", cells[1])
    assert cells[2].startswith(BLANK)


def test_a_method_that_failed_is_named(one_cell):
    methods = [method for method in bench_results.SECONDS if method != "unsir"]
    failed = {"failed": {"unsir": "The loss ran away."}, "methods": methods}
    bench_results.change(one_cell, "F2", facts=failed, unsir=None)
    text = tables_of(one_cell)
    assert "- cifar10/resnet18/s0/F2, UNSIR: The loss ran away." in text
    assert rows_of(text, "Accuracy")["A_R ↑", "UNSIR"][1].startswith(BLANK)


def test_differences_from_the_paper_are_above_the_table(one_cell):
    training = {"epochs": 5, "start": "ImageNet-1K", "side": 128}
    facts = {"config": {"training": training}, "rows": {"test": 1_200, "judged": 120}}
    for name in ("F0", "F2"):
        bench_results.change(one_cell, name, facts=facts)
    text = tables_of(one_cell)
    assert "Ours is fine-tuned from ImageNet-1K at 128 pixels for 5 epochs, the paper's" in text
    assert "120 of 1,200 test images, the first 12 per label" in text
    assert "rest on as few as 24 images." in section_of(text, "KL to the base model")
    assert "Over all 1,200 test images, but stored rows over 120" in section_of(text, "Accuracy")


def test_notes_of_a_network_come_after_those_of_its_set(one_cell):
    shutil.copytree(one_cell / SET / ARCHITECTURE, one_cell / SET / OTHER)
    bench_results.write_notes(one_cell / SET, every="All.")
    bench_results.write_notes(one_cell / SET / ARCHITECTURE, every="One.", time="Slow.")
    text = tables_of(one_cell)
    assert text.count("\nAll. One. Both are trained") == text.count("### CIFAR-10, ResNet18") - 1
    assert text.count("\nAll. One. Slow. Both are trained") == 1
    assert text.count("\nAll. Both are trained") == text.count("### CIFAR-10, AllCNN")


@pytest.mark.parametrize("text", ["", "[]", '{"tims": "Slow."}', '{"time": 3}'])
def test_other_notes_are_refused(text, one_cell):
    (one_cell / SET / "notes.json").write_text(text)
    with pytest.raises(UnlabelError, match=r"notes\.json does not hold notes: write JSON.*time"):
        tables_of(one_cell)


def test_seeds_are_counted_where_they_are(tmp_path):
    bench_results.write_seed(tmp_path, 0)
    bench_results.write_seed(tmp_path, 1, forget=["F1", "F2"])
    bench_results.write_seed(tmp_path, 2, forget=["F1"])
    text = tables_of(tmp_path)
    assert "Seeds: 1 to 3 for the base model and the methods, 1 to 3 for retraining." in text


def test_a_network_that_has_only_begun_is_left_out(one_cell):
    begun = one_cell / SET / OTHER / "s0"
    begun.mkdir(parents=True)
    for file in (one_cell / SET / ARCHITECTURE / "s0").glob("F0.*"):
        shutil.copy(file, begun)
    text = tables_of(one_cell)
    assert "CIFAR-10, ResNet18" in text
    assert "AllCNN" not in text


def test_a_seed_without_its_base_model_counts_for_retraining_alone(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    bench_results.write_seed(tmp_path, 1, forget=["F1"])
    (tmp_path / SET / ARCHITECTURE / "s1" / "F0.json").unlink()
    text = tables_of(tmp_path)
    assert "Seeds: 1 for the base model and the methods, 2 for retraining." in text
    lines = values_of(tmp_path).items()
    seeds = {method: line["seeds"] for (method, _, metric, _), line in lines if metric == "A_R"}
    assert seeds.pop("retrain") == "2"
    assert set(seeds.values()) == {"1"}


def test_values_at_run_time_are_shown_and_what_rounding_changed(one_cell):
    assert "rounding the logits" not in tables_of(one_cell)
    lines = values_of(one_cell)
    accuracy, ranks = (
        float(lines["osr", "", metric, "F2"]["ours_mean"]) for metric in ("A_R", "Cov_R")
    )
    before = {"A_R": accuracy + 0.0123, "A_F": None, "coverage_retained": ranks - 0.25}
    bench_results.change(one_cell, "F2", facts={"full_precision": {"osr": before}})
    moved = "rounding the logits for storage changed A_R by .0123, Cov_R by .2500 at most"
    assert moved in tables_of(one_cell)
    line = values_of(one_cell)["osr", "", "A_R", "F2"]
    assert float(line["ours_mean"]) == pytest.approx(accuracy + 0.0123, abs=1e-6)


def test_a_mask_that_was_not_run_has_no_values(one_cell):
    methods = [method for method in bench_results.SECONDS if method != "mask"]
    bench_results.change(one_cell, "F2", facts={"methods": methods})
    tables_of(one_cell)
    assert ("osr", "", "A_R", "F2") in values_of(one_cell)
    assert ("mask", "", "A_R", "F2") not in values_of(one_cell)


def test_the_condition_of_linear_filtration_is_reported(one_cell):
    bench_results.change(one_cell, "F2", facts={"condition": 36_745.07})
    text = tables_of(one_cell)
    assert text.count("matrix of mean logits: 36,745.") == 1


def test_the_csv_has_the_values_and_their_tables(out):
    lines = values_of(out)
    assert {line["table"] for line in lines.values()} == {
        "accuracy", "intervals", "coverage", "kl_retrained", "kl_base", "beside", "orders", "time",
    }  # fmt: skip
    assert {(line["set"], line["architecture"]) for line in lines.values()} == {(SET, ARCHITECTURE)}
    assert all(line["paper"] == "" for (method, *_), line in lines.items() if method == "mask")
    assert lines["retrain", "total", "seconds", "F1"]["paper"] == "319.437"
    assert any(math.isinf(float(line["ours_mean"])) for line in lines.values())


def test_what_is_written_is_printed_and_written_again_alike(one_cell):
    out = one_cell / "new" / "tables"
    printed = research_tables(one_cell, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(before) == {"tables.csv", "tables.md"}
    assert before["tables.md"].decode().strip() == printed.strip()
    research_tables(one_cell, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


RUN_AND_PRINT_IMPORTS = """
import sys
from research.__main__ import main
try:
    main()
finally:
    print(*{"torch", "torchvision", "PIL"} & sys.modules.keys(), file=sys.stderr)
"""


def test_the_command_needs_no_pytorch_and_writes_beside_the_results(one_cell):
    command = [sys.executable, "-c", RUN_AND_PRINT_IMPORTS, "tables", str(one_cell)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr.split()) == (0, [])
    assert done.stdout.strip() == (one_cell / "tables.md").read_text(encoding="utf-8").strip()


def test_a_folder_that_cannot_be_written_is_named(one_cell):
    (one_cell / "file").touch()
    with pytest.raises(UnlabelError, match=r"file.* could not be written"):
        research_tables(one_cell, one_cell / "file" / "tables")
