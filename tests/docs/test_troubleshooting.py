"""The messages on the page on troubleshooting are those that unlabel really gives."""

import asyncio
import importlib
import json
import re
import socket
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

pytest.importorskip("torchvision_cpu")  # before transformers, which imports torchvision

import pandas as pd
import torch
import transformers

import tables as docs_tables
from commands import unlabel
from unlabel import AnswerRule, OutputFilter, UnlabelError
from unlabel import huggingface as hugging_face
from unlabel import torch as in_torch
from unlabel.serve import ServedFilter
from unlabel.serve.http_messages import HttpError
from unlabel.serve.upstream import Upstream
from unlabel.sklearn import RelabeledClassifier

PAGE = (docs_tables.DOCS / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTES = re.findall(r"(?:^>.*\n)+", PAGE, re.MULTILINE)
MESSAGES = [
    " ".join(message.split())
    for quote in QUOTES
    for message in re.findall("`([^`]+)`", re.sub("^>", "", quote, flags=re.MULTILINE))
]

NAMES = ["cat", "dog", "fox"]
RANDOM = np.random.default_rng(0)
N_ROWS = 400
LABELS = RANDOM.choice(NAMES, N_ROWS)
LOGITS = RANDOM.normal(size=(N_ROWS, 3)) + 2 * (LABELS[:, None] == np.array(NAMES))
ROWS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
WITHOUT_CAT = OutputFilter.from_plan({"cat": None}, classes=NAMES)


def write(rows=ROWS, labels=LABELS, header=NAMES, name="table.csv", **columns):
    """Write a csv file, and return its name."""
    columns = {"label": labels} | columns
    lines = [
        [*header, *columns],
        *([*row, *more] for row, *more in zip(rows, *columns.values(), strict=True)),
    ]
    Path(name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    return name


def changed(rows, row, column, value):
    rows = rows.astype(object)
    rows[row, column] = value
    return rows


def run(*arguments):
    return " ".join(" ".join(map(str, unlabel(*arguments)[1:])).split())


def fit(table, *options, change=("--remove", "cat")):
    return run("fit", table, *change, "--out", "fitted.safetensors", *options)


def fitted(rows=ROWS, labels=LABELS, classes=NAMES, **options):
    return OutputFilter.fit(rows, labels, classes=classes, **({"remove": ["cat"]} | options))


def apply(table, *options, filter=WITHOUT_CAT, out="out.csv"):
    filter.save("filter.safetensors")
    return run("apply", table, "filter.safetensors", "--out", out, *options)


def decimal_commas():
    return fit(write([[f'"{value:.2f}"'.replace(".", ",") for value in row] for row in ROWS]))


def top_2():
    scores = [{"label": "cat", "score": 0.9}, {"label": "dog", "score": 0.05}]
    Path("top.jsonl").write_text(json.dumps(scores) + "\n")
    return "top.jsonl"


def top_k_answers_for_osr():
    return apply(top_2(), "--partial", filter=fitted(), out="out.jsonl")


def a_split_without_weights():
    Path("plan.toml").write_text('[changes]\ncat = ["lynx", "tiger"]\n')
    return fit(write(), change=("--plan", "plan.toml"))


def pairs_without_weights():
    Path("pairs.csv").write_text("from,to\ncat,lynx\ncat,tiger\n")
    return run("plan", "draft", "pairs.csv")


def a_model_that_is_not_frozen():
    model = LogisticRegression().fit(LOGITS, LABELS)
    RelabeledClassifier(model, ["cat"]).fit(LOGITS, LABELS)


def no_probabilities():
    model = LinearSVC().fit(LOGITS, LABELS)
    RelabeledClassifier(FrozenEstimator(model), ["cat"]).fit(LOGITS, LABELS)


def calibrated_on_training_rows():
    rows = np.where(LABELS[:, None] == np.array(NAMES), 0.9, 0.05)
    fitted(rows, calibrate=True)


def on_training_rows():
    rows = np.where(LABELS[:, None] == np.array(NAMES), 0.9, 0.05)
    fitted(np.tile(rows, (3, 1)), np.tile(LABELS, 3))


def a_rule_without_a_name():
    model = LogisticRegression().fit(LOGITS, LABELS)
    rule = AnswerRule(max_removed_mass=0.5)
    RelabeledClassifier(FrozenEstimator(model), ["cat"], rule=rule).fit(LOGITS, LABELS)


def a_newer_filter():
    WITHOUT_CAT.save("newer.safetensors")
    content = Path("newer.safetensors").read_bytes()
    newer = re.sub(rb'(protocol\\":)\d', rb"\g<1>9", content)
    Path("newer.safetensors").write_bytes(newer)
    OutputFilter.load("newer.safetensors")


def an_existing_file():
    WITHOUT_CAT.save("fitted.safetensors")
    return fit(write())


def an_old_summary():
    Path("summary.json").write_text('{"summary": 1}')
    return run("report", "summary.json", "--out", "report.html")


def rows_in_another_order():
    rows = ROWS[:, 1:] / ROWS[:, 1:].sum(axis=1, keepdims=True)
    other = write(rows, np.roll(LABELS, 1), NAMES[1:], "retrained.csv")
    return run("evaluate", write(), "--remove", "cat", "--retrained", other)


def new_true_labels():
    table = write(labels=np.where(LABELS == "dog", "pet", LABELS))
    Path("plan.toml").write_text('[changes]\ndog = "pet"\n')
    return run("evaluate", table, "--plan", "plan.toml")


def a_missing_extra():
    with patch.dict(sys.modules, {"onnx": None}):
        for name in [name for name in sys.modules if name.startswith("unlabel.onnx")]:
            del sys.modules[name]
        importlib.import_module("unlabel.onnx")


def bert(*names):
    config = transformers.BertConfig(
        vocab_size=9,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )
    return transformers.BertForSequenceClassification(config)


def labels_of_another_model():
    model = bert("LABEL_0", "LABEL_1", "LABEL_2")
    hugging_face.attach(model, WITHOUT_CAT, kind="logits")


class Model(torch.nn.Module):
    def forward(self, rows):
        return {"logits": rows}


def a_dimension_to_be_named():
    rows = torch.tensor(ROWS[:120]).reshape(-1, 2, 3, 3)
    in_torch.attach(Model(), WITHOUT_CAT, key="logits")(rows)


def an_upstream_that_does_not_listen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    upstream = Upstream(f"http://127.0.0.1:{port}", timeout=10, max_body=1000)
    asyncio.run(upstream.ask(b"GET", b"/v2/health/ready", [], b""))


def serve(rows, *more, **fields):
    data = {"data": np.ravel(rows).tolist(), "shape": [*rows.shape]}
    scores = {"name": "scores", "datatype": "FP64", **data}
    ServedFilter(WITHOUT_CAT).answer({"outputs": [scores, *more], **fields})


CASES = {
    # Reading tables
    "sums below 1": lambda: fit(write(0.9 * ROWS)),
    "sums above 1": lambda: fit(write(np.minimum(1.1 * ROWS, 1))),
    "logits for probabilities": lambda: fit(write(LOGITS)),
    "sigmoid scores": lambda: fit(write(RANDOM.random((N_ROWS, 3)))),
    "probabilities for logits": lambda: fit(write(), "--kind", "logits"),
    "an empty cell": lambda: fit(write(changed(ROWS, 3, 1, ""))),
    "a text for a number": lambda: fit(write(changed(ROWS, 3, 1, "n/a"))),
    "decimal commas": decimal_commas,
    "a column of zeros": lambda: fit(write(np.c_[ROWS, np.zeros(N_ROWS)], header=[*NAMES, "elk"])),
    "no true labels": lambda: fit(write(), "--label-column", "truth"),
    "top k answers": lambda: apply(top_2(), out="out.jsonl"),
    "top k answers for osr": top_k_answers_for_osr,
    # Plans
    "a misspelt label": lambda: fit(write(), change=("--remove", "cats")),
    "labels without names": lambda: fitted(classes=None),
    "a removed destination": lambda: OutputFilter.from_plan(
        {"cat": None, "dog": "cat"}, classes=NAMES
    ),
    "a split without weights": a_split_without_weights,
    "weights that do not sum to 1": lambda: OutputFilter.from_plan(
        {"cat": {"lynx": 0.5, "tiger": 0.4}}, classes=NAMES
    ),
    "pairs without weights": pairs_without_weights,
    "labels of one text": lambda: OutputFilter.from_plan({}, classes=[8, "8"]),
    # Fitting
    "no reference rows": lambda: fit(write(labels=np.where(LABELS == "cat", "Cat", LABELS))),
    "few reference rows": lambda: fit(write(ROWS[:99], LABELS[:99])),
    "training rows": on_training_rows,
    "labels in another order": lambda: fitted(classes=["dog", "fox", "cat"]),
    "skipped rows": lambda: fitted(labels=[*LABELS[:-1], "wolf"], remove=[]),
    "a model that is not frozen": a_model_that_is_not_frozen,
    "no probabilities": no_probabilities,
    "calibrated on training rows": calibrated_on_training_rows,
    # Applying
    "a table of another model": lambda: apply(write(header=["cat", "wolf", "fox"])),
    "an array of another model": lambda: WITHOUT_CAT.apply(ROWS[:, :1]),
    "columns in another order": lambda: WITHOUT_CAT.apply(
        pd.DataFrame(ROWS, columns=["dog", "cat", "fox"])
    ),
    "a newer filter": a_newer_filter,
    "a table for a filter": lambda: run(
        "apply", write(), write(name="other.csv"), "--out", "out.csv"
    ),
    "a matrix over the models labels": lambda: WITHOUT_CAT.apply(
        ROWS, allow=np.ones((N_ROWS, 3), dtype=bool)
    ),
    "an unknown list": lambda: WITHOUT_CAT.apply(
        ROWS, allow={"DE": ["dog"]}, allow_by=["de"] * N_ROWS
    ),
    "an allowed label that is gone": lambda: WITHOUT_CAT.apply(ROWS, allow=["cat", "dog"]),
    "filtered rows": lambda: WITHOUT_CAT.apply(WITHOUT_CAT.apply(ROWS)),
    "a rule without a name": a_rule_without_a_name,
    "a stale column": lambda: apply(write(prediction=np.array(NAMES)[ROWS.argmax(axis=1)])),
    "an existing file": an_existing_file,
    # Evaluating
    "an old summary": an_old_summary,
    "rows in another order": rows_in_another_order,
    "new true labels": new_true_labels,
    # Integrations
    "a missing extra": a_missing_extra,
    "a filter of probabilities for logits": lambda: hugging_face.attach(bert(*NAMES), WITHOUT_CAT),
    "labels of another model": labels_of_another_model,
    "an output with entries": lambda: in_torch.attach(Model(), WITHOUT_CAT)(torch.tensor(ROWS)),
    "a dimension to be named": a_dimension_to_be_named,
    # Serving
    "an upstream that does not listen": an_upstream_that_does_not_listen,
    "an answer with other labels": lambda: serve(ROWS[:2, :2]),
    "an answer with labels in another order": lambda: serve(
        ROWS[:2], parameters={"classes": ["dog", "cat", "fox"]}
    ),
    "labels by number": lambda: serve(
        ROWS[:2], {"name": "label", "datatype": "INT64", "shape": [2], "data": [0, 1]}
    ),
}


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Return the message of each case."""
    return {name: message(get, tmp_path_factory.mktemp("case")) for name, get in CASES.items()}


def message(get, folder):
    """Return the text that a function returns, raises or warns with."""
    with pytest.MonkeyPatch.context() as patching, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        patching.chdir(folder)
        try:
            text = get()
        except (UnlabelError, HttpError) as error:
            return str(error)
    return text if isinstance(text, str) else " ".join(str(each.message) for each in warned)


def matches(quoted, text):
    return re.search(".+".join(map(re.escape, quoted.split("..."))), text) is not None


def test_the_page_quotes_messages():
    assert len(MESSAGES) == len(set(MESSAGES)) == PAGE.count("\n> `") > 20


@pytest.mark.parametrize("quoted", MESSAGES)
def test_a_quoted_message_is_given_by_one_case(quoted, given):
    assert [matches(quoted, text) for text in given.values()].count(True) == 1


@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_one_quoted_message(name, given):
    assert [matches(quoted, given[name]) for quoted in MESSAGES].count(True) == 1, given[name]
