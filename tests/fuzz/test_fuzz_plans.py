"""Plans that were edited, in every format: read, checked, composed and written."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from commands import unlabel
from fuzz_bounded import check_sentence, fuzzed_file
from fuzz_edits import ANY_JSON, TEXTS, edited_bytes, edited_json
from unlabel import LabelPlan, OutputFilter, UnlabelError

CLASSES = ["cat", "dog", "fox", "owl", "0"]
CHANGES = {"cat": None, "dog": "wolf", "fox": {"a": 0.25, "b": 0.75}, "owl": ["a", "c"], "0": 7}
JSON = {"title": "t", "note": "n", "unlisted": "error", "changes": CHANGES}
TOML = b"""title = "t"
note = '''n'''
unlisted = "remove"
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
)


def drafted(path):
    """Return the plan that the command drafts from a table of pairs."""
    code, text, error = unlabel("plan", "draft", path)
    if code:
        raise UnlabelError(error.rstrip("\n"))
    toml = path.with_name("draft.toml")
    toml.write_text(text, encoding="utf-8")
    plan = LabelPlan.load(toml)
    toml.unlink()
    return plan


@settings(max_examples=150)
@given(FILES)
def test_plans(file):
    name, content = file
    with fuzzed_file(name, content) as path:
        try:
            plan = drafted(path) if path.suffix in (".csv", ".tsv") else LabelPlan.load(path)
        except UnlabelError as error:
            check_sentence(error)
            return
        again = path.with_name("again.toml")
        plan.save(again)
        assert LabelPlan.load(again) == plan
        again.unlink()
        str(plan.diff(LabelPlan({"cat": "dog"})))
        check = plan.check(CLASSES)
        str(check)
        try:
            assert OutputFilter.from_plan(plan, classes=CLASSES).classes_out == check.result
            both = plan.then(LabelPlan({}), classes=CLASSES)
            assert OutputFilter.from_plan(both, classes=CLASSES).classes_out == check.result
        except UnlabelError as error:
            check_sentence(error)
            assert check.problems
