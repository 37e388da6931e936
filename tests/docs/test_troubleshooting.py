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
from unlabel import AllowLists, LabelRemovalClassifier, LabelRemover, OutputFilter, UnlabelError
from unlabel import huggingface as hugging_face
from unlabel import torch as in_torch
from unlabel.serve import ServedFilter
from unlabel.serve.http_messages import HttpError
from unlabel.serve.upstream import Upstream

PAGE = (docs_tables.DOCS / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTES = re.findall(r"(?:^>.*\n)+", PAGE, re.MULTILINE)
MESSAGES = [
    " ".join(message.split())
    for quote in QUOTES
    for message in re.findall("`([^`]+)`", re.sub("^>", "", quote, flags=re.MULTILINE))
]

NAMES = ["cat", "dog", "fox"]
RANDOM = np.random.default_rng(0)
LABELS = RANDOM.choice(NAMES, 120)
LOGITS = RANDOM.normal(size=(120, 3)) + 2 * (LABELS[:, None] == np.array(NAMES))
ROWS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
WITHOUT_CAT = OutputFilter.mask(NAMES, ["cat"])
CASES = []


def case(function):
    """Register a function that gets a message: it returns, raises or warns with it."""
    CASES.append(function)
    return function


def write(rows=ROWS, labels=LABELS, header=NAMES, name="table.csv", **columns):
    """Write a csv file, and return its name."""
    columns = {"label": labels} | columns
    lines = [[*header, *columns], *([*row, *more] for row, *more in zip(rows, *columns.values()))]
    Path(name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    return name


def changed(rows, row, column, value):
    rows = rows.astype(object)
    rows[row, column] = value
    return rows


def run(*arguments):
    return " ".join(" ".join(map(str, unlabel(*arguments)[1:])).split())


def fit(table, *options, remove="cat"):
    return run("fit", table, "--remove", remove, "--out", "fitted.safetensors", *options)


def apply(table, *options, fitted=WITHOUT_CAT, out="out.csv"):
    fitted.save("filter.safetensors")
    return run("apply", "filter.safetensors", table, "--out", out, *options)


# Reading tables


@case
def sums_below_1():
    return fit(write(0.9 * ROWS))


@case
def sums_above_1():
    return fit(write(np.minimum(1.1 * ROWS, 1)))


@case
def logits_for_probabilities():
    return fit(write(LOGITS))


@case
def sigmoid_scores():
    return fit(write(RANDOM.random((120, 3))))


@case
def probabilities_for_logits():
    return fit(write(), "--input", "logits")


@case
def an_empty_cell():
    return fit(write(changed(ROWS, 3, 1, "")))


@case
def a_text_for_a_number():
    return fit(write(changed(ROWS, 3, 1, "n/a")))


@case
def decimal_commas():
    return fit(write([[f'"{value:.2f}"'.replace(".", ",") for value in row] for row in ROWS]))


@case
def a_column_of_zeros():
    return fit(write(np.c_[ROWS, np.zeros(120)], header=[*NAMES, "elk"]))


@case
def no_true_labels():
    return fit(write(), "--label-column", "truth")


def top_2():
    scores = [{"label": "cat", "score": 0.9}, {"label": "dog", "score": 0.05}]
    Path("top.jsonl").write_text(json.dumps(scores) + "\n")
    return "top.jsonl"


@case
def top_k_answers():
    return apply(top_2(), out="out.jsonl")


@case
def top_k_answers_for_osr():
    fitted = LabelRemover(["cat"], classes=NAMES).fit(ROWS, LABELS).filter_
    return apply(top_2(), "--partial", fitted=fitted, out="out.jsonl")


# Plans


@case
def a_misspelt_label():
    return fit(write(), remove="cats")


@case
def labels_without_names():
    LabelRemover(["cat"]).fit(ROWS, LABELS)


@case
def a_retired_destination():
    OutputFilter.mask(NAMES, {"cat": None, "dog": "cat"})


@case
def a_split_without_weights():
    Path("plan.csv").write_text("from,to\ncat,lynx\ncat,tiger\n")
    return fit(write(), remove="@plan.csv")


@case
def weights_that_do_not_sum_to_1():
    OutputFilter.mask(NAMES, {"cat": {"lynx": 0.5, "tiger": 0.4}})


@case
def a_split_by_the_paper():
    parts = {"lynx": 0.5, "tiger": 0.5}
    LabelRemover({"cat": parts}, classes=NAMES, method="literal").fit(ROWS, LABELS)


# Fitting


@case
def no_reference_rows():
    return fit(write(labels=np.where(LABELS == "cat", "Cat", LABELS)))


@case
def rows_set_aside():
    LabelRemover(["cat"], classes=NAMES).fit(ROWS, [*LABELS[:-1], "wolf"])


@case
def a_model_that_is_not_frozen():
    model = LogisticRegression().fit(LOGITS, LABELS)
    LabelRemovalClassifier(model, ["cat"]).fit(LOGITS, LABELS)


@case
def no_probabilities():
    model = LinearSVC().fit(LOGITS, LABELS)
    LabelRemovalClassifier(FrozenEstimator(model), ["cat"]).fit(LOGITS, LABELS)


@case
def calibrated_on_training_rows():
    rows = np.where(LABELS[:, None] == np.array(NAMES), 0.98, 0.01)
    LabelRemover(["cat"], classes=NAMES, calibrate=True).fit(rows, LABELS)


# Applying


@case
def a_table_of_another_model():
    return apply(write(header=["cat", "wolf", "fox"]))


@case
def an_array_of_another_model():
    WITHOUT_CAT.apply(ROWS[:, :2])


@case
def columns_in_another_order():
    WITHOUT_CAT.apply(pd.DataFrame(ROWS, columns=["dog", "cat", "fox"]))


@case
def a_newer_filter():
    WITHOUT_CAT.save("newer.safetensors")
    content = Path("newer.safetensors").read_bytes()
    newer = re.sub(rb'(protocol\\":)\d', rb"\g<1>9", content)
    Path("newer.safetensors").write_bytes(newer)
    OutputFilter.load("newer.safetensors")


@case
def a_table_for_a_filter():
    return run("apply", write(), write(), "--out", "out.csv")


@case
def a_matrix_over_the_models_labels():
    WITHOUT_CAT.apply(ROWS, allow=np.ones((120, 3), dtype=bool))


@case
def an_unknown_list():
    WITHOUT_CAT.apply(ROWS, allow=AllowLists({"DE": ["dog"]}).rows(["de"] * 120))


@case
def a_stale_column():
    return apply(write(prediction=np.array(NAMES)[ROWS.argmax(axis=1)]))


@case
def an_existing_file():
    WITHOUT_CAT.save("existing.safetensors")
    WITHOUT_CAT.save("existing.safetensors")


# Evaluating


@case
def an_old_summary():
    Path("summary.json").write_text('{"summary": 1}')
    return run("report", "summary.json", "--out", "report.html")


@case
def rows_in_another_order():
    rows = ROWS[:, 1:] / ROWS[:, 1:].sum(axis=1, keepdims=True)
    other = write(rows, np.roll(LABELS, 1), NAMES[1:], "retrained.csv")
    return run("evaluate", write(), "--remove", "cat", "--retrained", other)


@case
def new_true_labels():
    table = write(labels=np.where(LABELS == "dog", "pet", LABELS))
    return run("evaluate", table, "--remove", "dog=pet")


# Integrations


@case
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


@case
def a_filter_of_probabilities_for_logits():
    hugging_face.remove_labels(bert(*NAMES), WITHOUT_CAT)


@case
def labels_of_another_model():
    model = bert("LABEL_0", "LABEL_1", "LABEL_2")
    hugging_face.remove_labels(model, WITHOUT_CAT, input="logits")


class Model(torch.nn.Module):
    def forward(self, rows):
        return {"logits": rows}


@case
def an_output_with_entries():
    in_torch.remove_labels(Model(), WITHOUT_CAT)(torch.tensor(ROWS))


@case
def a_dimension_to_be_named():
    rows = torch.tensor(ROWS).reshape(-1, 2, 3, 3)
    in_torch.remove_labels(Model(), WITHOUT_CAT, key="logits")(rows)


# Serving


@case
def an_upstream_that_does_not_listen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    upstream = Upstream(f"http://127.0.0.1:{port}", timeout=10, max_body=1000)
    asyncio.run(upstream.ask(b"GET", b"/v2/health/ready", [], b""))


def serve(rows, *more, **fields):
    data = {"data": np.ravel(rows).tolist(), "shape": [*rows.shape]}
    scores = {"name": "scores", "datatype": "FP64", **data}
    ServedFilter(WITHOUT_CAT).answer({"outputs": [scores, *more], **fields})


@case
def an_answer_with_other_labels():
    serve(ROWS[:2, :2])


@case
def an_answer_with_labels_in_another_order():
    serve(ROWS[:2], parameters={"classes": ["dog", "cat", "fox"]})


@case
def labels_by_number():
    serve(ROWS[:2], {"name": "label", "datatype": "INT64", "shape": [2], "data": [0, 1]})


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Give the message of each case."""
    return {
        function.__name__: message(function, tmp_path_factory.mktemp("case")) for function in CASES
    }


def message(function, folder):
    with pytest.MonkeyPatch.context() as patching, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        patching.chdir(folder)
        try:
            text = function()
        except (UnlabelError, HttpError) as error:
            text = str(error)
    return text or " ".join(str(warning.message) for warning in warned)


def matches(quoted, text):
    pattern = ".+".join(map(re.escape, quoted.split("...")))
    return re.search(pattern, text) is not None


def test_the_page_quotes_messages():
    assert len(MESSAGES) == len(set(MESSAGES)) > 30
    assert PAGE.count("\n> `") == len(MESSAGES)


@pytest.mark.parametrize("quoted", MESSAGES)
def test_a_quoted_message_is_given_by_one_case(quoted, given):
    found = [name for name, text in given.items() if matches(quoted, text)]
    assert len(found) == 1, given


@pytest.mark.parametrize("function", CASES)
def test_a_case_gives_one_quoted_message(function, given):
    text = given[function.__name__]
    assert sum(matches(quoted, text) for quoted in MESSAGES) == 1, text
