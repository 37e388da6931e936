"""Plans that were edited, in every format: read, checked, composed and written."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz_bounded import check_sentence, fuzzed_file
from fuzz_edits import ANY_JSON, TEXTS, edited_bytes, edited_json
from unlabel import LabelPlan, UnlabelError
from unlabel.plan import compose, diff

CLASSES = ["cat", "dog", "fox", "owl", "0"]
CHANGES = {"cat": None, "dog": "wolf", "fox": {"a": 0.25, "b": 0.75}, "owl": ["a", "c"], "0": 7}
JSON = {"title": "t", "note": "n", "unlisted": "error", "changes": CHANGES}
TOML = b"""title = "t"
note = '''n'''
unlisted = "retire"
[changes]
cat = false
"dog" = "wolf"
'fox' = { "a" = 0.25, b = 0.75 }
owl = ["a", "c"] # don't
0 = 7
"""
PAIRS = [["from", "to", "weight"], ["cat", "", ""], ["fox", "a", "0.25"], ["fox", "b", ".75"]]
CELLS = st.sampled_from([*(text for text in TEXTS if text != "\ud800"), '"', "a\nb", "50%"])


@st.composite
def edited_pairs(draw, separator):
    rows = [[*row] for row in PAIRS]
    for _ in range(draw(st.integers(0, 2))):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, 2))] = draw(CELLS)
    columns = draw(st.sampled_from([2, 3]))
    content = "\n".join(separator.join(row[:columns]) for row in rows).encode()
    return draw(st.just(content) | edited_bytes(content))


JSON_PLANS = (edited_json(JSON) | edited_json(CHANGES) | ANY_JSON).map(
    lambda plan: json.dumps(plan).encode()
)
FILES = st.one_of(
    st.tuples(st.just("plan.toml"), edited_bytes(TOML)),
    st.tuples(st.just("plan.json"), JSON_PLANS | edited_bytes(json.dumps(JSON).encode())),
    st.tuples(st.just("plan.csv"), edited_pairs(",")),
    st.tuples(st.just("plan.tsv"), edited_pairs("\t")),
    st.tuples(st.just("plan.txt"), edited_bytes(b"cat\nfox\n")),
)


@settings(max_examples=150)
@given(FILES)
def test_plans(file):
    name, content = file
    with fuzzed_file(name, content) as path:
        try:
            plan = LabelPlan.read(path)
        except UnlabelError as error:
            check_sentence(error)
            return
        again = path.with_name("again.toml")
        plan.write(again)
        assert LabelPlan.read(again) == plan
        again.unlink()
        str(diff(plan, LabelPlan({"cat": "dog"})))
        check = plan.check(CLASSES)
        str(check)
        try:
            assert plan.outcome(CLASSES).classes == check.left
            assert compose(plan, LabelPlan([]), CLASSES).outcome(CLASSES).classes == check.left
        except UnlabelError as error:
            check_sentence(error)
            assert check.problems
