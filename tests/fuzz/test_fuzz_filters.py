"""Filter files that were edited: loaded, they apply and save."""

import copy
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

import doors
from fuzz_bounded import check_sentence, fuzzed_file
from fuzz_edits import ANY_JSON, NUMBERS, edited_bytes, edited_json
from unlabel import LabelPlan, OutputFilter, UnlabelError

CLASSES = ["cat", "dog", "fox", "owl"]
REMOVED = {"dog": None, "cat": None}
MORE = REMOVED | {"fox": {"owl": 0.25, "elk": 0.75}, "owl": "elk"}
ROWS = np.array([[0.1, 0.7, 0.1, 0.1], [0.8, 0.0, 0.1, 0.1], [0.2, 0.6, 0.1, 0.1]])
LABELS = ["dog", "cat", "dog"]


def parts_of(filter):
    """Return the tensors of a filter's file, and its description."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "f.safetensors")
        filter.save(path)
        content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return from_bytes(content), json.loads(header["__metadata__"]["unlabel"])


PARTS = [
    parts_of(doors.fit(ROWS, LABELS, classes=CLASSES, plan=LabelPlan(MORE, title="v2"))),
    parts_of(doors.at_temperature(doors.mask(CLASSES, REMOVED), 1.5)),
    parts_of(doors.mask([0, 1, 2], {0: 2, 1: None}, kind="logits")),
    parts_of(doors.mask(CLASSES, {})),
]


def with_digest(description):
    """Give an edited plan the digest that belongs to it, if it has any, so that it may load."""
    with suppress(Exception):
        plan, names = description["plan"], [*map(str, description["classes"])]
        changes = []
        for column, to in plan["changes"]:
            parts = [] if to is None else to if isinstance(to, list) else [(to, 1.0)]
            changes.append([names[column], [[str(label), float(part)] for label, part in parts]])
        content = [plan["unlisted"], changes]
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        plan["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return description


@st.composite
def edited_files(draw):
    tensors, description = copy.deepcopy(draw(st.sampled_from(PARTS)))
    text = json.dumps(description)
    where = draw(st.sampled_from(["description", "numbers", "header", "bytes"]))
    if where == "description":
        text = json.dumps(with_digest(draw(edited_json(json.loads(text)) | ANY_JSON)))
    if where == "numbers":
        tensor = tensors[draw(st.sampled_from(["means", "shares"]))]
        if tensor.size:
            tensor.flat[draw(st.integers(0, tensor.size - 1))] = draw(st.sampled_from(NUMBERS))
    content = to_bytes(tensors, metadata={"unlabel": text.replace("\\ud800", "?")})
    if where == "header":
        length = int.from_bytes(content[:8], "little")
        header = json.dumps(draw(edited_json(json.loads(content[8 : 8 + length])))).encode()
        content = len(header).to_bytes(8, "little") + header + content[8 + length :]
    return draw(edited_bytes(content)) if where == "bytes" else content


@settings(max_examples=100)
@given(edited_files())
def test_filters(content):
    with fuzzed_file("filter.safetensors", content) as path:
        try:
            fitted = OutputFilter.load(path)
        except UnlabelError as error:
            check_sentence(error)
            return
        labels = len(fitted.classes_in)
        result = fitted.apply(np.eye(labels) if labels else np.ones((1, 0)))
        np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-9)
        assert (result >= 0).all()
        again = path.with_name("again.safetensors")
        fitted.save(again)
        assert OutputFilter.load(again).classes_in == fitted.classes_in
        again.unlink()
