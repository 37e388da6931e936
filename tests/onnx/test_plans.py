"""Plans in ONNX models, run in ONNX Runtime and compared with loops over the labels."""

import json
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx.parser import parse_model
from scipy.special import softmax
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import doors
import plain
from commands import unlabel
from golden_integrations import KINDS, TOLERANCE
from onnx_models import identity_model, run
from unlabel import LabelPlan, UnlabelError
from unlabel.onnx import attach

OPSETS = (9, 13, 18, 26)


def added_up(masses, labels, plan):
    """Add up the masses of labels by their destinations, in the order in which these appear."""
    totals = {}
    for label, mass in zip(labels, masses, strict=True):
        to = plan.get(label, label)
        for name, weight in (to if isinstance(to, dict) else {to: 1}).items():
            totals[name] = totals.get(name, 0) + mass * weight
    return totals


def masked(row):
    return [mass / sum(row) if sum(row) > 0 else 1 / len(row) for mass in row]


def plain_results(rows, labels, plan, *, steps=None, temperature=1.0):
    """Remove labels, by mask unless there are steps, then add up the others."""
    stays = [plan.get(label, label) is not None for label in labels]
    retained, results = [label for label, there in zip(labels, stays, strict=True) if there], []
    for row in rows:
        row = plain.at_temperature(row, temperature)
        left = masked(row[stays]) if steps is None else plain.apply_row(row, steps)
        totals = added_up(left, retained, plan)
        results.append([mass / sum(totals.values()) for mass in totals.values()])
    return list(totals), np.array(results)


@st.composite
def plans(draw):
    """A number of labels and a plan for them: every kind of destination, swaps included."""
    n = draw(st.integers(2, 12))
    kinds = draw(
        st.lists(st.sampled_from(["keep", "remove", "move", "split"]), min_size=n, max_size=n)
    )
    kinds[draw(st.integers(0, n - 1))] = "keep"
    ends = [label for label in range(n) if kinds[label] != "remove"] + ["new", "other"]
    moved = [label for label in range(n) if kinds[label] == "move"]
    around = dict(zip(moved, draw(st.permutations(moved)), strict=True))
    is_swap, plan = draw(st.booleans()), {}
    for label in draw(st.permutations(range(n))):
        if kinds[label] == "remove":
            plan[label] = None
        elif kinds[label] == "move":
            plan[label] = around[label] if is_swap else draw(st.sampled_from(ends))
        elif kinds[label] == "split":
            parts = draw(st.lists(st.sampled_from(ends), min_size=2, max_size=3, unique=True))
            weights = [draw(st.integers(1, 9)) for _ in parts]
            plan[label] = {to: w / sum(weights) for to, w in zip(parts, weights, strict=True)}
    return n, plan


@given(
    plans(),
    st.sampled_from(["osr", "mask"]),
    st.sampled_from(KINDS),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(OPSETS),
    st.sampled_from([1.0, 0.7, 1.9]),
    st.integers(0, 9),
)
@example((3, {0: 1, 1: 0}), "mask", "probabilities", "float64", 9, 1.0, 0)
@example((4, {0: None, 1: {3: 0.5, "new": 0.5}}), "mask", "logits", "float64", 9, 1.0, 0)
@example((4, {2: None, 0: "other", 1: None, 3: "other"}), "osr", "logits", "float64", 26, 1.9, 0)
def test_random_plans_agree_with_loops(case, method, kind, dtype, opset, temperature, seed):
    n, plan = case
    rng = np.random.default_rng(seed)
    truth = np.arange(3 * n) % n
    reference = rng.normal(size=(3 * n, n)) + 2 * np.eye(n)[truth]
    logits = np.vstack([3 * rng.normal(size=(8, n)), 40 * np.eye(n)]).astype(dtype)
    if kind == "logits":
        rows, masses = logits, softmax(logits.astype(float), axis=1)
    else:
        reference = softmax(reference, axis=1)
        rows = np.vstack([softmax(logits, axis=1), np.eye(n)]).astype(dtype)
        masses = rows.astype(float)
    fitted = doors.fit(reference, truth, plan=plan, method=method, kind=kind)
    fitted = replace(fitted, temperature=temperature)
    steps = None
    if method == "osr":
        probable = softmax(reference, axis=1) if kind == "logits" else reference
        removed = [label for label, to in plan.items() if to is None]
        steps = plain.fit([probable[truth == label] for label in removed], removed, n)
    names, expected = plain_results(masses, range(n), plan, steps=steps, temperature=temperature)
    result = run(attach(identity_model(n, dtype, opset), fitted), x=rows)["scores"]
    assert list(fitted.classes_out) == names
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE[dtype])


MANY = {
    "all into a few": lambda label, rng: int(rng.integers(5)),
    "all into many": lambda label, rng: f"new {rng.integers(40)}",
    "a few into one": lambda label, rng: 7 if label % 40 == 7 else label,
    "the last few": lambda label, rng: "last" if label > 115 else label,
    "some split": lambda label, rng: {label: 0.5, "part": 0.5} if label % 50 == 9 else label,
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("case", MANY)
def test_many_labels_are_added_up_block_by_block(case, opset):
    rng = np.random.default_rng(0)
    plan = {label: MANY[case](label, rng) for label in range(120)} | {60: None}
    rows = rng.dirichlet(np.full(120, 0.1), size=9)
    fitted = doors.mask(range(120), plan)
    names, expected = plain_results(rows, range(120), plan)
    model = attach(identity_model(120, "float64", opset), fitted)
    assert model.graph.output[0].type.tensor_type.shape.dim[1].dim_value == len(names)
    assert list(fitted.classes_out) == names
    np.testing.assert_allclose(run(model, x=rows)["scores"], expected, rtol=0, atol=1e-15)
    assert run(model, x=rows[:0])["scores"].shape == (0, len(names))


def test_nothing_of_the_square_of_the_labels_is_in_the_graph():
    plan = {label: f"pair {label % 1000}" for label in range(2000)}
    model = attach(identity_model(2000), doors.mask(range(2000), plan))
    constants = [node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"]
    assert sum(numpy_helper.to_array(constant).size for constant in constants) < 20 * 2000


@pytest.mark.parametrize("seed", range(4))
def test_chains_of_extreme_rows_lose_no_digits(seed):
    rng = np.random.default_rng(seed)
    plan = {5: None, 2: None, 0: None, 1: 7, 4: {"half": 0.5, 6: 0.25, 3: 0.25}, 6: "six"}
    reference = 10.0 ** rng.uniform(-12, 0, (32, 8))
    reference /= reference.sum(axis=1, keepdims=True)
    fitted = doors.fit(reference, np.arange(32) % 8, plan=plan)
    rows = 10.0 ** rng.uniform(-25, 0, (40, 8))
    rows[np.arange(40), rng.choice([5, 2, 0], size=40)] = 1
    rows /= rows.sum(axis=1, keepdims=True)
    there, steps = list(range(8)), []
    for column, mean, share in zip([5, 2, 0], fitted.means, fitted.shares, strict=True):
        after = [label for label in there if label != column]
        steps.append((there.index(column), plain.exactly(mean[there]), plain.exactly(share[after])))
        there = after
    exact_plan = plan | {4: {name: Decimal(weight) for name, weight in plan[4].items()}}
    expected = []
    for row in rows:
        left = plain.apply_exactly(plain.normalised_exactly(row), steps)
        with localcontext(prec=plain.DIGITS):
            expected.append([*added_up(left, there, exact_plan).values()])
    result = run(attach(identity_model(8, "float64"), fitted), x=rows)["scores"]
    np.testing.assert_allclose(result, np.array(expected, dtype=float), rtol=0, atol=1e-14)


# Names


CHANGES = {3: None, 8: 5, 1: 10, 2: 10, 4: {6: 0.25, 11: 0.75}, 7: 9, 9: 7}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


def named(plan, name):
    """Rename all the labels of a plan."""
    renamed = {}
    for label, to in plan.items():
        if isinstance(to, dict):
            to = {name(part): weight for part, weight in to.items()}
        renamed[name(label)] = to if to is None or isinstance(to, dict) else name(to)
    return renamed


@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
@pytest.mark.parametrize(
    ("in_model", "in_filter"), [(int, int), (int, str), ("no. {}".format, str), (str, int)]
)
def test_a_scikit_learn_model_gives_the_new_labels(digits, in_model, in_filter, zipmap):
    X, y = digits
    truth = np.array([in_model(label) for label in y])
    model = LogisticRegression(max_iter=500).fit(X[:300], truth[:300])
    labels, plan = model.classes_.tolist(), named(CHANGES, in_model)
    own = {in_model(label): in_filter(in_model(label)) for label in range(12)}
    fitted = doors.mask([*map(own.get, labels)], named(plan, own.get))
    exported = to_onnx(model, X[:1], options={"zipmap": zipmap})
    found, probabilities = run(attach(exported, fitted), X=X[300:]).values()
    names, expected = plain_results(model.predict_proba(X[300:]), labels, plan)
    if zipmap:
        # ONNX Runtime's maps are in the order of their keys.
        assert all([*row] == sorted(names) for row in probabilities)
        probabilities = np.array([[row[name] for name in names] for row in probabilities])
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)
    assert found.dtype == run(exported, X=X[:1])["output_label" if zipmap else "label"].dtype
    np.testing.assert_array_equal(found, np.array(names)[expected.argmax(axis=1)])


@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
@pytest.mark.parametrize("new", ["other", "07", ""])
def test_a_new_label_of_another_type_is_refused(digits, new, zipmap):
    X, y = digits
    model = LogisticRegression(max_iter=500).fit(X[:300], y[:300])
    exported = to_onnx(model, X[:1], options={"zipmap": zipmap})
    message = r"gives labels as whole numbers .int64. and cannot give the new label .*: name it by"
    with pytest.raises(UnlabelError, match=message) as caught:
        attach(exported, doors.mask(range(10), {3: new}))
    assert repr(new) in str(caught.value)


def labelled(kind, constants, nodes):
    return parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        net (float[N,3] x) => (float[N,3] p, {kind} l) {constants}
        {{ p = Identity(x)  i = ArgMax<axis=1, keepdims=0>(p)  {nodes} }}""")


ROWS = np.array([[0.5, 0.4, 0.1], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]], dtype="f4")
NUMBERED = {
    "renamed in place": ([0, 1, 2], {1: 0, 0: 1}, [1, 0, 2]),
    "merged into an old one": ("abc", {"a": "c"}, [2, 1, 2]),
    "swapped": ("abc", {"a": "b", "b": "a"}, [1, 0, 2]),
    "a number that is new": ([0, 1, 2], {2: 9, 0: 9}, [9, 1, 9]),
    "texts of numbers": (["0", "1", "2"], {"0": None, "2": "9"}, [1, 1, 9]),
}


@pytest.mark.parametrize("case", NUMBERED)
@pytest.mark.parametrize(
    ("kind", "node"),
    [("int64[N]", "Identity"), ("uint8[N]", "Cast<to=2>"), ("string[N]", "Cast<to=8>")],
)
def test_an_output_of_numbers_gives_the_numbers_that_the_model_has_for_labels(case, kind, node):
    classes, plan, expected = NUMBERED[case]
    model = attach(labelled(kind, "", f"l = {node}(i)"), doors.mask(list(classes), plan))
    found = run(model, x=ROWS)["l"]
    assert found.dtype == {"i": "int64", "u": "uint8", "s": "object"}[kind[0]]
    assert found.astype(int).tolist() == expected


@pytest.mark.parametrize("classes", ["abc", (1, 2, 3)])
def test_a_new_label_has_no_number(classes):
    model = labelled("int64[N]", "", "l = Identity(i)")
    fitted = doors.mask(list(classes), {classes[0]: 7})
    message = "'l' gives labels by their numbers in the model, and the new label 7 has none: drop"
    with pytest.raises(UnlabelError, match=message):
        attach(model, fitted)
    del model.graph.output[1]
    assert attach(model, fitted).graph.output[0].name == "p"


@pytest.mark.parametrize(
    ("kind", "to", "new"), [("uint8", 2, 300), ("uint8", 2, -1), ("float16", 10, 70000)]
)
def test_a_number_that_the_output_cannot_hold_is_refused(kind, to, new):
    model = labelled(f"{kind}[N]", "", f"l = Cast<to={to}>(i)")
    assert attach(model, doors.mask(range(3), {1: 200}))
    with pytest.raises(UnlabelError, match=f"cannot give the new label {new}: .* or drop the out"):
        attach(model, doors.mask(range(3), {1: new}))


def test_the_plan_is_recorded():
    plan = LabelPlan({"a": None, "b": "other"}, title="v2", note="as décided")
    model = attach(identity_model(3), doors.mask(list("abc"), plan))
    recorded = json.loads(model.metadata_props[0].value)
    assert len(recorded["plan"].pop("digest")) == 64
    assert recorded["plan"] == {"title": "v2", "note": "as décided"}
    assert (recorded["classes_out"], recorded["removed"]) == (["other", "c"], ["a"])


def test_the_command_leaves_nothing_if_a_label_has_no_number(tmp_path):
    model = labelled("int64[N]", "", "l = Identity(i)")
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    doors.mask(list("abc"), {"a": "other", "b": "other"}).save(tmp_path / "filter")
    arguments = ("onnx", tmp_path / "model.onnx", tmp_path / "filter", "--out", tmp_path / "new")
    code, printed, errors = unlabel(*arguments)
    assert (code, printed, errors.count("\n")) == (2, "", 1)
    assert "the new label 'other' has none" in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["filter", "model.onnx"]
