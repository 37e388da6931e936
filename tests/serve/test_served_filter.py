"""A served filter against `OutputFilter.apply` on the same array, and answers written out here."""

import json
import struct
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel import AnswerRule, OutputFilter, UnlabelError
from unlabel.serve import ServedFilter
from unlabel.serve.asked import Asked, RequestError, ask_again, prepare, read_request
from unlabel.serve.protocol import ProtocolError, plain_outputs, read_message
from unlabel.serve.served_filter import MissingConfidencesError

LABELS = ("cat", "dog", "fox", "wolf", "lynx")
PLAN = {"cat": None, "fox": "canine", "wolf": "canine"}
RNG = np.random.default_rng(5)
REFERENCE = RNG.dirichlet(np.ones(len(LABELS)), 60)
TRUTH = [LABELS[at] for at in REFERENCE.argmax(axis=1)]
ROWS = RNG.dirichlet(np.ones(len(LABELS)), 6)
ROWS[0] = [0.9, 0.05, 0.03, 0.01, 0.01]  # cat, which is removed
DTYPES = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64}
with warnings.catch_warnings():  # of few reference rows
    warnings.simplefilter("ignore")
    FITTED = OutputFilter.fit(REFERENCE, TRUTH, classes=LABELS, plan=PLAN)
MASK = OutputFilter.from_plan({"cat": None}, classes=LABELS)
THREE = OutputFilter.from_plan({"cat": None}, classes=LABELS[:3])
RULE = AnswerRule(max_removed_mass=0.5, unknown="unknown")


def scores(rows=ROWS, datatype="FP64", name="scores", **more):
    rows = np.asarray(rows, dtype=DTYPES[datatype])
    data = rows.ravel().tolist()
    return {"name": name, "datatype": datatype, "shape": [*rows.shape], "data": data, **more}


def label_output(values, datatype="BYTES", shape=None, name="label"):
    shape = [len(values)] if shape is None else shape
    return {"name": name, "datatype": datatype, "shape": shape, "data": [*values]}


def new_labels(rows=ROWS, fitted=FITTED):
    return [fitted.classes_out[at] for at in fitted.apply(rows).argmax(axis=1)]


def old_labels(rows=ROWS):
    return [LABELS[at] for at in np.argmax(rows, axis=1)]


def answered(served, given, /, **request):
    return {each["name"]: each for each in served.answer({"outputs": given}, request)["outputs"]}


@pytest.mark.parametrize("datatype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 5), (2, 3, 5), (1, 6, 1, 5), (0, 5)])
def test_confidences_are_those_of_apply(datatype, shape):
    rows = (ROWS if 0 not in shape else ROWS[:0]).reshape(shape).astype(DTYPES[datatype])
    expected = FITTED.apply(rows)
    found = answered(ServedFilter(FITTED), [scores(rows, datatype)])["scores"]
    assert found["datatype"] == datatype
    assert found["shape"] == [*expected.shape]
    np.testing.assert_array_equal(np.array(found["data"], dtype=expected.dtype), expected.ravel())


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_binary_and_json_say_the_same(seed, n_rows, is_binary):
    rows = np.random.default_rng(seed).dirichlet(np.ones(5), n_rows).astype(np.float32)
    output = scores(rows, "FP32")
    data = rows.tobytes() if is_binary else b""
    if is_binary:
        del output["data"]
        output["parameters"] = {"binary_data_size": len(data)}
    text = json.dumps({"outputs": [output]}).encode()
    message = read_message(text + data, len(text), "It")
    body, length, changes = ServedFilter(FITTED).rewrite(message, Asked())
    [found] = json.loads(body[:length])["outputs"]
    values = body[length:] if is_binary else np.array(found["data"], dtype="<f4").tobytes()
    assert values == FITTED.apply(rows).tobytes()
    before = [LABELS[at] for at in rows.argmax(axis=1)]
    to = [PLAN.get(label, label) for label in before]
    assert changes.rows == n_rows
    assert changes.changed == sum(old != new for old, new in zip(to, new_labels(rows), strict=True))
    np.testing.assert_allclose(changes.removed_mass, rows[:, 0], rtol=1e-6)


@pytest.mark.parametrize("shape", [[6], [6, 1]])
def test_labels_are_recomputed(shape):
    outputs = [scores(), label_output(old_labels(), shape=shape)]
    found = answered(ServedFilter(FITTED), outputs)["label"]
    assert found["data"] == new_labels()
    assert (found["shape"], found["datatype"]) == (shape, "BYTES")


def test_a_label_that_is_not_the_top_is_recomputed_too():
    # Some models do not answer with their most probable label.
    outputs = [scores(), label_output(["cat"] * 6)]
    assert answered(ServedFilter(FITTED), outputs)["label"]["data"] == new_labels()


def test_texts_that_are_not_labels_stay():
    outputs = [scores(), label_output(["tiger"] * 6)]
    assert answered(ServedFilter(FITTED), outputs)["label"] == outputs[1]


def test_texts_of_which_some_are_labels_must_be_named():
    # Alone, a row of these would be recomputed: what happens must not depend on the batch.
    outputs = [scores(), label_output(["cat", "dog", "fox", "wolf", "lynx", "tiger"])]
    with pytest.raises(ProtocolError, match=r"'label' has labels of the model .* such as 'tiger'"):
        answered(ServedFilter(FITTED), outputs)
    assert answered(ServedFilter(FITTED, labels=""), outputs)["label"] == outputs[1]
    assert answered(ServedFilter(FITTED, labels="label"), outputs)["label"]["data"] == new_labels()


def test_labels_beside_a_name_that_is_not_there_are_refused():
    outputs = [scores(), label_output(old_labels())]
    with pytest.raises(ProtocolError, match="no output 'labl', but 'label' gives labels"):
        answered(ServedFilter(FITTED, labels="labl"), outputs)
    other = label_output(["cat"] * 6, name="other")
    found = answered(ServedFilter(FITTED, labels="label"), [*outputs, other])
    assert found["other"] == other
    assert answered(ServedFilter(FITTED, labels="label"), [scores()]).keys() == {"scores"}
    mixed = label_output(["cat", "?"] * 3)
    assert answered(ServedFilter(FITTED, labels="labl"), [scores(), mixed])["label"] == mixed


def test_a_number_per_row_is_a_score():
    outputs = [scores([[0.5, 0.3, 0.2]]), label_output([0.5], "FP64")]
    mask = OutputFilter.from_plan({0: None}, classes=[0, 1, 2])
    assert answered(ServedFilter(mask), outputs)["label"] == outputs[1]


def test_lists_of_labels_beside_numbers_keep_their_meaning():
    mask, names = MASK, {"labels": [*LABELS]}
    numbers = label_output([0] * 6, "INT64") | {"parameters": names}
    served = ServedFilter(mask, labels="label")
    assert answered(served, [scores(), numbers])["label"]["parameters"] == names
    of_model = {**numbers, "shape": [-1]}
    described = served.metadata({"outputs": [scores(), of_model]})["outputs"]
    assert described[0]["parameters"]["labels"] == ["dog", "fox", "wolf", "lynx"]
    assert described[1]["parameters"] == names
    ids = {"id2label": dict(enumerate(LABELS))}
    with pytest.raises(
        ProtocolError, match=r"'id2label' lists the columns' labels, .* 'label' keeps"
    ):
        served.answer({"outputs": [scores(), numbers], "parameters": ids})
    rewritten, changes = served.filter(
        plain_outputs([scores(), numbers]), Asked(outputs=("label",))
    )
    assert [each.name for each in rewritten] == ["label"]
    assert served._new_parameters(ids, rewritten, changes) == {}
    assert served.answer({"outputs": [scores()], "parameters": ids})["parameters"] == {
        "id2label": {"0": "dog", "1": "fox", "2": "wolf", "3": "lynx"}
    }
    texts = label_output(old_labels()) | {"parameters": names}
    found = answered(ServedFilter(mask), [scores(), texts])["label"]["parameters"]
    assert found == {"labels": ["dog", "fox", "wolf", "lynx"]}


@pytest.mark.parametrize(
    "listed",
    [
        "dog,cat,fox",
        "dog cat fox",
        "cat;dog",
        "wolf,bear,fox",
        ["cat", "dog"],
        ["cat", "dog", "fox", "bear"],
        {"0": "cat", "1": "dog"},
        '["dog", "cat"]',
    ],
)
def test_lists_of_other_labels_are_refused_in_any_form(listed):
    served = ServedFilter(THREE)
    rows = scores([[0.5, 0.3, 0.2]], parameters={"labels": listed})
    with pytest.raises(ProtocolError, match="The upstream's 'labels' are other labels"):
        served.answer({"outputs": [rows]})


@pytest.mark.parametrize("said", ["see the fox model", "cat", {"team": "pets"}, 3, ["v2", "pets"]])
def test_parameters_that_list_no_labels_stay(said):
    served = ServedFilter(THREE)
    rows = scores([[0.5, 0.3, 0.2]], parameters={"labels": said})
    assert served.answer({"outputs": [rows]})["outputs"][0]["parameters"] == {"labels": said}


def test_numbers_in_other_parameters_are_not_labels():
    served = ServedFilter(OutputFilter.from_plan({0: None}, classes=[0, 1, 2]))
    parameters = {"strides": [0, 1, 2], "labels": [0, 1, 2]}
    rows = scores([[0.5, 0.3, 0.2]], parameters=parameters)
    found = served.answer({"outputs": [rows], "parameters": {"ids": "0,1,2"}})
    assert found["outputs"][0]["parameters"] == {"strides": [0, 1, 2], "labels": [1, 2]}
    assert found["parameters"] == {"ids": "0,1,2"}


@pytest.mark.parametrize(
    ("answer", "request_", "message"),
    [
        ({"parameters": [1]}, {}, "The answer has parameters that are not an object"),
        ({}, {"parameters": [1]}, "The request has parameters that are not an object"),
        ({}, {"outputs": [1]}, "The request names an output that is not an object"),
        ({}, {"outputs": 5}, "The request has outputs that are not a list"),
    ],
)
def test_malformed_objects_get_one_sentence(answer, request_, message):
    with pytest.raises(UnlabelError, match=message):
        ServedFilter(FITTED).answer({"outputs": [scores()], **answer}, request_)


def test_numbers_of_labels_keep_the_models_numbering():
    outputs = [scores(), label_output(np.argmax(ROWS, axis=1).tolist(), "INT64")]
    found = answered(ServedFilter(MASK, labels="label"), outputs)["label"]
    assert found["data"] == [LABELS.index(label) for label in new_labels(fitted=MASK)]


def test_a_new_label_has_no_number():
    outputs = [scores(), label_output(np.argmax(ROWS, axis=1).tolist(), "INT64")]
    assert "canine" in new_labels()
    with pytest.raises(ProtocolError, match="cannot give 'canine'"):
        answered(ServedFilter(FITTED, labels="label"), outputs)


@pytest.mark.parametrize("classes", [[10, 20, 30, 40, 50], ["10", "20", "30", "40", "50"]])
@pytest.mark.parametrize("datatype", ["INT32", "FP64"])
def test_labels_that_are_numbers(classes, datatype):
    mask = OutputFilter.from_plan(
        {classes[0]: None, classes[1]: type(classes[1])(99)}, classes=classes
    )
    values = [int(classes[at]) for at in ROWS.argmax(axis=1)]
    served = ServedFilter(mask, labels="label")
    found = answered(served, [scores(), label_output(values, datatype)])["label"]
    assert found["data"] == [int(mask.classes_out[at]) for at in mask.apply(ROWS).argmax(axis=1)]


@pytest.mark.parametrize("classes", [LABELS, [10, 20, 30, 40, 50]])
def test_numbers_that_are_no_labels_are_refused_under_that_name(classes):
    served = ServedFilter(
        OutputFilter.from_plan({classes[0]: None}, classes=classes), labels="count"
    )
    counts = label_output([10, 1, 7, 7, 7, 7], "INT64", name="count")
    with pytest.raises(ProtocolError, match=r"'count' has (10|1), which is not a label"):
        answered(served, [scores(), counts])


@pytest.mark.parametrize("shape", [[6], [6, 1]])
def test_whole_numbers_are_labels_only_if_they_are_said_to_be(shape):
    for values in ([7] * 6, np.argmax(ROWS, axis=1).tolist()):
        outputs = [scores(), label_output(values, "INT64", shape, name="count")]
        with pytest.raises(ProtocolError, match="'count' has a whole number per row"):
            answered(ServedFilter(FITTED), outputs)
        for named in ([], "", "label"):
            assert answered(ServedFilter(FITTED, labels=named), outputs)["count"] == outputs[1]


def test_other_numbers_stay():
    others = [
        label_output(np.argmax(ROWS, axis=1).astype(float).tolist(), "FP32", name="score"),
        label_output([7] * 12, "INT64", [6, 2], name="pairs"),
        label_output([7], "INT64", [1], name="total"),
    ]
    found = answered(ServedFilter(FITTED), [scores(), *others])
    assert [*found.values()][1:] == others


def test_label_outputs_can_be_named():
    rows, texts = ROWS, [["cat"] * 6, ["cat"] * 6]
    outputs = [scores(rows), *(label_output(t, name=n) for t, n in zip(texts, "ab", strict=True))]
    found = answered(ServedFilter(FITTED, labels="b"), outputs)
    assert found["a"] == outputs[1]
    assert found["b"]["data"] == new_labels()
    with pytest.raises(ProtocolError, match="cannot be the labels"):
        answered(ServedFilter(FITTED, labels=["b"]), [scores(), label_output(["cat"], name="b")])


def test_unknown_is_an_answer_of_labels_alone():
    served = ServedFilter(FITTED, rule=RULE)
    found = answered(served, [scores(), label_output(old_labels())])
    assert found["label"]["data"] == FITTED.answer(ROWS, RULE).tolist()
    assert found["label"]["data"][0] == "unknown"
    np.testing.assert_array_equal(np.reshape(found["scores"]["data"], (6, -1)), FITTED.apply(ROWS))
    _, changes = served.filter(plain_outputs([scores()]), Asked())
    expected = [PLAN.get(label, label) for label in old_labels()]
    assert changes.changed == np.sum(FITTED.answer(ROWS, RULE) != expected)


def test_unknown_among_numbers_needs_a_number():
    outputs = [scores(), label_output(np.argmax(ROWS, axis=1).tolist(), "INT64")]
    with pytest.raises(ProtocolError, match="cannot give 'unknown'"):
        answered(ServedFilter(MASK, labels="label", rule=RULE), outputs)
    for unknown in (-1, "-1"):
        served = ServedFilter(MASK, labels="label", rule=replace(RULE, unknown=unknown))
        assert answered(served, outputs)["label"]["data"][0] == -1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rule": AnswerRule(0.5)}, "no name for it"),
        ({"rule": AnswerRule(0.5, unknown="dog")}, "'dog' stands for unknown"),
        ({"rule": AnswerRule({"bird": 0.5}, unknown="?")}, "no label 'bird'"),
        ({"allow": {"a": ["bird"]}}, "no label 'bird'"),
        ({"allow": {"a": ["cat"]}}, "'cat' is now"),
    ],
)
def test_options_that_cannot_be_meant(options, words):
    with pytest.raises(UnlabelError, match=words):
        ServedFilter(FITTED, **options)


def test_it_needs_a_filter():
    with pytest.raises(UnlabelError, match="give an OutputFilter"):
        ServedFilter("filter.safetensors")


def test_a_request_names_a_list():
    lists = {"few": ["dog", "lynx"], "one": ["canine"]}
    served = ServedFilter(FITTED, allow=lists, rule=AnswerRule(0.3, unknown="?"))
    expected = FITTED.apply(ROWS, allow=lists["few"])
    answers = FITTED.answer(ROWS, served.rule, allow=lists["few"]).tolist()
    assert {*answers} == {"dog", "lynx", "?"}
    found = answered(
        served, [scores(), label_output(old_labels())], parameters={"allow_list": "few"}
    )
    np.testing.assert_array_equal(np.reshape(found["scores"]["data"], (6, -1)), expected)
    assert found["label"]["data"] == answers
    for request, words in (
        ({"parameters": {"allow_list": "many"}}, "unknown list 'many': the lists are 'few', 'one'"),
        ({"parameters": {"allow_list": 3}}, "is 3"),
        ({}, "names no list"),
    ):
        with pytest.raises(RequestError, match=words):
            answered(served, [scores()], **request)
    with pytest.raises(RequestError, match="there are no lists with names"):
        answered(ServedFilter(FITTED), [scores()], parameters={"allow_list": "few"})


def test_one_list_is_for_all_requests():
    found = answered(ServedFilter(FITTED, allow=["dog", "lynx"]), [scores()])["scores"]["data"]
    expected = FITTED.apply(ROWS, allow=["dog", "lynx"])
    np.testing.assert_array_equal(np.reshape(found, (6, -1)), expected)


def test_a_row_without_an_allowed_label_is_unknown():
    certain = [scores([[0, 0, 1, 0, 0]]), label_output(["fox"])]
    with pytest.raises(ProtocolError, match="unknown has no name"):
        answered(ServedFilter(MASK, allow=["dog"]), certain)
    served = ServedFilter(MASK, allow=["dog"], rule=AnswerRule(unknown="?"))
    found = answered(served, certain)
    assert (found["scores"]["data"], found["label"]["data"]) == ([1, 0, 0, 0], ["?"])


@pytest.mark.parametrize("number", [1, 2, 99])
def test_classification(number):
    asked = [{"name": "scores", "parameters": {"classification": number}}]
    found = answered(ServedFilter(FITTED), [scores()], outputs=asked)["scores"]
    expected = []
    for row in FITTED.apply(ROWS).tolist():
        best = sorted(range(len(row)), key=lambda at, row=row: (-row[at], at))[:number]
        expected += [f"{row[at]:f}:{at}:{FITTED.classes_out[at]}" for at in best]
    shape = [6, min(number, len(FITTED.classes_out))]
    assert (found["datatype"], found["shape"], found["data"]) == ("BYTES", shape, expected)


def test_classification_in_binary():
    data = ROWS.tobytes()
    output = {**scores(), "parameters": {"binary_data_size": len(data)}}
    del output["data"]
    text = json.dumps({"outputs": [output]}).encode()
    message = read_message(text + data, len(text), "It")
    body, length, _ = ServedFilter(FITTED).rewrite(message, Asked(classified={"scores": 1}))
    size = struct.unpack_from("<I", body, length)[0]
    best = FITTED.apply(ROWS)[0].argmax()
    assert body[length + 4 : length + 4 + size].endswith(f":{best}:{new_labels()[0]}".encode())


def test_only_confidences_are_classified():
    asked = [{"name": "e", "parameters": {"classification": 1}}]
    with pytest.raises(RequestError, match="'e', which has no confidences"):
        answered(ServedFilter(FITTED), [scores(), scores(ROWS[:, :2], name="e")], outputs=asked)


def test_the_output_is_found_by_its_shape_or_name():
    two = [scores(name="a"), scores(name="b")]
    with pytest.raises(ProtocolError, match="'a', 'b' have 5 columns each"):
        answered(ServedFilter(FITTED), two)
    found = answered(ServedFilter(FITTED, output="b"), two)
    assert found["a"] == two[0]
    assert found["b"]["shape"] == [6, 3]
    with pytest.raises(MissingConfidencesError, match="no output 'c', only 'a', 'b': name"):
        answered(ServedFilter(FITTED, output="c"), two)
    with pytest.raises(MissingConfidencesError, match="None of the outputs \\('a'\\) has 5"):
        answered(ServedFilter(FITTED), [scores(ROWS[:, :2], name="a")])
    with pytest.raises(ProtocolError, match="not 5 labels"):
        answered(ServedFilter(FITTED, output="a"), [scores(ROWS[:, :2], name="a")])


@pytest.mark.parametrize("answer", [{}, {"outputs": None}])
def test_an_answer_needs_outputs(answer):
    with pytest.raises(ProtocolError, match="no outputs"):
        ServedFilter(FITTED).answer(answer)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.5, 2.0])
def test_rows_that_are_no_probabilities_are_refused(bad):
    rows = ROWS.copy()
    rows[4, 1] = bad
    with pytest.raises(UnlabelError, match="Row 4: "):
        answered(ServedFilter(FITTED), [scores(rows)])


def test_logits_are_filtered_as_apply_does():
    fitted = replace(FITTED, kind="logits")
    found = answered(ServedFilter(fitted), [scores(ROWS * 7 - 3)])["scores"]
    expected = fitted.apply(ROWS * 7 - 3)
    np.testing.assert_array_equal(np.reshape(found["data"], expected.shape), expected)


NEW = [str(label) for label in FITTED.classes_out]
NAMES = [
    ([*LABELS], NEW),
    (dict(enumerate(LABELS)), {str(at): label for at, label in enumerate(NEW)}),
    ({str(a): b for a, b in enumerate(LABELS)}, {str(a): b for a, b in enumerate(NEW)}),
    ({b: a for a, b in enumerate(LABELS)}, {b: a for a, b in enumerate(NEW)}),
    (",".join(LABELS), ",".join(NEW)),
    (" ".join(LABELS), " ".join(NEW)),
    (json.dumps(LABELS), json.dumps(NEW, separators=(",", ":"))),
    ([*reversed(LABELS)], None),
    (["cat", "dog"], None),
    ("cat", None),
    ("[" * 10_000, None),
    (5, None),
]


@pytest.mark.parametrize(("old", "new"), NAMES)
def test_lists_of_labels_in_parameters_are_renamed(old, new):
    expected = {"other": 1, "names": old if new is None else new}
    given = {"other": 1, "names": old}
    served = ServedFilter(FITTED)
    answer = {"outputs": [scores(parameters=given)], "parameters": given}
    found = served.answer(answer)
    assert found["outputs"][0]["parameters"] == expected
    assert found["parameters"] == expected
    metadata = served.metadata({"name": "m", "parameters": given})
    assert metadata == {"name": "m", "parameters": expected}


def test_metadata_show_the_new_shape_and_labels():
    described = {"name": "scores", "datatype": "FP32", "shape": [-1, 5]}
    others = [{"name": "label", "datatype": "BYTES", "shape": [-1]}]
    inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 5]}]
    found = ServedFilter(FITTED).metadata(
        {"name": "m", "inputs": inputs, "outputs": [described, *others]}
    )
    new = {**described, "shape": [-1, 3], "parameters": {"labels": NEW}}
    assert found == {"name": "m", "inputs": inputs, "outputs": [new, *others]}


def test_metadata_without_the_output_pass():
    for metadata in (
        {"name": "m"},
        {"name": "m", "outputs": []},
        {"name": "m", "outputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 9]}]},
    ):
        assert ServedFilter(FITTED).metadata(metadata) == metadata
    unsized = {"name": "scores", "datatype": "FP32", "shape": [-1, -1]}
    [found] = ServedFilter(FITTED, output="scores").metadata({"outputs": [unsized]})["outputs"]
    assert found["shape"] == [-1, 3]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"outputs": 3}', b'{"outputs": [3]}', b"[" * 9999])
def test_malformed_metadata_are_one_sentence(body):
    with pytest.raises(ProtocolError, match="metadata"):
        ServedFilter(FITTED).rewrite_metadata(body)


def request_of(**fields):
    return read_request(json.dumps({"inputs": [], **fields}).encode(), None)


def test_requests_ask_for_the_same_unless_something_is_computed_here():
    for fields in ({}, {"outputs": []}, {"parameters": None}):
        assert prepare(request_of(**fields), "scores") == (Asked(), {})
    for outputs in (
        [{"name": "scores"}],
        [{"name": "scores", "parameters": {"binary_data": True}}],
    ):
        assert prepare(request_of(outputs=outputs), "scores") == (Asked(), {"outputs": outputs})
    assert prepare(request_of(outputs=[{"name": "label"}]), None)[0] == Asked()


def test_classified_outputs_are_asked_for_as_they_are():
    options = {"classification": 2, "binary_data": True}
    asked, changed = prepare(request_of(outputs=[{"name": "s", "parameters": options}]), None)
    assert asked.classified == {"s": 2}
    assert changed == {"outputs": [{"name": "s", "parameters": {"binary_data": True}}]}


def test_confidences_are_asked_for_beside_other_outputs():
    asked, changed = prepare(request_of(outputs=[{"name": "label"}]), "scores")
    assert changed == {"outputs": [{"name": "label"}, {"name": "scores"}]}
    outputs = [scores(), label_output(old_labels())]
    text = json.dumps({"outputs": outputs}).encode()
    body, _, _ = ServedFilter(FITTED, output="scores").rewrite(read_message(text, None, ""), asked)
    assert [each["name"] for each in json.loads(body)["outputs"]] == ["label"]
    asked, changed = ask_again(Asked("few"), ["label"], "scores")
    assert changed == {"outputs": [{"name": "label"}, {"name": "scores"}]}
    assert (asked.allow_list, asked.outputs) == ("few", ("label",))


@pytest.mark.parametrize(
    "fields",
    [
        {"outputs": 3},
        {"outputs": [3]},
        {"outputs": [{}]},
        {"outputs": [{"name": 3}]},
        {"outputs": [{"name": "s", "parameters": 3}]},
        {"outputs": [{"name": "s", "parameters": {"classification": 0}}]},
        {"outputs": [{"name": "s", "parameters": {"classification": "2"}}]},
        {"outputs": [{"name": "s", "parameters": {"classification": True}}]},
        {"outputs": [{"name": "s", "parameters": {"shared_memory_region": "r"}}]},
        {"parameters": 3},
        {"parameters": {"allow_list": ["DEU"]}},
        {"parameters": {"note": "x" * 300_000}},
        {"outputs": [{}] * 100_000},
    ],
)
def test_a_malformed_request_is_the_clients_mistake(fields):
    with pytest.raises(RequestError) as caught:
        prepare(request_of(**fields), None)
    assert str(caught.value).endswith(".")


def test_fields_that_the_protocol_does_not_have_cost_no_memory():
    flood = ",".join(f'"{number}":0' for number in range(200_000))
    body = ('{"id": "a", "inputs": [1.50], ' + flood + "}").encode()
    tracemalloc.start()
    try:
        request = read_request(body, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(body)
    assert {name: bytes(value) for name, value in request.fields.items()} == {
        "id": b'"a"',
        "inputs": b"[1.50]",
    }


def test_it_needs_no_http_library():
    code = "import sys, unlabel.serve; print({'httptools', 'uvloop', 'asyncio'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "labels",
    [
        {"labels": ["dog", "cat", "fox"]},
        {"classes": '["dog", "cat", "fox"]'},
        {"id2label": {"0": "cat", "1": "dog", "2": "wolf"}},
        {"label2id": {"cat": 1, "dog": 0, "fox": 2}},
    ],
)
def test_other_labels_than_the_filters_are_refused(labels):
    served = ServedFilter(THREE)
    scores = {"name": "scores", "datatype": "FP64", "shape": [1, 3], "data": [0.5, 0.3, 0.2]}
    [key] = labels
    for answer in (
        {"outputs": [scores | {"parameters": labels}]},
        {"outputs": [scores], "parameters": labels},
    ):
        with pytest.raises(ProtocolError, match=rf"The upstream's '{key}' are other labels"):
            served.answer(answer)
        with pytest.raises(ProtocolError, match="or in another order: fit a filter"):
            served.metadata(answer)


def test_probabilities_are_not_taken_for_logits():
    served = ServedFilter(replace(THREE, kind="logits"))
    probabilities, logits = scores([[0.5, 0.3, 0.2]]), scores([[0.5, -0.3, 0.2]])
    message = "'scores' cannot be filtered: The rows are probab"
    with pytest.raises(ProtocolError, match=message):
        served.answer({"outputs": [scores([[0.5, 0.3, 0.2]] * 2)]})
    # A single row of logits may look like probabilities by chance, but not one after another.
    for rows in (logits, probabilities, logits, probabilities):
        assert served.answer({"outputs": [rows]})["outputs"]
    for _ in range(2):
        with pytest.raises(ProtocolError, match=message):
            served.answer({"outputs": [probabilities]})
    assert served.answer({"outputs": [logits]})["outputs"]
