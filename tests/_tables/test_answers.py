"""Tables with lists of allowed labels per row, unknown answers and columns of labels."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import doors
import plain_answers
import plain_plan
from commands import unlabel
from unlabel import AnswerRule
from unlabel._tables.files import formats
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table
from unlabel.allow import bind

NAMES = ["ant", "bee", "cat", "emu", "fox"]
PLAN = {"emu": None, "ant": "insect", "bee": "insect", "fox": {"red": 0.25, "grey": 0.75}}
ROWS = np.vstack([np.random.default_rng(3).dirichlet(np.ones(5), size=20), np.eye(5)])
OLD_TOP = [NAMES[column] for column in ROWS.argmax(axis=1)]
OTHER = [[*NAMES, "", "a note"][i * i % 7] for i in range(25)]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def write(path, **others):
    columns = {"id": range(len(ROWS)), **others, **dict(zip(NAMES, ROWS.T, strict=True))}
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
        return
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])


def read(path):
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path).to_pydict()
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    return dict(zip(header, map(list, zip(*lines, strict=True)), strict=True)) if lines else {}


def expected_answers(plan, lists, above, unknown="unknown"):
    """Work out rows, masses and answers, row by row; the lists are those of each row."""
    names = plain_plan.result_labels(plan, NAMES)
    rows, lost, masses, answers, changed = [], [], [], [], []
    for i, row in enumerate(plain_plan.changed_rows(plan, NAMES, ROWS).tolist()):
        kept, mass = plain_answers.restricted(row, [name in lists[i] for name in names])
        answer = plain_answers.top(names, kept, lists[i])
        is_change = plain_plan.is_change(plan, OLD_TOP[i], answer)
        removed = plain_answers.removed_mass(plan, NAMES, ROWS[i].tolist())
        if removed > above or mass == 1:  # nothing is left of what is allowed
            answer, is_change = unknown, True
        rows.append(kept)
        lost.append(mass)
        masses.append(removed)
        answers.append(answer)
        changed.append(is_change)
    return names, np.array(rows), lost, masses, answers, changed


@given(
    plan=plain_plan.changes_of(NAMES),
    data=st.data(),
    above=st.sampled_from([0.0, 0.15, 0.5, 1.0]),
    suffix=st.sampled_from([".csv", ".parquet"]),
    only_changed=st.booleans(),
)
def test_every_option_agrees_with_plain_loops(folder, plan, data, above, suffix, only_changed):
    names = plain_plan.result_labels(plan, NAMES)
    some = st.lists(st.sampled_from(names), min_size=1, unique=True)
    lists = {name: data.draw(some) for name in ("north", "south", "zoo")}
    by = data.draw(st.lists(st.sampled_from([*lists]), min_size=25, max_size=25))
    write(folder / f"in{suffix}", place=by, prediction=OLD_TOP, second=OTHER)
    fitted = doors.mask(NAMES, plan)
    options = ApplyOptions(
        top_label=True,
        removed_mass=True,
        only_changed=only_changed,
        overwrite=True,
        allow=bind(lists, fitted),
        allow_by="place",
        rule=AnswerRule(max_removed_mass=above, unknown="unknown"),
        update_column="second",
    )
    out = folder / f"out{suffix}"
    applied = apply_table(fitted, folder / f"in{suffix}", out, options, lambda part: None)
    allowed = [lists[name] for name in by]
    _, rows, lost, masses, answers, changed = expected_answers(plan, allowed, above)
    kept = [i for i in range(25) if changed[i] or not only_changed]
    assert (applied.rows, applied.written, applied.changed) == (25, len(kept), sum(changed))
    assert applied.unknown == answers.count("unknown")
    result = read(out)
    if not kept:
        return
    added = ["old_label"] * only_changed + ["top_label", "removed_mass", "not_allowed"]
    assert [*result][-len(added) :] == added
    found = np.array([result[name] for name in names], dtype=float).T
    np.testing.assert_allclose(found, rows[kept], rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        np.array(result["not_allowed"], float), np.array(lost)[kept], rtol=0, atol=1e-15
    )
    np.testing.assert_allclose(
        np.array(result["removed_mass"], float), np.array(masses)[kept], rtol=0, atol=1e-15
    )
    assert result["top_label"] == [answers[i] for i in kept]
    if only_changed:
        assert result["old_label"] == [OLD_TOP[i] for i in kept]
    assert result["prediction"] == [OLD_TOP[i] for i in kept]
    assert result["second"] == [
        plain_answers.updated(plan, NAMES, OTHER[i], OLD_TOP[i], answers[i], allowed[i])
        for i in kept
    ]
    stale = sum(plain_answers.is_stale(plan, NAMES, OLD_TOP[i]) for i in kept)
    rows_of = "1 row:" if stale == 1 else f"{stale} rows:"
    assert len(applied.remarks) == (stale > 0)
    says = f" {rows_of} name it as the column to update."
    assert all(says in each for each in applied.remarks)


@example(above=0.375)
@given(above=st.floats(0, 1))
@settings(max_examples=20)
def test_unknown_is_above_the_threshold_and_not_at_it(folder, above):
    rows = [[0.375, 0.625], [above, 1 - above], [1.0, 0.0]]
    pa.parquet.write_table(pa.table({"p": rows}), folder / "two.parquet")
    options = ApplyOptions(top_label=True, rule=AnswerRule(max_removed_mass=above), overwrite=True)
    fitted = doors.mask(["cat", "dog"], ["cat"])
    apply_table(fitted, folder / "two.parquet", folder / "o.parquet", options, lambda part: None)
    expected = [None if row[0] > above else "dog" for row in rows]
    assert read(folder / "o.parquet")["top_label"] == expected


@pytest.fixture
def saved(tmp_path):
    doors.mask(NAMES, PLAN).save(tmp_path / "f.safetensors")
    return tmp_path


def apply(folder, source, out, *options):
    paths = ("apply", folder / source, folder / "f.safetensors", "--out", folder / out)
    code, _, error = unlabel(*paths, "--force", *options)
    assert code == 0, error
    return error


def rule(folder, above, unknown=None):
    """Write a rule, and return the options that name it."""
    AnswerRule(max_removed_mass=above, unknown=unknown).save(folder / "rule.toml")
    return "--rule", folder / "rule.toml"


def refused(folder, source, *options):
    """Run a command that fails, and give its only sentence."""
    paths = ("apply", folder / source, folder / "f.safetensors")
    code, output, error = unlabel(*paths, "--out", folder / "none.parquet", *options)
    assert (code, output, error.count("\n")) == (2, "", 1)
    assert error.endswith(".\n")
    assert not (folder / "none.parquet").exists()
    return error.removeprefix("Error: ").rstrip("\n")


# Lists


def test_one_list_for_all_rows_is_named_by_all(saved):
    write(saved / "in.csv", place=["zoo"] * 25)
    (saved / "one.csv").write_text("list,label\nzoo,cat\nzoo,grey\n")
    apply(
        saved,
        "in.csv",
        "out.csv",
        "--allow",
        saved / "one.csv",
        "--allow-by",
        "place",
        "--top-label",
    )
    names, rows, _, _, answers, _ = expected_answers(PLAN, [["cat", "grey"]] * 25, 1.0, unknown="")
    result = read(saved / "out.csv")
    found = np.array([result[name] for name in names], dtype=float).T
    np.testing.assert_allclose(found, rows, rtol=0, atol=1e-15)
    assert result["top_label"] == answers


@pytest.mark.parametrize(
    "names",
    [
        pa.array([f"{i % 3}" for i in range(25)]).dictionary_encode(),
        pa.array([f"{i % 3}" for i in range(25)], pa.large_string()),
        pa.array([i % 3 for i in range(25)], pa.int8()),
        pa.array([float(i % 3) for i in range(25)]),
    ],
    ids=lambda column: str(column.type),
)
def test_the_names_of_lists_may_have_any_type(saved, names):
    write(saved / "in.parquet", place=names)
    lists = {"0": ["insect"], "1": ["cat", "red"], "2": ["insect", "grey"]}
    lines = [f"{name},{label}\n" for name, labels in lists.items() for label in labels]
    (saved / "lists.csv").write_text("list,label\n" + "".join(lines))
    options = ("--allow", saved / "lists.csv", "--allow-by", "place")
    apply(saved, "in.parquet", "out.parquet", *options)
    results, rows, *_ = expected_answers(PLAN, [lists[f"{i % 3}"] for i in range(25)], 1.0)
    result = read(saved / "out.parquet")
    found = np.column_stack([result[name] for name in results])
    np.testing.assert_allclose(found, rows, rtol=0, atol=1e-15)


def test_rows_without_a_list_are_named(saved):
    lists = ("--allow", saved / "lists.csv", "--allow-by", "place")
    (saved / "lists.csv").write_text("list,label\nDE,cat\nAU,red\n")
    for bad, says in (("XX", "the unknown list 'XX'"), ("", "no list"), (None, "no list")):
        places = ["DE", "AU"] * 12 + [bad]
        write(saved / "in.parquet", place=places)
        message = refused(saved, "in.parquet", *lists)
        assert message.startswith(f"{saved / 'in.parquet'}, row 24: it names {says}: the lists are")


# Unknown


def test_a_name_for_unknown_beside_labels_that_are_numbers_makes_texts(tmp_path):
    doors.mask(range(5), [3]).save(tmp_path / "f.safetensors")
    pa.parquet.write_table(pa.table({"p": ROWS.tolist()}), tmp_path / "in.parquet")
    apply(tmp_path, "in.parquet", "out.parquet", "--top-label")
    assert pa.parquet.read_schema(tmp_path / "out.parquet").field("top_label").type == pa.int64()
    output = apply(tmp_path, "in.parquet", "out.parquet", "--top-label", *rule(tmp_path, 0.5, "-1"))
    expected = []
    for row in ROWS.tolist():
        rest = [entry for column, entry in enumerate(row) if column != 3]
        expected.append("-1" if row[3] > 0.5 else str([0, 1, 2, 4][rest.index(max(rest))]))
    assert read(tmp_path / "out.parquet")["top_label"] == expected
    assert f"{expected.count('-1')} of these to unknown" in output
    apply(tmp_path, "in.parquet", "out.parquet", "--top-label", *rule(tmp_path, 0.5))
    numbers = [None if label == "-1" else int(label) for label in expected]
    assert read(tmp_path / "out.parquet")["top_label"] == numbers


# Columns of labels


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), "dictionary"])
def test_a_column_keeps_its_type_when_it_is_brought_up_to_date(saved, kind):
    texts = pa.array([None if text == "" else text for text in OTHER])
    column = texts.dictionary_encode() if kind == "dictionary" else texts.cast(kind)
    write(saved / "in.parquet", prediction=column)
    apply(saved, "in.parquet", "out.parquet", "--update-column", "prediction")
    result = pa.parquet.read_table(saved / "out.parquet")
    assert result.schema.field("prediction").type == column.type
    *_, answers, _ = expected_answers(PLAN, [plain_plan.result_labels(PLAN, NAMES)] * 25, 1.0)
    every = plain_plan.result_labels(PLAN, NAMES)
    assert result["prediction"].to_pylist() == [
        plain_answers.updated(PLAN, NAMES, texts[i].as_py(), OLD_TOP[i], answers[i], every)
        for i in range(25)
    ]


def test_the_cases_of_a_column_of_labels(saved):
    # The top label is removed, merged and split; in the end it is outdone by two merged ones.
    rows = [[0.1, 0.1, 0.2, 0.6, 0.0], [0.5, 0.1, 0.2, 0.2, 0.0], [0.1, 0.1, 0.1, 0.1, 0.6]]
    rows += [[0.3, 0.3, 0.4, 0.0, 0.0]]
    cells = [*NAMES, "Cat", ""]
    table = {"prediction": cells * 4, "p": [row for row in rows for _ in cells]}
    pa.parquet.write_table(pa.table(table), saved / "in.parquet")
    apply(saved, "in.parquet", "out.parquet", "--update-column", "prediction")
    found = read(saved / "out.parquet")["prediction"]
    assert found[:7] == ["insect", "insect", "cat", "insect", "insect", "Cat", ""]
    assert found[7:14] == ["insect", "insect", "cat", "insect", "insect", "Cat", ""]
    assert found[14:21] == ["insect", "insect", "cat", "grey", "grey", "Cat", ""]
    assert found[21:] == ["insect", "insect", "insect", "insect", "insect", "Cat", ""]
    options = ("--update-column", "prediction", *rule(saved, 0.5, "none"))
    apply(saved, "in.parquet", "out.parquet", *options)
    found = read(saved / "out.parquet")["prediction"]
    assert found[:7] == ["insect", "insect", "cat", "none", "none", "Cat", ""]


def test_swapped_labels_are_stale_and_follow(tmp_path):
    doors.mask(NAMES, {"ant": "bee", "bee": "ant"}).save(tmp_path / "f.safetensors")
    write(tmp_path / "in.csv", prediction=OLD_TOP)
    count = sum(label in ("ant", "bee") for label in OLD_TOP)
    says = f"The column 'prediction' still names removed or changed labels in {count} rows: "
    assert says in apply(tmp_path, "in.csv", "out.csv")
    assert "still" not in apply(tmp_path, "in.csv", "out.csv", "--update-column", "prediction")
    swapped = {"ant": "bee", "bee": "ant"}
    expected = [swapped.get(label, label) for label in OLD_TOP]
    assert read(tmp_path / "out.csv")["prediction"] == expected


def test_columns_of_numbers_are_brought_up_to_date_if_they_can_hold_the_labels(tmp_path):
    doors.mask(range(5), [3]).save(tmp_path / "f.safetensors")
    top = ROWS.argmax(axis=1)
    table = {"p": ROWS.tolist(), "prediction": top.astype("i1"), "fold": np.arange(25) % 5}
    pa.parquet.write_table(pa.table(table), tmp_path / "in.parquet")
    assert "still" not in apply(tmp_path, "in.parquet", "out.parquet")  # they may be anything
    apply(tmp_path, "in.parquet", "out.parquet", "--update-column", "prediction")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.schema.field("prediction").type == pa.int8()
    masked = ROWS.copy()
    masked[:, 3] = -1
    assert result["prediction"].to_pylist() == masked.argmax(axis=1).tolist()
    options = ("--update-column", "prediction", *rule(tmp_path, 0.5, "unknown"))
    assert refused(tmp_path, "in.parquet", *options) == (
        "The column 'prediction' has the type int8 and cannot hold the labels '0', '1', '2', '4', "
        "'unknown': turn it into texts first."
    )


def test_stale_columns_are_found_by_their_texts(saved):
    columns = {
        "prediction": OLD_TOP,
        "my second": pa.array(["emu", "cat", None, ""] * 6 + ["emu"]).dictionary_encode(),
        "label": OLD_TOP,  # true labels, which stay what they are
        "constant": ["emu"] * 25,
        "note": ["emu", "cat", "not a label"] * 8 + ["emu"],
        "clean": ["cat", "cat"] * 12 + [""],
        "empty": pa.array([None] * 25, pa.string()),
    }
    write(saved / "in.parquet", **columns)
    count = sum(label != "cat" for label in OLD_TOP)
    lines = apply(saved, "in.parquet", "out.parquet").splitlines()
    assert lines[1:] == [
        f"The column 'prediction' still names removed or changed labels in {count} rows: "
        "name it as the column to update.",
        "The column 'my second' still names removed or changed labels in 7 rows: "
        "name it as the column to update.",
    ]
    assert read(saved / "out.parquet")["prediction"] == OLD_TOP
    lines = apply(saved, "in.parquet", "out.parquet", "--update-column", "my second").splitlines()
    assert len(lines) == 2
    assert "'prediction'" in lines[1]


def test_a_single_stale_row_of_a_removed_label(tmp_path):
    doors.mask(NAMES, ["emu"]).save(tmp_path / "f.safetensors")
    write(tmp_path / "in.csv", prediction=["ant", "bee"] * 12 + ["emu"])
    output = apply(tmp_path, "in.csv", "out.csv")
    assert (
        "The column 'prediction' still names removed or changed labels in 1 row: name it" in output
    )


def test_texts_of_numbers_may_count_anything(tmp_path):
    numbers = ["0", "1", "2", "3", "4"]
    doors.mask(numbers, ["3"]).save(tmp_path / "f.safetensors")
    lines = [",".join(["fold", *numbers])]
    lines += [f"{i % 5},{','.join(map(repr, row))}" for i, row in enumerate(ROWS.tolist())]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    assert "still" not in apply(tmp_path, "in.csv", "out.csv")
    apply(tmp_path, "in.csv", "out.csv", "--update-column", "fold")
    assert "3" not in read(tmp_path / "out.csv")["fold"]


# Options that do not fit


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--allow-by", "id"], "and there are none: give them too (--allow-by)"),
        (["--allow", "LISTS"], "There are lists with names: name the column with each row's"),
        (["--allow", "LISTS", "--allow-by", "place"], "in.parquet: it has no column 'place'; the"),
        (["--allow", "LISTS", "--allow-by", "words"], "'words' has the type list<"),
        (
            ["--allow", "LISTS", "--allow-by", "id"],
            "in.parquet, row 0: it names the unknown list '0'",
        ),
        (["--allow", "REMOVED", "--allow-by", "id"], "'emu' is now removed"),
        (["--allow", "NOTHING"], "nothing.csv"),
        (["RULE"], "and none is written: add the top label (--rule)."),
        (["RULE", "--top-label"], "'cat' stands for unknown and is a label of the result"),
        (["--update-column", "predictoin"], "no column 'predictoin'; the nearest is 'prediction'"),
        (["--update-column", "cat"], "has confidences in column 'cat': choose a column of labels"),
        (["--update-column", "id"], "'id' has the type int64 and cannot hold the labels 'insect'"),
        (["--update-column", "words"], "'words' has the type list<"),
        (["--update-column", "note"], "the column 'note' does not name labels of the model, but"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_sentence(saved, options, says):
    words = pa.array([["x"]] * 25, pa.list_(pa.string()))
    write(saved / "in.parquet", prediction=OLD_TOP, note=["", "x"] * 12 + ["y"], words=words)
    (saved / "lists.csv").write_text("list,label\nDE,cat\nAU,cat\n")
    (saved / "removed.csv").write_text("list,label\nzoo,emu\n")
    files = {"LISTS": "lists.csv", "REMOVED": "removed.csv", "NOTHING": "nothing.csv"}
    options = [saved / files[each] if each in files else each for each in options]
    if "RULE" in options:
        options = [*options[1:], *rule(saved, 0.5, "cat")]
    if "words" not in options:
        table = pa.parquet.read_table(saved / "in.parquet")
        pa.parquet.write_table(table.drop(["words"]), saved / "in.parquet")
    assert says in refused(saved, "in.parquet", *options)


@pytest.mark.parametrize("name", ["old_label", "top_label", "not_allowed"])
def test_an_added_column_that_exists_is_refused(saved, name):
    write(saved / "in.parquet", place=["zoo"] * 25, **{name: OLD_TOP})
    (saved / "one.csv").write_text("list,label\nzoo,cat\n")
    options = ("--only-changed", "--allow", saved / "one.csv", "--allow-by", "place")
    says = f"in.parquet: it has a column {name!r} already: rename it first."
    assert says in refused(saved, "in.parquet", *options)
