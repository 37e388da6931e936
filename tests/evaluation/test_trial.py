import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import doors
import plain
import plain_metrics
from commands import unlabel
from plain_calibration import best_temperature, robust_log_loss
from unlabel import UnlabelError
from unlabel.cli.summary_table import COLUMNS, show
from unlabel.evaluation.samples import load_cifar10
from unlabel.evaluation.summary import summarise
from unlabel.evaluation.trial import try_filter, try_labels
from unlabel.metrics import mean_accuracy
from unlabel.report.comparison import compare

CIFAR10 = load_cifar10()
FORGET_SETS = ["F1", "F2", "F3", "F4"]


@pytest.fixture(scope="module")
def summaries():
    return {name: summarise(CIFAR10.trial(name)) for name in FORGET_SETS}


def figures(summary):
    return {entry["output"]: entry for entry in summary["figures"]}


@pytest.mark.parametrize(
    ("name", "expected"), [("F1", 0.9379), ("F2", 0.9429), ("F3", 0.9438), ("F4", 0.9933)]
)
def test_accuracy_of_osr_fitted_on_the_test_rows_as_in_the_paper(name, expected):
    removal = CIFAR10.removals[name]
    fitted = doors.fit(
        CIFAR10.base, CIFAR10.labels, classes=CIFAR10.classes, remove=removal.removed, kind="logits"
    )
    accuracy = mean_accuracy(fitted.apply(CIFAR10.base), CIFAR10.labels, fitted.classes_out)
    assert accuracy == pytest.approx(expected, abs=0.0005)


@pytest.mark.parametrize("name", FORGET_SETS)
def test_calibrated_osr_has_a_lower_log_loss_than_a_retrained_model(summaries, name):
    judged = figures(summaries[name])
    osr = judged["OSR, calibrated"]["log_loss"]
    assert osr < judged["retrained again"]["log_loss"]
    assert osr < judged["retrained again, calibrated"]["log_loss"]


@pytest.mark.parametrize("name", FORGET_SETS)
def test_osr_is_within_three_percent_of_mask(summaries, name):
    judged = figures(summaries[name])
    osr, mask = judged["OSR"], judged["mask"]
    for figure in ("log_loss", "calibration_error"):
        assert osr[figure] == pytest.approx(mask[figure], rel=0.03)
    assert osr["to_retrained"]["kl"] == pytest.approx(mask["to_retrained"]["kl"], rel=0.03)


def test_the_summary_agrees_with_plain_arithmetic(summaries):
    """The whole way written out: the halves, the filter, the figures."""
    summary = summaries["F1"]
    shuffled = np.random.default_rng(0).permutation(10000)
    columns = np.array([CIFAR10.classes.index(label) for label in CIFAR10.labels])
    by_label = shuffled[np.argsort(columns[shuffled], kind="stable")]
    fitting, judged = by_label[::2], by_label[1::2]
    exponentials = np.exp(CIFAR10.base.astype(float))
    rows = exponentials / exponentials.sum(axis=1, keepdims=True)
    steps = plain.fit([rows[fitting][columns[fitting] == 0]], [0], 10)
    some = [row for row in judged if columns[row] != 0][:500]
    own = [plain.apply_row(rows[row], steps)[columns[row] - 1] for row in some]
    trial = CIFAR10.trial("F1")
    output = trial.candidates["OSR"].output()
    position = {row: at for at, row in enumerate(trial.row_numbers)}
    ours = [output[position[row], columns[row] - 1] for row in some]
    np.testing.assert_allclose(ours, own, atol=1e-6)  # float32
    assert summary["rows"]["judged"] == len(judged)
    assert sorted(trial.row_numbers) == sorted(judged)


def test_unknown_catches_most_and_loses_few():
    fitted = doors.mask(CIFAR10.classes, CIFAR10.removals["F2"].removed, kind="logits")
    summary = summarise(try_filter(fitted, CIFAR10.base, CIFAR10.labels))
    at = summary["unknown"][50]
    assert at["above"] == 0.5
    assert at["caught"] == pytest.approx(0.942, abs=0.0006)
    assert at["lost"] == pytest.approx(0.016, abs=0.0006)
    text = str(show(summary).renderables[-1])
    assert "catch 94.2% of the rows of removed labels and lose 1.6% of the others" in text
    assert "It gives the former away." in text


def test_unknown_is_what_the_classifier_answers(summaries):
    trial = CIFAR10.trial("F2")
    candidate, gone = trial.candidates["OSR"], np.isin(trial.labels, ["airplane", "deer"])
    mass = candidate.filter.run(candidate.rows[candidate.judged]).removed_mass
    for at in summaries["F2"]["unknown"]:
        assert at["caught"] == (mass[gone] > at["above"]).mean()
        assert at["lost"] == (mass[~gone] > at["above"]).mean()


def test_divergences_and_their_floor(summaries):
    removal, summary = CIFAR10.removals["F2"], summaries["F2"]
    trial = CIFAR10.trial("F2")
    goal = trial.candidates["retrained"].output()
    again = trial.candidates["retrained again"].output()
    osr = trial.candidates["OSR"].output()
    kept = ~np.isin(trial.labels, removal.removed)
    floor = np.mean(plain_metrics.kl_divergence(again[kept].tolist(), goal[kept].tolist()))
    mean = np.mean(plain_metrics.kl_divergence(osr[kept].tolist(), goal[kept].tolist()))
    entry = figures(summary)["OSR"]
    assert summary["floor"]["kl"]["retained"] == pytest.approx(floor, rel=1e-6)
    assert entry["to_retrained"]["kl"]["retained"] == pytest.approx(mean, rel=1e-6)
    assert entry["over_floor"]["kl"]["retained"] == pytest.approx(mean / floor, rel=1e-6)
    assert figures(summary)["retrained again"]["over_floor"]["kl"]["removed"] == 1


def test_halves_are_disjoint_and_fair():
    labels = np.repeat([0, 1, 2], [100, 60, 40])
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=200)
    trial = try_labels(rows, labels, classes=[0, 1, 2], plan=[2], allow_chance=True)
    assert np.bincount(trial.labels).tolist() == [50, 30, 20]
    assert trial.rows_fitted_on == 100
    fitted = trial.candidates["OSR"].filter
    assert fitted.counts == (20,)
    rest = np.setdiff1d(np.arange(200), trial.row_numbers)
    again = doors.fit(rows[rest], labels[rest], remove=[2])
    np.testing.assert_array_equal(again.means, fitted.means)


def test_temperatures_are_those_of_the_rows_that_are_not_judged():
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(4), size=400)
    labels = np.array([rng.choice(4, p=row) for row in rows])
    sharper = rows[:, :3] ** 2 / (rows[:, :3] ** 2).sum(axis=1, keepdims=True)
    trial = try_labels(rows, labels, classes=range(4), plan=[3], retrained=[sharper])
    judged = np.isin(np.arange(400), trial.row_numbers)
    assert judged.sum() == 200
    kept = labels < 3
    for name, output in (("mask", rows), ("retrained", sharper)):
        own, other = (
            best_temperature(robust_log_loss, output[half & kept], labels[half & kept])
            for half in (~judged, judged)
        )
        assert abs(own - other) > 0.01  # the rows would tell
        found = trial.candidates[f"{name}, calibrated"].filter.temperature
        assert found == pytest.approx(own, rel=1e-6)
    candidates = trial.candidates
    osr, mask = (candidates[f"{name}, calibrated"].filter for name in ("OSR", "mask"))
    assert osr.temperature == mask.temperature
    assert not np.array_equal(osr.means, candidates["OSR"].filter.means)  # of calibrated rows


def test_too_few_rows_to_calibrate_are_noted():
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=60)
    labels = np.tile([0, 1, 2], 20)
    trial = try_labels(rows, labels, classes=[0, 1, 2], plan=[2], allow_chance=True)
    assert list(trial.candidates) == ["OSR", "mask"]
    few, calibration = trial.notes
    assert "Fewer than 100 reference rows of 2" in few
    assert calibration.startswith("OSR, mask: calibration needs at least 50")
    assert summarise(trial)["notes"] == list(trial.notes)


def test_a_removed_label_without_rows_is_masked_and_named():
    rows = np.random.default_rng(3).dirichlet(np.full(4, 0.3), size=400)
    labels = rows[:, :3].argmax(axis=1)
    trial = try_labels(rows, labels, classes=range(4), plan=[0, 3])
    assert trial.candidates["OSR"].filter.counts[1] == 0
    assert sum("No reference rows of 3: masked" in note for note in trial.notes) == 1
    masked = doors.mask([0, 1, 2, 3], [3])
    of_three = doors.fit(rows[labels > 0], labels[labels > 0], remove=[3], classes=range(4))
    np.testing.assert_allclose(of_three.apply(rows), masked.apply(rows), atol=1e-12)


def test_confidences_no_better_than_chance_are_an_error():
    rows = np.random.default_rng(3).dirichlet(np.full(4, 0.3), size=400)
    labels = 3 - rows.argmax(axis=1)  # as if the labels were given in reverse
    with pytest.raises(UnlabelError, match="no better than chance"):
        try_labels(rows, labels, classes=range(4), plan=[3])
    fitted = doors.mask(range(4), [3])
    with pytest.raises(UnlabelError, match="no better than chance"):
        try_filter(fitted, rows, labels)
    try_filter(fitted, rows, labels, allow_chance=True)
    try_filter(fitted, rows)


def test_a_filter_is_judged_on_all_rows(tmp_path):
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=60)
    labels = np.tile([0, 1, 2], 20)
    fitted = doors.fit(rows, labels, remove=[2])
    summary = summarise(try_filter(fitted, rows, labels))
    assert summary["rows"] == {
        "judged": 60,
        "of_retained_labels": 40,
        "of_removed_labels": 20,
        "of_split_labels": 0,
        "without_true_label": 0,
        "fitted_on": 0,
    }
    assert [entry["output"] for entry in summary["figures"]] == ["base model", "OSR", "mask"]


def test_a_calibrated_filter_is_the_one_that_is_shown():
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=600)
    labels = np.array([np.random.default_rng(i).choice(3, p=row) for i, row in enumerate(rows)])
    fitted = doors.fit(rows, labels, remove=[2], calibrate=True)
    summary = summarise(try_filter(fitted, rows, labels))
    names = [entry["output"] for entry in summary["figures"]]
    assert names == ["base model", "OSR, calibrated", "mask", "mask, calibrated"]
    assert summary["shown"] == "OSR, calibrated"


def test_rows_of_removed_labels_alone_are_an_error():
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=60)
    labels = np.tile([0, 1, 2], 20)
    fitted = doors.fit(rows, labels, remove=[2])
    with pytest.raises(UnlabelError, match="no rows of retained labels"):
        summarise(try_filter(fitted, rows[labels == 2], labels[labels == 2]))


def test_probabilities_are_not_taken_for_logits():
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=60)
    labels = np.tile([0, 1, 2], 20)
    logits, kept = np.log(rows), rows[:, :2] / rows[:, :2].sum(axis=1, keepdims=True)
    fitted = doors.fit(logits, labels, remove=[2], kind="logits")
    with pytest.raises(UnlabelError, match="are probabilities, not logits"):
        try_filter(fitted, rows, labels)
    with pytest.raises(UnlabelError, match="are probabilities, not logits"):
        try_filter(fitted, logits, labels, retrained=[kept])
    with pytest.raises(UnlabelError, match="are probabilities, not logits"):
        try_labels(logits, labels, classes=[0, 1, 2], plan=[2], retrained=[kept], kind="logits")
    try_filter(fitted, logits, labels, retrained=[np.log(kept)])


def test_labels_of_a_list_keep_their_types():
    rows = np.random.default_rng(3).dirichlet(np.ones(3), size=60)
    labels = [0, "bee", 2] * 20
    summary = summarise(try_labels(rows, labels, classes=[0, "bee", 2], plan=["bee"]))
    assert summary["rows"]["of_removed_labels"] == 10
    fitted = doors.fit(rows, labels, remove=["bee"], classes=[0, "bee", 2])
    summary = summarise(try_filter(fitted, rows, labels))
    assert {row["label"] for row in summary["most_changed"]["retained"]} <= {0, 2}


def test_more_than_two_retrained_models_are_refused():
    rows = np.full((4, 2), 0.5)
    with pytest.raises(UnlabelError, match="3 retrained models"):
        try_labels(rows, [0, 1, 0, 1], classes=[0, 1], plan=[0], retrained=[rows[:, :1]] * 3)


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.full(4, 0.3), size=400)
    labels = np.array(["cat", "dog", "fox", "owl"])[[rng.choice(4, p=row) for row in rows]]
    names = ["cat", "dog", "fox", "owl"]
    columns = {name: rows[:, i] for i, name in enumerate(names)}
    pa.parquet.write_table(pa.table(columns | {"label": labels}), tmp_path / "base.parquet")
    with_id = columns | {"label": labels, "id": range(400)}
    pa.parquet.write_table(pa.table(with_id), tmp_path / "copy.parquet")
    kept = rows[:, [0, 2, 3]] / rows[:, [0, 2, 3]].sum(axis=1, keepdims=True)
    columns = {name: kept[:, i] for i, name in enumerate(["cat", "fox", "owl"])}
    pa.parquet.write_table(pa.table(columns | {"label": labels}), tmp_path / "retrained.parquet")
    pa.parquet.write_table(
        pa.table(columns | {"label": labels[::-1]}), tmp_path / "reversed.parquet"
    )
    pa.parquet.write_table(pa.table(columns).slice(0, 10), tmp_path / "short.parquet")
    pa.parquet.write_table(pa.table(columns).drop(["fox"]), tmp_path / "without-fox.parquet")
    return tmp_path


def test_evaluate_prints_a_table_and_writes_json(tables):
    code, out, error = unlabel(
        "evaluate",
        tables / "base.parquet",
        *("--remove", "dog", "--retrained", tables / "retrained.parquet"),
        *("--json", tables / "summary.json"),
    )
    assert (code, error) == (0, "")
    summary = json.loads((tables / "summary.json").read_text())
    osr = figures(summary)["OSR"]
    assert f"{osr['log_loss']:.4f}".removeprefix("0")[:5] in out
    assert osr["accuracy"]["removed"] == 0
    # Here the retrained model is the mask itself.
    assert figures(summary)["mask"]["to_retrained"]["kl"]["retained"] < 1e-12


def test_evaluate_finds_the_list_column_in_every_table(tmp_path):
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(4, 0.3), size=200)
    labels = [str(rng.choice(4, p=row)) for row in rows]
    kept = rows[:, [0, 2, 3]] / rows[:, [0, 2, 3]].sum(axis=1, keepdims=True)
    for name, confidences in (("base", rows), ("retrained", kept)):
        columns = {"p": confidences.tolist(), "embedding": rows[:, :2].tolist(), "label": labels}
        pa.parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    code, _, error = unlabel(
        "evaluate",
        tmp_path / "base.parquet",
        *("--remove", "1", "--retrained", tmp_path / "retrained.parquet", "--list-column", "p"),
    )
    assert (code, error) == (0, "")


@pytest.mark.parametrize("name", FORGET_SETS)
def test_the_terminal_and_the_page_agree_on_what_is_best(summaries, name):
    terminal = show(summaries[name]).renderables[2].columns
    outputs = [str(cell) for cell in terminal[0].cells]
    in_bold = {
        column.header: [out for out, cell in zip(outputs, column.cells, strict=True) if cell.style]
        for column in terminal[1:]
    }
    compared = compare(summaries[name]["figures"])
    assert outputs == [e["output"] for entries in compared.columns.values() for e in entries]
    on_page = {
        metric.path: [out for out, cell in zip(outputs, cells, strict=True) if cell.best]
        for metrics in compared.groups.values()
        for metric, cells in metrics.items()
    }
    assert in_bold == {heading: on_page[path] for path, heading in COLUMNS.items()}
    assert sum(map(bool, in_bold.values())) >= 6


def test_evaluate_takes_a_filter(tables):
    unlabel("fit", tables / "base.parquet", "--remove", "dog", "--out", tables / "f.safetensors")
    code, out, error = unlabel(
        "evaluate", tables / "base.parquet", "--filter", tables / "f.safetensors"
    )
    assert (code, error) == (0, "")
    assert "filter given" in " ".join(out.split())
    assert "mask" in out


def test_numbers_may_be_given_as_the_filters_classes(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", p=rng.dirichlet(np.ones(3), size=60), label=np.arange(60) % 3)
    fit = ("fit", tmp_path / "t.npz", "--remove", "1", "--allow-chance")
    unlabel(*fit, "--out", tmp_path / "f.safetensors")
    (tmp_path / "labels.txt").write_text("0\n1\n2\n")
    options = ("--filter", tmp_path / "f.safetensors", "--classes", tmp_path / "labels.txt")
    code, _, error = unlabel("evaluate", tmp_path / "t.npz", *options, "--allow-chance")
    assert (code, error) == (0, "")


def test_options_that_contradict_the_filter_are_refused(tables):
    unlabel("fit", tables / "base.parquet", "--remove", "dog", "--out", tables / "f.safetensors")
    evaluate = ("evaluate", tables / "base.parquet", "--filter", tables / "f.safetensors")
    labels = ["cat", "dog", "fox", "owl"]
    for name, given in (("agreed", labels), ("reversed", labels[::-1])):
        (tables / name).write_text("\n".join(given))
    assert unlabel(*evaluate, "--kind", "probabilities", "--classes", tables / "agreed")[0] == 0
    code, _, error = unlabel(*evaluate, "--classes", tables / "reversed")
    assert code == 2
    assert "has other labels" in error
    assert "--classes" in error


@pytest.fixture
def logits(tmp_path):
    """Tables of logits and of their probabilities, of a model and of one retrained without dog."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(300, 4)) * 3
    names = np.array(["cat", "dog", "fox", "owl"])
    softmax = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
    labels = names[[rng.choice(4, p=row) for row in softmax]]
    for name, columns in (("base", [0, 1, 2, 3]), ("retrained", [0, 2, 3])):
        of_labels = rows[:, columns]
        p = np.exp(of_labels) / np.exp(of_labels).sum(axis=1, keepdims=True)
        for kind, values in (("logits", of_labels), ("probabilities", p)):
            path = tmp_path / f"{name}-{kind}.npz"
            np.savez(path, p=values, classes=names[columns], label=labels)
    fitted = doors.fit(rows, labels, classes=names, remove=["dog"], kind="logits")
    fitted.save(tmp_path / "f.safetensors")
    return tmp_path


def test_evaluate_refuses_probabilities_for_a_filter_of_logits(logits):
    of_filter = ("--filter", logits / "f.safetensors")
    tables = ("base-logits.npz", "retrained-logits.npz")
    wrong = ("base-probabilities.npz", "retrained-probabilities.npz")
    for base, retrained in ((wrong[0], tables[1]), (tables[0], wrong[1])):
        code, _, error = unlabel(
            "evaluate", logits / base, *of_filter, "--retrained", logits / retrained
        )
        assert code == 2
        assert "-probabilities.npz: the rows are probabilities, not logits" in error
        assert "--kind" in error
    # Without a filter the option alone says what the tables are.
    options = ("--remove", "dog", "--kind", "logits", "--retrained", logits / wrong[1])
    code, _, error = unlabel("evaluate", logits / tables[0], *options)
    assert code == 2
    assert "retrained-probabilities.npz: the rows are probabilities" in error


def test_a_filter_can_be_told_what_the_tables_are(logits):
    of_filter = ("--filter", logits / "f.safetensors")
    summaries = []
    for kind in ("logits", "probabilities"):
        code, _, error = unlabel(
            *("evaluate", logits / f"base-{kind}.npz", *of_filter, "--kind", kind),
            *("--retrained", logits / f"retrained-{kind}.npz"),
            *("--json", logits / f"{kind}.json"),
        )
        assert (code, error) == (0, "")
        summaries.append(json.loads((logits / f"{kind}.json").read_text()))
        out = logits / f"{kind}-out.npz"
        apply = ("apply", logits / f"base-{kind}.npz", logits / "f.safetensors", "--out", out)
        assert unlabel(*apply, "--kind", kind)[0] == 0
    for entry, same in zip(*(summary["figures"] for summary in summaries), strict=True):
        assert entry["log_loss"] == pytest.approx(same["log_loss"], rel=1e-9)
    with np.load(logits / "logits-out.npz") as of, np.load(logits / "probabilities-out.npz") as p:
        np.testing.assert_allclose(of["p"], p["p"], atol=1e-12)
    code, _, error = unlabel(*apply, "--force")  # the filter was fitted on logits
    assert code == 2
    assert "are probabilities, not logits" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Give one of a plan, labels to remove"),
        (["--remove", "dgo"], "nearest is 'dog'"),
        (["--remove", "dog", "--retrained", "reversed.parquet"], "has the true label '"),
        (["--remove", "dog", "--retrained", "copy.parquet"], "a column 'dog', a removed label"),
        (["--remove", "dog", "--retrained", "base.parquet"], "are the same table: give the"),
        (
            ["--remove", "dog", "--retrained", "short.parquet"],
            "short.parquet: it has 10 rows and base.parquet 400",
        ),
        (["--remove", "cat", "--retrained", "retrained.parquet"], "'cat', a removed label"),
        (["--remove", "fox", "--retrained", "without-fox.parquet"], "no column 'dog'"),
        (["--remove", "dog", "--label-column", "truth"], "truth"),
    ],
)
def test_evaluate_refuses_what_does_not_fit(tables, arguments, words, monkeypatch):
    monkeypatch.chdir(tables)
    code, _, error = unlabel("evaluate", "base.parquet", *arguments, "--json", "summary.json")
    assert code == 2
    assert words in error
    assert not (tables / "summary.json").exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", *('{"summary": 1}', '{"summary": 2}'), "[" * 100_000]
)
def test_report_refuses_what_is_no_summary(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    code, _, error = unlabel("report", tmp_path / "summary.json", "--out", tmp_path / "r.html")
    assert code == 2
    assert "summary.json" in error
    assert not (tmp_path / "r.html").exists()
