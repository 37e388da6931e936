"""What a summary says of itself: its files, its true labels, and the models it was told of."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import doors
from commands import unlabel
from unlabel import LabelPlan

CLASSES = ["ant", "bee", "cat", "dog", "elk", "fox"]
CHANGES = {"bee": None, "cat": "pet", "dog": "pet", "elk": {"moose": 0.5, "deer": 0.5}}
PLAN = LabelPlan(CHANGES, title="Version 2", note="Pets are pets.")
RESULT = ["ant", "pet", "moose", "deer", "fox"]
NEW = {"cat": "pet", "dog": "pet"}


def write(path, classes, rows, labels=None):
    columns = {label: rows[:, column] for column, label in enumerate(classes)}
    if labels is not None:
        columns["label"] = labels
    Path(path).parent.mkdir(exist_ok=True)
    pa.parquet.write_table(pa.table(columns), path)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A filter, the base table with old, new and no true labels, and two retrained models."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(6, 0.3), size=300)
    labels = [CLASSES[rng.choice(6, p=row)] for row in rows]
    write("in/base.parquet", CLASSES, rows, labels)
    write("in/new.parquet", CLASSES, rows, [NEW.get(label, label) for label in labels])
    write("in/unlabelled.parquet", CLASSES, rows)
    for number in (1, 2):
        write(f"in/retrained-{number}.parquet", RESULT, rng.dirichlet(np.ones(5), size=300), labels)
    doors.fit(rows, labels, classes=CLASSES, plan=PLAN).save("in/f.safetensors")
    return rows, labels


def evaluate(table, *options):
    arguments = ("evaluate", f"in/{table}", "--json", "s.json", "--force")
    if not {"--remove", "--plan"} & {*options}:
        arguments += ("--filter", "in/f.safetensors")
    return unlabel(*arguments, *options)


def summary_of(table, *options):
    code, _, error = evaluate(table, *options)
    assert code == 0, error
    return json.loads(Path("s.json").read_text())


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


RETRAINED = ("--retrained", "in/retrained-1.parquet", "--retrained", "in/retrained-2.parquet")


def test_a_summary_says_what_it_was_made_from(tables):
    summary = summary_of("base.parquet", *RETRAINED)
    names = ["base.parquet", "retrained-1.parquet", "retrained-2.parquet"]
    outputs = ["base model", "retrained", "retrained again"]
    assert summary["made_from"] == {
        "date": None,
        "tables": [
            {"output": output, "name": name, "sha256": sha256(f"in/{name}"), "rows": 300}
            for output, name in zip(outputs, names, strict=True)
        ],
        "filter": {"name": "f.safetensors", "sha256": sha256("in/f.safetensors")},
    }
    assert summary["unlabel"] == version("unlabel")
    assert summary["plan"].items() >= {"title": "Version 2", "note": "Pets are pets."}.items()
    assert len(summary["plan"]["digest"]) == 64
    assert "in/" not in Path("s.json").read_text()
    # Without a date in it, the same files give the same summary.
    assert summary_of("base.parquet", *RETRAINED) == summary


def test_rows_that_are_skipped_are_rows_of_the_table(tables):
    rows, labels = tables
    write("in/base.parquet", CLASSES, rows, [None, "yak", *labels[2:]])
    summary = summary_of("base.parquet")
    assert summary["made_from"]["tables"][0]["rows"] == 300
    assert summary["rows"]["judged"] == 298
    assert summary["made_from"]["filter"]["name"] == "f.safetensors"


def test_a_date_is_there_if_it_is_given(tables):
    assert summary_of("base.parquet", "--date", "2026-02-03")["made_from"]["date"] == "2026-02-03"
    for wrong in ("yesterday", "2026-02-30", "", "\x1b[2J"):
        code, _, error = evaluate("base.parquet", "--date", wrong)
        assert (code, error.count("\n")) == (2, 1)
        assert "is not a date: write it as 2026-01-31" in error


def test_without_a_filter_no_filter_is_named(tables):
    summary = summary_of("base.parquet", "--remove", "bee")
    assert summary["made_from"]["filter"] is None


@pytest.mark.parametrize("same", ["in/retrained-1.parquet", "in/copy.parquet", "in/base.parquet"])
def test_the_same_table_twice_is_refused(tables, same):
    Path("in/copy.parquet").write_bytes(Path("in/retrained-1.parquet").read_bytes())
    first = "in/base.parquet" if same == "in/base.parquet" else "in/retrained-1.parquet"
    models = ("--retrained", "in/retrained-1.parquet", "--retrained", same)
    code, _, error = evaluate("base.parquet", *models)
    assert code == 2
    assert f"{first[1:]} and {same} are the same table" in error
    assert not Path("s.json").exists()


@pytest.mark.parametrize("is_told", [True, False])
def test_seeds_are_spoken_of_only_if_the_recipe_is_the_same(tables, is_told):
    options = ("--same-recipe",) if is_told else ()
    code, out, _ = evaluate("base.parquet", *RETRAINED, *options)
    assert code == 0
    assert unlabel("report", "s.json", "--out", "r.html")[0] == 0
    page = Path("r.html").read_text()
    for text in (" ".join(out.split()), page):
        assert ("seed" in text) == is_told
    assert "its KL is the floor" in " ".join(out.split())
    assert ("'retrained again' differs in its seed alone" in " ".join(out.split())) == is_told
    assert json.loads(Path("s.json").read_text())["same_recipe"] == is_told


# True labels


def test_without_true_labels_only_the_impact_is_shown(tables):
    code, out, error = evaluate("unlabelled.parquet")
    assert code == 0, error
    said = " ".join(out.split())
    assert "300 rows without true labels." in said
    assert "of 300 answers change." in said
    assert "There are no true labels (no column 'label'): only the impact is shown." in said
    for word in ("accu-", "Log-loss", "corrected", "Judged"):
        assert word not in out
    summary = json.loads(Path("s.json").read_text())
    assert summary["truth"] is None
    assert unlabel("report", "s.json", "--out", "r.html")[0] == 0
    page = Path("r.html").read_text()
    changed = next(e for e in summary["figures"] if e["output"] == "OSR")["impact"]["changed"]
    assert f"<b>{changed}</b> of 300 answers change ({changed / 300:.1%})." in page
    assert "Compared on 300 rows without true labels." in page
    assert "None" not in page


def test_a_plan_without_true_labels_is_tried_as_a_mask(tables):
    LabelPlan({"bee": None, "cat": "dog"}).save("plan.toml")
    summary = summary_of("unlabelled.parquet", "--plan", "plan.toml")
    assert summary["shown"] == "mask"
    assert summary["notes"][0].endswith("only the impact of mask is shown.")
    # Without removed labels there is nothing that a filter could be fitted on.
    LabelPlan({"cat": "dog"}).save("plan.toml")
    summary = summary_of("unlabelled.parquet", "--plan", "plan.toml")
    assert summary["notes"][0].endswith("only the impact is shown.")


def test_a_column_that_is_asked_for_must_be_there(tables):
    code, _, error = evaluate("unlabelled.parquet", "--label-column", "label")
    assert code == 2
    assert "unlabelled.parquet: it has no column 'label'" in error


def test_retrained_models_are_not_judged_without_true_labels(tables):
    code, _, error = evaluate("unlabelled.parquet", *RETRAINED)
    assert (code, error.count("\n")) == (2, 1)
    assert "has no column 'label', and retrained models are judged by true labels" in error


@pytest.mark.parametrize("models", [(), RETRAINED])
def test_new_true_labels_give_the_metrics_of_the_old_ones(tables, models):
    old = summary_of("base.parquet", *models)
    new = summary_of("new.parquet", "--truth", "new", *models)
    assert (old["truth"], new["truth"]) == ("old", "new")
    assert new["figures"][1:] == old["figures"][1:]
    assert new["rows"] == old["rows"]
    assert new["impact"]["pairs"] == old["impact"]["pairs"]
    labels = [entry["label"] for entry in new["by_label"]]
    assert labels == [*RESULT, "bee", "elk"]


def test_new_labels_among_old_ones_get_a_hint(tables):
    code, _, error = evaluate("new.parquet")
    assert (code, error.count("\n")) == (2, 1)
    assert "the true label 'pet' is a new one, which the model does not have" in error
    assert "say so (--truth)" in error


def test_old_labels_among_new_ones_get_a_hint(tables):
    code, _, error = evaluate("base.parquet", "--truth", "new")
    assert (code, error.count("\n")) == (2, 1)
    assert "is an old one, which becomes 'pet': give all true labels as they become" in error


def test_labels_that_nothing_becomes_are_skipped(tables):
    rows, labels = tables
    new = ["yak", "yak", None, *(NEW.get(label, label) for label in labels[3:])]
    write("in/new.parquet", CLASSES, rows, new)
    summary = summary_of("new.parquet", "--truth", "new")
    assert summary["rows"]["judged"] == 297
    assert summary["notes"] == [
        "1 row without a true label and 2 rows of labels that the model does not have, such as "
        "'yak', were skipped."
    ]
    code, _, error = evaluate("new.parquet", "--truth", "new", "--strict")
    assert code == 2
    assert "'yak'" in error


@pytest.mark.parametrize("kind", ["old", "new", "parts", "wrong", "mixed"])
def test_true_labels_of_retrained_tables_beside_new_ones(tables, kind):
    rows, labels = tables
    truth = [NEW.get(label, label) for label in labels]
    base = ["moose" if label == "elk" else label for label in truth]
    write("in/new.parquet", CLASSES, rows, base)
    row = labels.index("cat")
    own = {"old": labels, "new": base, "parts": base, "wrong": [*base], "mixed": [*base]}[kind]
    if kind == "wrong":
        own[row] = "fox"
    if kind == "mixed":
        own[row] = "cat"
    write("in/retrained-1.parquet", RESULT, np.full((300, 5), 0.2), own)
    code, _, error = evaluate(
        "new.parquet", "--truth", "new", "--retrained", "in/retrained-1.parquet"
    )
    if kind == "wrong":
        assert f"row {row}: it has the true label 'fox', and the base model's table 'pet'" in error
    elif kind == "mixed":
        assert f"row {row}: it has the old true label 'cat', and row " in error
    assert code == (2 if kind in ("wrong", "mixed") else 0)


def test_two_files_need_two_names(tables):
    code, _, error = evaluate("base.parquet", "--markdown", "s.json")
    assert code == 2
    assert "--json and --markdown are both s.json: give two names." in error


def test_markdown_is_not_overwritten_unasked(tables):
    Path("s.md").write_text("mine")
    options = ("--filter", "in/f.safetensors", "--markdown", "s.md", "--json", "t.json")
    code, _, error = unlabel("evaluate", "in/base.parquet", *options)
    assert code == 2
    assert "s.md: it exists already" in error
    assert not Path("t.json").exists()
    assert Path("s.md").read_text() == "mine"


NEW_TRUTHS = {
    "removed and kept": ({"bee": None}, ["ant", "bee", "fox"]),
    "merged": ({"ant": "pest", "bee": "pest"}, ["pest", "pest", "fox"]),
    "split": ({"bee": {"wasp": 0.5, "hornet": 0.5}}, ["ant", "hornet", "fox"]),
    "swapped": ({"ant": "bee", "bee": "ant"}, ["ant", "bee", "fox"]),
}


@pytest.mark.parametrize("case", NEW_TRUTHS)
def test_new_true_labels_show_which_columns_of_logits_are_labels(case, tmp_path):
    changes, names = NEW_TRUTHS[case]
    LabelPlan(changes).save(tmp_path / "plan.toml")
    rng = np.random.default_rng(0)
    columns = {label: rng.normal(size=90) for label in ("ant", "bee", "fox")}

    def evaluated(**more):
        table = {**columns, **more, "label": names * 30}
        pa.parquet.write_table(pa.table(table), tmp_path / "in.parquet")
        options = (
            "--kind",
            "logits",
            "--truth",
            "new",
            "--plan",
            tmp_path / "plan.toml",
            "--allow-chance",
        )
        return unlabel("evaluate", tmp_path / "in.parquet", *options)

    assert evaluated()[0] == 0
    code, _, error = evaluated(latency=rng.normal(50, size=90))
    assert code == 2
    assert "no row of the true label 'latency', so that column may or may not hold" in error
