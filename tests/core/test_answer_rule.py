"""The one rule for answers, against plain loops: thresholds, allow-lists, fitting, files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
import plain_answers
from unlabel import AnswerRule, UnlabelError

pytestmark = [
    pytest.mark.usefixtures("both_ways"),
    pytest.mark.filterwarnings("ignore:.* of labels that the model does not have"),
]

LABELS = ["cat", "dog", "fox", "owl", "elk"]
CHANGES = {"cat": None, "dog": "canine", "fox": "canine"}
MASK = doors.mask(LABELS, CHANGES)
RESULTS = [*MASK.classes_out]  # canine, owl, elk
LISTS = {"farm": ["canine"], "wood": ["owl", "elk"], "all": RESULTS}
# So coarse that there are ties, zeros and rows of nothing but removed labels.
COARSE = st.lists(st.integers(0, 3), min_size=5, max_size=5).filter(any)
SHARES = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0])
RULES = st.builds(
    AnswerRule,
    SHARES | st.dictionaries(st.sampled_from([None, *RESULTS]), SHARES),
    SHARES,
    unknown=st.sampled_from([None, "unknown", -1]),
)


def plainly(found, rule, allowed=None):
    """Answer filtered rows, which no list has divided, one after another."""
    answers = []
    for at, (row, mass) in enumerate(zip(found.confidences, found.removed_mass, strict=True)):
        one = plain_answers.answer(
            row.tolist(),
            float(mass),
            RESULTS,
            may=None if allowed is None else allowed[at],
            min_confidence=rule.min_confidence,
            max_removed_mass=rule.max_removed_mass,
        )
        answers.append(rule.unknown if one is None else one)
    return answers


@given(
    st.lists(st.tuples(COARSE, st.sampled_from([*LISTS])), min_size=1, max_size=9),
    RULES,
    st.sampled_from([np.float32, np.float64]),
)
def test_answers_are_those_of_plain_loops(cases, rule, dtype):
    weights, names = zip(*cases, strict=True)
    rows = np.array([np.array(row) / sum(row) for row in weights], dtype=dtype)
    full = MASK.run(rows)
    assert MASK.answer(rows, rule).tolist() == plainly(full, rule)
    by_list = plainly(full, rule, [LISTS[name] for name in names])
    assert MASK.answer(rows, rule, allow=LISTS, allow_by=names).tolist() == by_list
    matrix = np.array([[label in LISTS[name] for label in RESULTS] for name in names])
    assert MASK.answer(rows, rule, allow=matrix).tolist() == by_list


@pytest.mark.parametrize(
    ("row", "rule", "allow", "expected"),
    [
        ([0, 0.2, 0.2, 0.4, 0.2], AnswerRule(), None, "canine"),  # ties go to the first
        ([0, 0.1, 0, 0.45, 0.45], AnswerRule(0.45), None, "owl"),
        ([0, 0.1, 0, 0.45, 0.45], AnswerRule(0.46), None, None),
        ([0.5, 0.5, 0, 0, 0], AnswerRule(max_removed_mass=0.5), None, "canine"),
        ([0.51, 0.49, 0, 0, 0], AnswerRule(max_removed_mass=0.5), None, None),
        ([0, 0.6, 0, 0.3, 0.1], AnswerRule(), ["owl", "elk"], "owl"),
        # Before an allow-list divides by the rest, the owl has 0.3, and after it 0.75.
        ([0, 0.6, 0, 0.3, 0.1], AnswerRule(0.5), ["owl", "elk"], None),
        ([0, 1.0, 0, 0, 0], AnswerRule(), ["owl", "elk"], None),  # no mass: never the first by tie
        ([0, 1.0, 0, 0, 0], AnswerRule(unknown="?"), ["owl", "elk"], "?"),
        ([0, 0.7, 0, 0.2, 0.1], AnswerRule({"canine": 0.8}), None, None),
        ([0, 0.1, 0, 0.7, 0.2], AnswerRule({"canine": 0.8}), None, "owl"),
        ([0, 0.1, 0, 0.7, 0.2], AnswerRule({None: 0.8, "canine": 0}), None, None),
        ([0, 0.7, 0, 0.2, 0.1], AnswerRule({None: 0.8, "canine": 0}), None, "canine"),
    ],
)
def test_examples(row, rule, allow, expected):
    assert MASK.answer(row, rule, allow=allow).item() == expected


def test_answers_are_objects_of_the_labels_own_types_in_the_shape_of_the_rows():
    fitted = doors.mask([7, 8, "x"], ["x"])
    rows = np.tile([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]], (4, 1, 1))
    answers = fitted.answer(rows, AnswerRule(max_removed_mass=0.5))
    assert (answers.shape, answers.dtype) == ((4, 3), object)
    assert answers[0].tolist() == [7, 8, None]
    assert [*map(type, answers[0])] == [int, int, type(None)]
    assert fitted.answer(rows[0]).tolist() == [7, 8, 7]


def test_labels_are_found_by_their_texts_as_files_have_them(tmp_path):
    numbered = doors.mask([7, 8], {})
    AnswerRule({7: 0.9}).save(tmp_path / "rule.toml")
    for rule in (AnswerRule({7: 0.9}), AnswerRule.load(tmp_path / "rule.toml")):
        assert numbered.answer([[0.8, 0.2], [0.4, 0.6]], rule).tolist() == [None, 8]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (AnswerRule({"dog": 0.5}), "filter's result has no label 'dog'"),
        (AnswerRule(unknown="owl"), r"'owl' stands for unknown .* \(unknown=\)"),
    ],
)
def test_rules_that_do_not_fit_a_filter_are_refused(rule, words):
    with pytest.raises(UnlabelError, match=words):
        MASK.answer(np.full(5, 0.2), rule)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"min_confidence": 1.5}, r"1.5 is not a share.* \(min_confidence=\)"),
        ({"min_confidence": {"cat": -0.1}}, "-0.1 is not a share"),
        ({"min_confidence": {None: None}}, "None is not a share"),
        ({"min_confidence": True}, "True is not a share"),
        ({"min_confidence": {1: 0.5, "1": 0.5}}, "1 has the text of '1'"),
        ({"max_removed_mass": float("nan")}, r"nan is not a share.* \(max_removed_mass=\)"),
        ({"max_removed_mass": "0.5"}, "'0.5' is not a share"),
        ({"unknown": ["?"]}, r"neither a string nor a whole number \(unknown=\)"),
    ],
)
def test_rules_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(UnlabelError, match=words):
        AnswerRule(**arguments)


def test_equal_rules_have_one_hash():
    for one, other in (
        (AnswerRule(0), AnswerRule(0.0)),
        (AnswerRule({"a": 0.5, "b": 0.1}), AnswerRule({"b": 0.1, "a": 0.5})),
    ):
        assert one == other
        assert hash(one) == hash(other)


# Fitting


def judged(n_rows=1000, seed=0, parts=None):
    """Rows and their true labels; of so many parts where they are coarse, with many ties."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(5, size=n_rows)
    logits = rng.normal(scale=1.5, size=(n_rows, 5)) + 3 * np.eye(5)[truth]
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    if parts is not None:
        rows = (rows * parts).round()
        rows[rows.sum(axis=1) == 0] = 1.0
        rows /= rows.sum(axis=1, keepdims=True)
    return rows, np.array(LABELS, dtype=object)[truth]


def plain_search(rows, mass, correct, *, accuracy, loss):
    """Choose the limit of the removed mass first, and then the smallest threshold that does."""
    limit = min(m for m in [*mass] if sum(mass > m) <= loss * len(mass))
    kept = mass <= limit
    best, share = None, 0.0
    for threshold in sorted({0.0, *rows[kept].max(axis=1)}, reverse=True):
        answered = kept & (rows.max(axis=1) >= threshold)
        if answered.sum() >= 100:
            share = max(share, correct[answered].mean())
            if correct[answered].mean() >= accuracy:
                best = threshold
    return limit, best, share


@pytest.mark.parametrize("parts", [None, 5, 10])
@pytest.mark.parametrize(("accuracy", "loss"), [(0.95, 0.02), (0.97, 0.1), (0.5, 0.0)])
def test_the_loss_is_met_first_and_then_the_smallest_threshold_is_taken(accuracy, loss, parts):
    rows, labels = judged(parts=parts)
    stays = labels != "cat"
    expected = np.array([CHANGES.get(label, label) for label in labels[stays]], dtype=object)
    found = MASK.run(rows[stays])
    correct = np.array(RESULTS)[found.confidences.argmax(axis=1)] == expected
    search = plain_search(
        found.confidences, found.removed_mass, correct, accuracy=accuracy, loss=loss
    )
    rule = AnswerRule.fit(rows, labels, MASK, target_accuracy=accuracy, target_loss=loss)
    assert (rule.max_removed_mass, rule.min_confidence) == search[:2]
    answers = MASK.answer(rows[stays], rule)
    unknown = np.array([answer is None for answer in answers])
    assert (found.removed_mass > rule.max_removed_mass).mean() <= loss
    assert (answers[~unknown] == expected[~unknown]).mean() >= accuracy
    # The labels of the result do as well, and rows of other labels do not count.
    renamed = [CHANGES.get(label, label) or "emu" for label in labels]
    targets = {"target_accuracy": accuracy, "target_loss": loss}
    assert AnswerRule.fit(rows, renamed, MASK, **targets) == rule


def test_one_target_alone_leaves_the_other_threshold():
    rows, labels = judged()
    assert AnswerRule.fit(rows, labels, MASK, target_loss=0.1).min_confidence == 0
    assert AnswerRule.fit(rows, labels, MASK, target_loss=1).max_removed_mass == 0
    assert AnswerRule.fit(rows, labels, MASK, target_accuracy=0.95).max_removed_mass == 1


def test_a_hundred_answered_rows_are_enough():
    rows = [[0, 0, 0, 0.9, 0.1]] * 100 + [[0, 0, 0, 0.6, 0.4]]
    labels = ["owl"] * 100 + ["elk"]
    assert AnswerRule.fit(rows, labels, MASK, target_accuracy=1).min_confidence == 0.9
    with pytest.raises(UnlabelError, match=r"the best is 0\.99,"):
        AnswerRule.fit(rows[1:], labels[1:], MASK, target_accuracy=1)


def test_any_part_of_a_split_is_a_correct_answer():
    split = doors.mask(LABELS, {"dog": {"big": 0.4, "small": 0.6}, "cat": "small"})
    rows, labels = [[0, 0.9, 0.1, 0, 0], [0.5, 0.4, 0.1, 0, 0]] * 100, ["dog", "cat"] * 100
    assert AnswerRule.fit(rows, labels, split, target_accuracy=1).min_confidence == 0
    with pytest.raises(UnlabelError, match=r"the best is 0\.5,"):
        AnswerRule.fit(rows, ["dog", "fox"] * 100, split, target_accuracy=1)


def test_a_target_that_no_threshold_meets_gets_the_best_share_that_one_does():
    rows, labels = judged()
    wrong = np.roll(labels, 1)
    stays = wrong != "cat"
    expected = np.array([CHANGES.get(label, label) for label in wrong[stays]], dtype=object)
    found = MASK.run(rows[stays])
    correct = np.array(RESULTS)[found.confidences.argmax(axis=1)] == expected
    share = plain_search(found.confidences, np.zeros(len(correct)), correct, accuracy=1, loss=0)[2]
    with pytest.raises(UnlabelError, match=rf"the best is {share:.4g}, .* \(target_accuracy=\)"):
        AnswerRule.fit(rows, wrong, MASK, target_accuracy=0.99)


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (1000, {}, "give a target accuracy or loss"),
        (1000, {"target_accuracy": 2}, "2 is not a share"),
        (1000, {"target_loss": -1}, "-1 is not a share"),
        (90, {"target_accuracy": 0.5}, "a threshold needs 100"),
    ],
)
def test_rules_that_cannot_be_fitted(rows, options, words):
    with pytest.raises(UnlabelError, match=words):
        AnswerRule.fit(*judged(rows), MASK, **options)


def test_labels_and_rows_go_together():
    rows, labels = judged()
    with pytest.raises(UnlabelError, match="1000 rows have 999 true labels"):
        AnswerRule.fit(rows, labels[1:], MASK, target_loss=0.1)
    with pytest.raises(UnlabelError, match="No row has a true label that stays"):
        AnswerRule.fit(rows, ["cat"] * 1000, MASK, target_loss=0.1)
    with pytest.raises(UnlabelError, match="The true labels have masked entries"):
        AnswerRule.fit(rows, np.ma.masked_equal(labels, "dog"), MASK, target_loss=0.1)


# Files

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    st.floats(0, 1) | st.dictionaries(st.none() | TEXTS, st.floats(0, 1)),
    st.floats(0, 1),
    st.none() | TEXTS | st.integers(-9, 9),
)
def test_any_rule_is_the_same_after_it_was_written_and_read(tmp_path_factory, least, most, unknown):
    path = tmp_path_factory.mktemp("rules") / "rule.toml"
    rule = AnswerRule(least, most, unknown=unknown)
    rule.save(path)
    again = AnswerRule.load(path)
    if isinstance(least, dict):
        least = {None: 0.0} | least
        least = least if len(least) > 1 else least[None]
        rule = AnswerRule(least, most, unknown=unknown)
    assert again == rule
    again.save(path.with_name("again.toml"))
    assert path.read_bytes() == path.with_name("again.toml").read_bytes()


def test_a_rule_is_written_as_toml_for_people(tmp_path):
    AnswerRule({None: 0.6, 'a "b"': 0.9}, 0.5, unknown="?").save(tmp_path / "rule.toml")
    assert (tmp_path / "rule.toml").read_text(encoding="utf-8").split("\n") == [
        "min_confidence = 0.6",
        "max_removed_mass = 0.5",
        'unknown = "?"',
        "",
        "[min_confidence_by_label]",
        r'"a \"b\"" = 0.9',
        "",
    ]
    AnswerRule().save(tmp_path / "rule.toml")  # saving replaces
    assert AnswerRule.load(tmp_path / "rule.toml") == AnswerRule()


MALFORMED = {
    "syntax": ("min_confidence", "it is not TOML: "),
    "key": ("min = 0.5", "the key 'min' is not known: use min_confidence, "),
    "share": ("min_confidence = 2", "2 is not a share"),
    "boolean": ("max_removed_mass = true", "True is not a share"),
    "text": ('max_removed_mass = "1"', "'1' is not a share"),
    "default": ("min_confidence = '1'\n[min_confidence_by_label]\na = 0.5", "'1' is not a share"),
    "no-table": ("min_confidence_by_label = 0.5", "its min_confidence_by_label is not a table"),
    "by-label": ("[min_confidence_by_label]\na = 5", "5 is not a share"),
    "nested": ("[min_confidence_by_label]\na = { b = 0.5 }", "{'b': 0.5} is not a share"),
    "twice": ("min_confidence = 0.5\nmin_confidence = 0.5", "it is not TOML: "),
    "unknown": ("unknown = 0.5", "neither a string nor a whole number"),
    "deep": ("unknown = " + "[" * 100_000, "it is nested too deeply"),
    "not-utf-8": (b"unknown = '\xff'", "it is not text in UTF-8"),
    "zeros": (bytes(100), "it is not TOML: "),
}


@pytest.mark.parametrize(("content", "words"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_gets_one_sentence(tmp_path, content, words):
    path = tmp_path / "rule.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnlabelError) as caught:
        AnswerRule.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert message.isprintable()


def test_other_files(tmp_path):
    with open(tmp_path / "large.toml", "wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(UnlabelError, match=r"large.toml: it is larger than 64 MiB"):
        AnswerRule.load(tmp_path / "large.toml")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        AnswerRule.load(tmp_path / "nowhere.toml")
    with pytest.raises(UnlabelError, match="it is not a regular file"):
        AnswerRule.load(tmp_path)


def test_rows_of_labels_that_nobody_has_are_counted_in_a_warning():
    rows = [[0.9, 0.1]] * 150
    masked = doors.mask(["cat", "dog"], {})
    with pytest.warns(UserWarning, match="50 rows of labels that the model does not have") as told:
        AnswerRule.fit(rows, ["cat"] * 100 + ["Cat"] * 50, masked, target_accuracy=0.5)
    assert told[0].filename == __file__


@pytest.mark.parametrize("rule", [0.5, "rule.toml", {"min_confidence": 0.5}])
def test_anything_but_a_rule_is_refused(rule):
    with pytest.raises(UnlabelError, match=f"The rule is a {type(rule).__name__}: give an"):
        doors.mask(["cat", "dog"], {}).answer([[0.9, 0.1]], rule)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_confidence_that_is_as_high_as_it_must_be_is_enough_in_its_own_type(dtype):
    rows = np.array([[0.7, 0.3]], dtype=dtype)
    rule = AnswerRule(min_confidence=0.7)
    assert doors.mask(["cat", "dog"], {}).answer(rows, rule).tolist() == ["cat"]
