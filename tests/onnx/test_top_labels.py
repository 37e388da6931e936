"""Outputs that hold the top label follow the changed confidences, or the model is refused."""

import numpy as np
import pytest

from onnx_models import mask_filter, parsed, run
from unlabel import UnlabelError
from unlabel.onnx import attach


def test_another_head_keeps_its_label():
    model = parsed("""
        two (float[N,3] x) => (float[N,3] p, int64[N] top, float[N,4] q, int64[N] other)
        <float[3,4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0}>
        { p = Identity(x)  top = ArgMax<axis=1, keepdims=0>(p)
          q = MatMul(x, w)  other = ArgMax<axis=1, keepdims=0>(q) }""")
    x = np.array([[0.2, 0.5, 0.3]], "f4")
    result = run(attach(model, mask_filter(3)), x=x)
    assert (result["top"], result["other"]) == (2, 1)


TOP_LABELS = {
    "temperature": "s = Div(x, t)  p = Softmax<axis=1>(s)  l = ArgMax<axis=1, keepdims=0>(x)",
    "a factor a label": "s = MatMul(x, d)  p = Softmax<axis=1>(s)  l = ArgMax<axis=1>(x)",
    "a sum by a product": (
        "e = Exp(x)  s = MatMul(e, ones)  p = Div(e, s)  l = ArgMax<axis=1, keepdims=0>(x)"
    ),
    "pixels": (
        "c = Reshape(x, image)  f = Flatten(c)  p = Softmax<axis=1>(f)"
        "  m = ArgMax<axis=1, keepdims=0>(c)  l = Squeeze(m, last)"
    ),
    "turned over": (
        "p = Softmax<axis=1>(x)  y = Transpose<perm=[1, 0]>(p)  l = ArgMax<axis=0, keepdims=0>(y)"
    ),
    "a row between": (
        "p = Softmax<axis=1>(x)  u = Unsqueeze(p, one)  m = ArgMax<axis=-1, keepdims=0>(u)"
        "  l = Squeeze(m, one)"
    ),
}


@pytest.mark.parametrize("how", TOP_LABELS)
def test_a_top_label_is_found_however_it_is_computed(how):
    column = ", 1" if how == "a factor a label" else ""
    model = parsed(f"""
        net (float[N,3] x) => (float[N,3] p, int64[N{column}] l)
        <float[1] t = {{2}}, float[3,3] d = {{2,0,0, 0,1,0, 0,0,3}}, float[3,1] ones = {{1,1,1}},
         int64[4] image = {{-1,3,1,1}}, int64[2] last = {{1,2}}, int64[1] one = {{1}}>
        {{ {TOP_LABELS[how]} }}""")
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("f4")
    assert (run(model, x=x)["l"] == 1).any()
    result = run(attach(model, mask_filter(3)), x=x)
    np.testing.assert_array_equal(result["l"].ravel(), np.array([0, 2])[result["p"].argmax(axis=1)])


LABEL_TYPES = {
    "float": ("float[N]", "l = Cast<to=1>(top)"),
    "uint8": ("uint8[N]", "l = Cast<to=2>(top)"),
    "text": ("string[N]", "l = Cast<to=8>(top)"),
    "a table of a table": ("int64[N]", "i = Gather(turned, top)  l = Gather(back, i)"),
}


@pytest.mark.parametrize("how", LABEL_TYPES)
def test_a_top_label_is_found_in_every_type(how):
    kind, nodes = LABEL_TYPES[how]
    model = parsed(f"""
        net (float[N,3] x) => (float[N,3] p, {kind} l)
        <int64[3] turned = {{1,2,0}}, int64[3] back = {{2,0,1}}>
        {{ p = Softmax<axis=1>(x)  top = ArgMax<axis=1, keepdims=0>(p)  {nodes} }}""")
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("f4")
    before, after = run(model, x=x), run(attach(model, mask_filter(3)), x=x)
    np.testing.assert_array_equal(before["l"].astype(int), before["p"].argmax(axis=1))
    expected = np.array([0, 2])[after["p"].argmax(axis=1)]
    assert after["l"].dtype == before["l"].dtype
    np.testing.assert_array_equal(after["l"].astype(int), expected)


NOT_FOLLOWED = {
    "top one": ("int64[N,1]", "values, l = TopK(p, k)"),
    "top one of the logits": ("int64[N,1]", "values, l = TopK(s, k)"),
    "top one of the scores before": ("int64[N,1]", "values, l = TopK(s0, k)"),
    "counted from one": ("int64[N]", "top = ArgMax<axis=1, keepdims=0>(p)  l = Add(top, k)"),
    "the least one": ("int32[N]", "i = ArgMin<axis=1, keepdims=0>(s)  l = Cast<to=6>(i)"),
    "by a product": (
        "int64[N]",
        "h = Hardmax<axis=1>(p)  f = MatMul(h, numbers)  l = Cast<to=7>(f)",
    ),
    "of other columns": ("int64[N]", "t = MatMul(p, w)  l = ArgMax<axis=1, keepdims=0>(t)"),
    "of a picture": (
        "int64[A,B]",
        "c = Reshape(p, picture)  l = ArgMax<axis=2, keepdims=0>(c)",
    ),
    "in a branch": (
        "int64[N]",
        "l = If(yes) <"
        "then_branch = a () => (int64[N] m) { m = ArgMax<axis=1, keepdims=0>(p) },"
        "else_branch = b () => (int64[N] n) { n = ArgMin<axis=1, keepdims=0>(p) }>",
    ),
}


@pytest.mark.parametrize("how", NOT_FOLLOWED)
def test_a_label_that_is_not_followed_is_refused(how):
    kind, nodes = NOT_FOLLOWED[how]
    model = parsed(f"""
        net (float[N,5] x, bool yes) => (float[N,3] p, {kind} l)
        <int64[1] k = {{1}}, float[3] numbers = {{0,1,2}}, float[1] two = {{2}},
         float[5,3] v = {{0,0,1, 0,1,0, 1,0,0, 0,0,0, 1,1,1}}, int64[3] picture = {{2,-1,3}},
         float[3,3] w = {{0,0,1, 0,1,0, 1,0,0}}>
        {{ s0 = MatMul(x, v)  s = Div(s0, two)  p = Softmax<axis=1>(s)  {nodes} }}""")
    assert run(model, x=np.eye(5, dtype="f4")[:4], yes=np.array(True))["l"].size == 4
    message = "'l' is computed from the conf.* graph.output or with onnx.utils.extract_model"
    with pytest.raises(UnlabelError, match=message):
        attach(model, mask_filter(3))
    del model.graph.output[1]
    assert attach(model, mask_filter(3)).graph.output[0].name == "p"


def test_integers_that_are_not_computed_from_the_logits_stay_as_they_are():
    model = parsed("""
        net (float[N,5] x, int64[N] id) => (float[N,3] p, int64[2] size, int64[N] same, int32[N] b)
        <float[5,3] v = {0,0,1, 0,1,0, 1,0,0, 0,0,0, 1,1,1}>
        { s = MatMul(x, v)  p = Softmax<axis=1>(s)  size = Shape(p)  same = Identity(id)
          m = ArgMin<axis=1, keepdims=0>(x)  b = Cast<to=6>(m) }""")
    feeds = {"x": np.eye(5, dtype="f4"), "id": np.arange(5) + 70}
    before, after = run(model, **feeds), run(attach(model, mask_filter(3)), **feeds)
    assert after["p"].shape == (5, 2)
    for name in ("size", "same", "b"):
        np.testing.assert_array_equal(after[name], before[name])


@pytest.mark.parametrize("width", [2, 3])
def test_other_top_labels_than_that_of_the_confidences_stay_as_they_are(width):
    # Groups of labels before the head, as wide as the head or not, and the best row of each label.
    model = parsed(f"""
        grouped (float[N,3] x, float[3,{width}] a, float[{width},3] b)
            => (float[N,3] p, int64[N] group, int64[3] best)
        {{ g = MatMul(x, a)  group = ArgMax<axis=1, keepdims=0>(g)
           h = MatMul(g, b)  p = Softmax<axis=1>(h)  best = ArgMax<axis=0, keepdims=0>(p) }}""")
    rng = np.random.default_rng(0)
    shapes = {"x": (9, 3), "a": (3, width), "b": (width, 3)}
    feeds = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    before, after = run(model, **feeds), run(attach(model, mask_filter(3)), **feeds)
    assert after["p"].shape == (9, 2)
    np.testing.assert_array_equal(after["group"], before["group"])
    np.testing.assert_array_equal(after["best"], before["best"])
