"""Filter files that were edited: loaded, they apply and save."""

import copy
import hashlib
import json
from contextlib import suppress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_bytes

from fuzz_bounded import check_sentence, fuzzed_file
from fuzz_edits import ANY_JSON, NUMBERS, edited_bytes, edited_json
from unlabel import OutputFilter, UnlabelError

CLASSES = ["cat", "dog", "fox", "owl"]
MEANS = np.array([[0.1, 0.7, 0.1, 0.1], [0.8, 0.0, 0.1, 0.1]])
SHARES = np.array([[0.2, 0.0, 0.2, 0.2], [0.0, 0.0, 0.3, 0.2]])
DESCRIPTION = {
    "protocol": 1,
    "classes": CLASSES,
    "removed": ["dog", "cat"],
    "method": "osr",
    "input": "probabilities",
    "temperature": 1.0,
}
PLAN = {
    "title": "v2",
    "note": "",
    "unlisted": "keep",
    "digest": "",
    "from": [1, 0, 2, 2, 3],
    "to": [None, None, "owl", "elk", "elk"],
    "weight": [None, None, 0.25, 0.75, None],
}
OF_2 = {name: value for name, value in DESCRIPTION.items() if name != "removed"} | {"protocol": 2}
DESCRIPTIONS = st.sampled_from(
    [
        DESCRIPTION,
        OF_2 | {"plan": PLAN},
        OF_2 | {"plan": PLAN | {"unlisted": "error"}, "method": "mask"},
        DESCRIPTION | {"classes": [0, 1.5, "2", True], "removed": [1.5, 0], "input": "logits"},
        DESCRIPTION | {"method": "mask", "temperature": 1.5},
        DESCRIPTION | {"method": "literal"},
        DESCRIPTION | {"removed": []},
    ]
)


def file_of(description, means=MEANS, shares=SHARES):
    steps = len(description.get("removed", [1, 2])) if description["method"] != "mask" else 2
    is_mask = description["method"] == "mask"
    tensors = {
        "means": (means * (not is_mask))[:steps],
        "shares": (shares * (not is_mask))[:steps],
        "counts": np.array([5, 6])[:steps],
    }
    return tensors, json.dumps(with_digest(copy.deepcopy(description)))


def with_digest(description):
    """Give an edited plan the digest that belongs to it, if it has any, so that it may load."""
    with suppress(Exception):
        plan, names = description["plan"], [*map(str, description["classes"])]
        changes = {}
        for column, to, weight in zip(plan["from"], plan["to"], plan["weight"], strict=True):
            parts = changes.setdefault(column, [])
            parts += [] if to is None else [[str(to), 1.0 if weight is None else float(weight)]]
        content = [plan["unlisted"], [[names[column], parts] for column, parts in changes.items()]]
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        plan["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return description


@st.composite
def edited_files(draw):
    tensors, text = file_of(draw(DESCRIPTIONS))
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
        if fitted.method != "literal":
            np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-9)
            assert (result >= 0).all()
        again = path.with_name("again.safetensors")
        fitted.save(again)
        assert OutputFilter.load(again).classes_in == fitted.classes_in
        again.unlink()
