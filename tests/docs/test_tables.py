"""The committed tables of the pages are those of the scripts."""

import json
from importlib.metadata import version

import numpy as np
import pytest
from scipy.special import softmax

import change_labels
import extras
import merges_table
import serve_costs
import speed_tables
import tables as docs_tables
from unlabel import LabelPlan
from unlabel.evaluation import load_cifar10
from unlabel.report.formatting import percent

DOCS = docs_tables.DOCS
METRICS = DOCS / "concepts" / "metrics.md"


@pytest.mark.parametrize("name", list(docs_tables.TABLES))
def test_the_committed_table_is_the_scripts(name):
    written = (DOCS / "tables" / name).read_text(encoding="utf-8")
    assert written == "\n".join(docs_tables.TABLES[name]()) + "\n"
    assert f"{{include}} ../tables/{name}" in METRICS.read_text(encoding="utf-8")


def test_the_readme_has_the_values_of_the_demo():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    table = (DOCS / "tables" / "calibration.md").read_text(encoding="utf-8")
    second = [line.split(" | ")[3] for line in table.splitlines()[2:]]  # forget set 2
    for value in second[:5]:  # log-loss
        assert value in readme


def test_the_page_on_metrics_has_the_shares_of_unknown():
    cifar10 = load_cifar10()
    removed, (retrained, _) = cifar10.removals["F2"].removed, cifar10.removals["F2"].retrained
    gone = np.isin(cifar10.labels, removed)
    mass = softmax(cifar10.base.astype(np.float64), axis=1)[
        :, [cifar10.classes.index(label) for label in removed]
    ].sum(axis=1)
    page = " ".join(METRICS.read_text(encoding="utf-8").split())
    for above, shown in ((0.25, ".25"), (0.5, ".5"), (0.75, ".75")):
        caught, lost = (percent((mass[rows] > above).mean()) for rows in (gone, ~gone))
        assert f"| {shown} | {caught} | {lost} |" in page
    confidence = softmax(retrained.astype(np.float64), axis=1).max(axis=1)
    lost, through = (confidence[~gone] < 0.9).mean(), (confidence[gone] >= 0.9).mean()
    assert f"lose {percent(lost)}, and still let {percent(through)} of the inputs" in page


def test_the_tables_of_speed_are_those_of_the_committed_results():
    cpu, gpu = (
        json.loads((speed_tables.RESULTS / f"speed-{device}.json").read_text())
        for device in ("cpu", "gpu")
    )
    written = (DOCS / "tables" / "speed.md").read_text(encoding="utf-8")
    assert written == "\n".join(speed_tables.page(cpu, gpu)).rstrip() + "\n"
    assert all(bar["met"] for bar in (*cpu["bars"], *gpu["bars"]))
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    lines = written.splitlines()
    header = next(line for line in lines if line.startswith("| path |"))
    for path in ("probabilities", "mask", "logits"):
        line = next(line for line in lines if line.startswith(f"| {path} |"))
        assert f"{line}\n" in readme
    assert f"{header}\n" in readme


def test_the_guide_includes_its_tables_and_a_plan_that_can_be_read():
    page = (DOCS / "guides" / "change-labels.md").read_text(encoding="utf-8")
    for name in (change_labels.BANKING77, change_labels.NAICS):
        assert f"{{include}} ../tables/{name}" in page
        assert (DOCS / "tables" / name).exists()
    plan = LabelPlan.load(change_labels.PLAN)
    check = plan.check([*plan.changes, "card_arrival"])
    assert check.problems == ()
    assert [label for label, _ in check.merged_into] == ["card_arrival", "top_up_problem", "other"]


def test_the_page_on_installing_names_every_extra():
    assert extras.extras() == {*extras.FOR} - {""}
    written = extras.TABLE.read_text(encoding="utf-8")
    assert [line.split("|")[2].strip() for line in written.splitlines()[2:]] == [
        *extras.FOR.values()
    ]
    page = (DOCS / "installing.md").read_text(encoding="utf-8")
    assert "{include} tables/extras.md" in page
    assert f"unlabel-{version('unlabel')}-" in page


def test_the_costs_of_serving_are_those_measured():
    results = json.loads(serve_costs.RESULTS.read_text())
    assert serve_costs.TABLE.read_text(encoding="utf-8") == serve_costs.table(results)
    for each in results["results"]:
        assert each["added_median_ms"] <= results["bars"]["added_median_ms"]
        assert each["added_p99_ms"] <= results["bars"]["added_p99_ms"]


@pytest.mark.parametrize("name", list(merges_table.TABLES))
def test_the_tables_of_merges_are_those_measured(name):
    results = json.loads(merges_table.RESULTS.read_text())
    written = (DOCS / "tables" / name).read_text(encoding="utf-8")
    assert written == "\n".join([*merges_table.TABLES[name](results), ""])
    page = (DOCS / "guides" / "calibrate.md").read_text(encoding="utf-8")
    assert f"{{include}} ../tables/{name}" in page
