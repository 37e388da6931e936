"""Predictions in the forms that pipelines and the APIs of language models give."""

import math
import os
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import doors
import plain_json as plain
import plain_plan
from unlabel import UnlabelError
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table, fit_table

NAMES = ["cat", "dog", "fox"]
PLAN = {"dog": None, "fox": "vixen"}
MASK = doors.mask(NAMES, PLAN)
ROWS = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]]
RESULTS = plain_plan.changed_rows(PLAN, NAMES, ROWS).tolist()
NEW = ["cat", "vixen"]
PARTIAL = Reading(partial=True)
FIRST = plain.as_object(NAMES, ROWS[0])


def applied(folder, values, reading=None, fitted=MASK, **options):
    plain.write(folder / "in.jsonl", values)
    options = ApplyOptions(reading=reading or Reading(), overwrite=True, **options)
    apply_table(fitted, folder / "in.jsonl", folder / "out.jsonl", options, lambda part: None)
    return plain.read(folder / "out.jsonl")


def refusal(folder, values, reading=None, **options):
    with pytest.raises(UnlabelError) as caught:
        applied(folder, values, reading, **options)
    assert sorted(os.listdir(folder)) == ["in.jsonl"]
    message = str(caught.value)
    assert message.startswith(f"{folder / 'in.jsonl'}, line ")
    assert "\n" not in message
    return message


def opened(folder, values, reading=None, classes=NAMES):
    plain.write(folder / "in.jsonl", values)
    return open_predictions(folder / "in.jsonl", classes, reading or Reading())


# Where the scores are


def test_the_only_field_with_the_labels_scores_is_taken(tmp_path):
    line = {
        "usage": {"prompt": 9, "total": 12},
        "embedding": [0.5, 0.25],
        "others": plain.as_entries(["x", "y"], [0.5, 0.5]),
        "mine": plain.as_entries(NAMES, ROWS[0]),
        "parts": [{"name": "x"}],
        "top": {"label": "cat", "score": 0.5},
        "empty": {},
        "none": None,
    }
    [found] = applied(tmp_path, [line])
    plain.check_equal(found, line | {"mine": plain.as_entries(NEW, RESULTS[0])})


def test_labels_fields_win_over_fields_with_scores(tmp_path):
    line = {**plain.as_object(NAMES, ROWS[0]), "x": plain.as_object(NAMES, ROWS[1])}
    [found] = applied(tmp_path, [line])
    assert found["x"] == line["x"]
    assert found["vixen"] == pytest.approx(RESULTS[0][1])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"id": 1, "text": "a"}, "no scores of the labels 'cat', 'dog', 'fox'.*'id', 'text'"),
        ({"a": FIRST, "b": plain.as_entries(NAMES, ROWS[0])}, "scores in the fields 'a', 'b'"),
        ({"p": ROWS[0]}, "no scores of the labels"),
        ([], "is a list without scores"),
        ([[plain.as_entries(NAMES, ROWS[0])]], "is a list without scores"),
        ("cat", "is a text without scores"),
        (3, "is a number without scores"),
        (None, "is null without scores"),
        ({}, "has no scores"),
    ],
)
def test_lines_without_scores_name_the_key(tmp_path, line, words):
    message = refusal(tmp_path, [line])
    assert "(key=)" in message
    assert re.search(words, message)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("q", "has no field 'q'; its fields are 'a', 'p'"),
        ("a.7", "has no field 'a.7'"),
        ("a.-1", "has no field 'a.-1'"),
        ("a.x", "has no field 'a.x'"),
        ("a.0", "has a text without scores in 'a.0'"),
        ("a", "has a list without scores in 'a'"),
    ],
)
def test_wrong_keys(tmp_path, key, words):
    line = {"a": ["x", 1], "p": plain.as_object(NAMES, ROWS[0])}
    assert words in refusal(tmp_path, [line], Reading(key=key))


def test_names_with_dots_come_first(tmp_path):
    scores = [plain.as_object(NAMES, row) for row in ROWS]
    line = {"a.b": {"c": scores[0]}, "a": {"b.c": scores[1], "b": {"c": scores[2]}}}
    [found] = applied(tmp_path, [line], Reading(key="a.b.c"))
    plain.check_equal(found, line | {"a.b": {"c": plain.as_object(NEW, RESULTS[0])}})
    [found] = applied(tmp_path, [{"a": line["a"]}], Reading(key="a.b.c"))
    expected = {"b.c": plain.as_object(NEW, RESULTS[1]), "b": {"c": scores[2]}}
    plain.check_equal(found, {"a": expected})


def test_lists_in_lists_have_keys_too(tmp_path):
    lines = [[plain.as_entries(NAMES, row), "rest"] for row in ROWS]
    found = applied(tmp_path, lines, Reading(key="0"))
    plain.check_equal(found, [[plain.as_entries(NEW, row), "rest"] for row in RESULTS])


@pytest.mark.parametrize("label", ["label", "token", "class"])
@pytest.mark.parametrize(
    "score", ["score", "probability", "confidence", "logprob", "logProbability"]
)
def test_names_of_labels_and_scores(tmp_path, label, score):
    number = plain.log if score.startswith("log") else float

    def entries(names, row):
        pairs = zip(names, map(number, row), strict=True)
        return [{score: value, label: name} for name, value in pairs]

    found = applied(tmp_path, [entries(NAMES, row) for row in ROWS])
    plain.check_equal(found, [entries(NEW, row) for row in RESULTS])


@pytest.mark.parametrize("label", ["labels", "tokens", "classes"])
@pytest.mark.parametrize(
    "score", ["scores", "probabilities", "confidences", "logprobs", "token_logprobs"]
)
def test_names_of_two_lists(tmp_path, label, score):
    number = plain.log if "log" in score else float

    def lists(names, row):
        return {score: [*map(number, row)], "id": 1, label: names}

    found = applied(tmp_path, [lists(NAMES, row) for row in ROWS])
    plain.check_equal(found, [lists(NEW, row) for row in RESULTS])


def test_declared_logarithms(tmp_path):
    for form in (plain.as_object, plain.as_entries, plain.as_two_lists):
        lines = [form(NAMES, [*map(plain.log, row)]) for row in ROWS]
        found = applied(tmp_path, lines, Reading(logs=True))
        plain.check_equal(found, [form(NEW, [*map(plain.log, row)]) for row in RESULTS])


def test_nothing_has_a_finite_logarithm(tmp_path):
    line = [
        {"token": name, "logprob": value}
        for name, value in zip(NAMES, [0, -9999.0, -9999.0], strict=True)
    ]
    [found] = applied(tmp_path, [line])
    assert found == [{"token": "cat", "logprob": 0.0}, {"token": "vixen", "logprob": -9999.0}]


# Labels


def test_without_classes_the_first_line_names_the_labels(tmp_path):
    for form in (plain.as_object, plain.as_entries, plain.as_two_lists):
        found = opened(tmp_path, [{"p": form(NAMES, row)} for row in ROWS], classes=None)
        assert found.classes == ("cat", "dog", "fox")
        assert "'cat', 'dog', 'fox': if not, name them." in found.guess
        assert not found.logs
    found = opened(tmp_path, ROWS, classes=None)
    assert (found.classes, found.guess) == ((0, 1, 2), "")


def test_without_classes_decimal_fields_are_the_labels(tmp_path):
    lines = [{"id": 7 + i, "x": "0.5", **plain.as_object(NAMES, row)} for i, row in enumerate(ROWS)]
    lines.append({"id": 1, "cat": 1, "dog": 0, "fox": 0, "n": [1.5]})
    found = opened(tmp_path, lines, classes=None)
    assert (found.classes, found.doubtful) == (("cat", "dog", "fox"), "id")
    assert [part.confidences().tolist() for part in found.parts(lambda part: None)] == [
        [*ROWS, [1, 0, 0]]
    ]
    with pytest.raises(UnlabelError, match="0 in every row of column 'emu'"):
        opened(tmp_path, [line | {"emu": 0.0} for line in lines], classes=None)
    with pytest.raises(
        UnlabelError, match=r"line 1: it has no scores in the fields 'id', 'x'.*\(key=\)"
    ):
        opened(tmp_path, [{"id": 1, "x": 0.5}], classes=None)


def test_tokens_of_one_label_add_up(tmp_path):
    line = [
        {"token": " cat", "logprob": math.log(0.25)},
        {"token": "cat", "logprob": math.log(0.25)},
        {"token": "dog\n", "logprob": math.log(0.25)},
        {"token": "fox", "logprob": math.log(0.125)},
        {"token": "\tfox", "logprob": math.log(0.125)},
    ]
    [found] = applied(tmp_path, [line])
    scores = {entry["token"]: math.exp(entry["logprob"]) for entry in found}
    assert scores == pytest.approx({"cat": 2 / 3, "vixen": 1 / 3})


# Answers that name only some labels


ANIMALS = ["cat", "dog", "fox", "hen", "owl"]
TOP = [{"fox": 0.5, "dog": 0.25}, {"cat": 0.75, "fox": 0.125}, {"dog": 0.5, "cat": 0.125}]
TOP_PLAN = {"dog": None, "owl": None, "fox": "vixen"}


def expected_partial(named):
    """Return the result of a row that names only some labels: the rest is on retained ones."""
    gone = sum(Fraction(score) for name, score in named.items() if name == "dog")
    return {
        TOP_PLAN.get(name, name): pytest.approx(float(Fraction(score) / (1 - gone)))
        for name, score in named.items()
        if name != "dog"
    }


@pytest.mark.parametrize("form", ["entries", "object", "two_lists", "fields"])
def test_partial_rows(tmp_path, form):
    lines = []
    for named in TOP:
        scores = named if form == "fields" else {"p": plain.FORMS[form](named, named.values())}
        lines.append({"id": 1, **scores})
    found = applied(tmp_path, lines, PARTIAL, doors.mask(ANIMALS, TOP_PLAN))
    for line, named in zip(found, TOP, strict=True):
        if form == "entries":
            result = {each["label"]: each["score"] for each in line["p"]}
        elif form == "two_lists":
            result = dict(zip(line["p"]["labels"], line["p"]["scores"], strict=True))
        elif form == "object":
            result = line["p"]
        else:
            result = {name: line[name] for name in ("cat", "vixen", "hen") if name in line}
        assert result == expected_partial(named)


def test_a_single_answer(tmp_path):
    lines = [{"label": "fox", "score": 0.75, "id": 1}, {"label": "dog", "score": 0.5, "id": 2}]
    found = applied(tmp_path, lines, PARTIAL, top_label=True)
    assert found[0]["label"] == "vixen"
    assert found[0]["score"] == 0.75
    assert [*found[0]][:3] == ["label", "score", "id"]
    assert found[1] == {
        "label": None,
        "score": None,
        "id": 2,
        "top_label": None,
        "certain": False,
        "only_removed": True,
    }
    os.remove(tmp_path / "out.jsonl")
    message = refusal(tmp_path, lines)
    assert "line 1: it does not name the label 'cat'" in message
    assert "(partial=)" in message


@pytest.mark.parametrize("name", ["scores", "top"])
def test_the_best_of_scores_in_another_field_is_not_all_there_is(tmp_path, name):
    scores = {"cat": 0.5, "dog": 0.25}
    if name == "top":
        scores = [{"label": label, "score": score} for label, score in scores.items()]
    line = {"label": "cat", "score": 0.5, name: scores}
    message = refusal(tmp_path, [line], PARTIAL)
    assert f"line 1: it has an answer in 'label' and its scores in {name!r}: choose" in message
    found = applied(tmp_path, [line], replace(PARTIAL, key=name))[0]
    alone = applied(tmp_path, [{name: scores}], PARTIAL)[0]
    assert found == line | alone
    # Where the labels are not known, the other field may hold anything.
    beside = [{"label": "cat", "score": 0.5, "meta": {"latency": 0.25}}]
    assert opened(tmp_path, beside, PARTIAL, classes=None).classes == ("cat",)


@pytest.mark.parametrize(
    "others", [[{"label": "cat", "score": 0.25}], {"cat": 0.25}, {"cat": 3}, {"fox": 3, "cat": 1}]
)
def test_alternatives_to_an_answer_are_not_its_scores(tmp_path, others):
    line = {"label": "dog", "score": 0.5, "others": others}
    found = applied(tmp_path, [line], PARTIAL)[0]
    assert found == line | {"label": None, "score": None}


@pytest.mark.parametrize("text", ["", "\n \n\t\r\n"])
def test_without_lines_there_is_nothing_to_filter(tmp_path, text):
    (tmp_path / "in.jsonl").write_text(text)
    options = ApplyOptions(update_column="answer", top_label=True)
    done = apply_table(MASK, tmp_path / "in.jsonl", tmp_path / "out.jsonl", options, print)
    assert (done.rows, done.written) == (0, 0)
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    with pytest.raises(UnlabelError, match="has no lines: give a file with at least one"):
        open_predictions(tmp_path / "in.jsonl", None, Reading())


def test_lists_without_labels_cannot_be_partial(tmp_path):
    assert "give whole rows" in refusal(tmp_path, ROWS, PARTIAL)


def test_other_labels_count_as_removed(tmp_path):
    line = [
        {"token": " The", "logprob": math.log(0.25)},
        {"token": " fox", "logprob": math.log(0.5)},
        {"token": " dog", "logprob": math.log(0.125)},
        {"token": " A", "logprob": math.log(0.0625)},
    ]
    with pytest.raises(UnlabelError, match="line 1: the model has no label ' The'"):
        applied(tmp_path, [line], PARTIAL)
    reading = Reading(partial=True, other_labels="removed")
    [[found]] = applied(tmp_path, [line], reading, removed_mass=False)
    assert found["token"] == "vixen"
    assert math.exp(found["logprob"]) == pytest.approx(0.5 / (1 - 0.25 - 0.125 - 0.0625))


# The forms of language models' APIs, as they are documented


def chat_completion(names, logs):
    """The answer of OpenAI's chat completions with ``logprobs=True, top_logprobs=3``."""
    top = [
        {"token": name, "logprob": value, "bytes": [*name.encode()]}
        for name, value in zip(names, logs, strict=True)
    ]
    return {
        "id": "chatcmpl-123",
        "object": "chat.completion",
        "created": 1702685778,
        "model": "gpt-4o-mini",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": names[0]},
                "logprobs": {"content": [{**top[0], "top_logprobs": top}]},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        "system_fingerprint": None,
    }


def test_chat_completions(tmp_path):
    rows = [sorted(zip(NAMES, row, strict=True), key=lambda pair: -pair[1]) for row in ROWS]
    lines = [
        chat_completion([name for name, _ in row], [math.log(score) for _, score in row])
        for row in rows
    ]
    key = "choices.0.logprobs.content.0.top_logprobs"
    found = applied(tmp_path, lines, Reading(key=key))
    for line, before, row in zip(found, lines, RESULTS, strict=True):
        content = line["choices"][0]["logprobs"]["content"][0]
        plain.check_equal(content.pop("top_logprobs"), plain.as_logs(NEW, row))
        before["choices"][0]["logprobs"]["content"][0].pop("top_logprobs")
        assert line == before


def test_legacy_completions(tmp_path):
    def line(names, row):
        logs = dict(zip([f" {name}" for name in names], map(math.log, row), strict=True))
        lists = {"tokens": [" cat"], "token_logprobs": [-0.1], "top_logprobs": [logs]}
        return {"choices": [{"text": " cat", "logprobs": {**lists, "text_offset": [3]}}]}

    reading = Reading(key="choices.0.logprobs.top_logprobs.0", logs=True)
    found = applied(tmp_path, [line(NAMES, row) for row in ROWS], reading)
    for each, row in zip(found, RESULTS, strict=True):
        logs = each["choices"][0]["logprobs"].pop("top_logprobs")
        plain.check_equal(logs, [dict(zip(NEW, map(math.log, row), strict=True))])
        assert each["choices"][0]["logprobs"].pop("token_logprobs") == [-0.1]


# The output of Hugging Face pipelines

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "fox", "ran", "this"]
TEXTS = ["the cat ran", "the dog", "fox the fox"]
EMOTIONS = ["joy", "anger", "fear", "sadness", "surprise", "love", "calm"]


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision_cpu")  # before transformers, which imports torchvision
    transformers = pytest.importorskip("transformers")
    vocabulary = tmp_path_factory.mktemp("tokenizer") / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS))
    tokenizer = transformers.BertTokenizer(str(vocabulary))

    def made(task, labels):
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            initializer_range=1.0,
            id2label=dict(enumerate(labels)),
            label2id={name: i for i, name in enumerate(labels)},
        )
        model = transformers.BertForSequenceClassification(config).eval()
        return transformers.pipeline(task, model=model, tokenizer=tokenizer, device="cpu")

    return made


def check_pipeline(lines, found, plan):
    for before, after in zip(lines, found, strict=True):
        labels = [entry["label"] for entry in before]
        row = [Fraction(entry["score"]) for entry in before]
        expected = dict(
            zip(
                plain_plan.result_labels(plan, labels),
                plain_plan.masked(plan, labels, row),
                strict=True,
            )
        )
        assert {entry["label"]: entry["score"] for entry in after} == pytest.approx(
            expected, abs=1e-6
        )
        scores = [entry["score"] for entry in after]
        assert scores == sorted(scores, reverse=True)


def test_text_classification(tmp_path, pipelines):
    pipe = pipelines("text-classification", EMOTIONS)
    plan = {"fear": None, "anger": "upset", "sadness": "upset"}
    fitted = doors.mask(EMOTIONS, plan)
    lines = pipe(TEXTS, top_k=None)
    check_pipeline(lines, applied(tmp_path, lines, fitted=fitted), plan)
    found = applied(tmp_path, [{"text": "x", "out": line} for line in lines], fitted=fitted)
    check_pipeline(lines, [line["out"] for line in found], plan)


def test_text_classification_with_top_k(tmp_path, pipelines):
    pipe = pipelines("text-classification", EMOTIONS)
    plan = {"fear": None, "anger": "upset", "sadness": "upset"}
    fitted = doors.mask(EMOTIONS, plan)
    whole, top = pipe(TEXTS, top_k=None), pipe(TEXTS, top_k=5)
    found = applied(tmp_path, top, PARTIAL, fitted)
    for line, entries, named in zip(found, whole, top, strict=True):
        labels = [entry["label"] for entry in entries]
        row = [Fraction(entry["score"]) for entry in entries]
        results = plain_plan.masked(plan, labels, row)
        exact = dict(zip(plain_plan.result_labels(plan, labels), results, strict=True))
        hidden = 1 - sum(entry["score"] for entry in named)
        left = 1 - sum(entry["score"] for entry in named if entry["label"] == "fear")
        assert line
        for entry in line:
            assert abs(entry["score"] - exact[entry["label"]]) <= hidden / left + 1e-6
    single = pipe(TEXTS)
    assert {*single[0]} == {"label", "score"}
    assert len(applied(tmp_path, single, PARTIAL, fitted)) == len(TEXTS)


def test_zero_shot_classification(tmp_path, pipelines):
    pipe = pipelines("zero-shot-classification", ["contradiction", "entailment", "neutral"])
    lines = pipe(TEXTS, candidate_labels=NAMES, hypothesis_template="this {}")
    found = applied(tmp_path, lines)
    as_entries = [
        [plain.as_entries(line["labels"], line["scores"]) for line in of] for of in (lines, found)
    ]
    check_pipeline(*as_entries, PLAN)
    assert [[*line] for line in found] == [[*line] for line in lines]
    assert [line["sequence"] for line in found] == TEXTS


def test_fit_on_a_pipelines_output(tmp_path, pipelines):
    pipe = pipelines("text-classification", NAMES)
    texts = [f"{start} {end}" for start in WORDS[5:] for end in WORDS[5:]]
    lines = [{"label": NAMES[i % 3], "out": out} for i, out in enumerate(pipe(texts, top_k=None))]
    plain.write(tmp_path / "in.jsonl", lines)
    fitted, *_ = fit_table(
        tmp_path / "in.jsonl",
        plan=None,
        remove=["dog"],
        keep=None,
        method="osr",
        kind="probabilities",
        allow_chance=True,
        calibrate=False,
        classes=NAMES,
        reading=Reading(),
        label_column="label",
        progress=lambda part: None,
    )
    rows = [
        [next(e["score"] for e in line["out"] if e["label"] == n) for n in NAMES] for line in lines
    ]
    steps = plain_plan.steps_of(
        {"dog": None}, NAMES, np.array(rows), [line["label"] for line in lines]
    )
    expected = plain_plan.changed_rows({"dog": None}, NAMES, rows, steps)
    np.testing.assert_allclose(fitted.apply(np.array(rows)), expected, rtol=0, atol=1e-9)
