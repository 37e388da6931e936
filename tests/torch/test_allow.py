"""Labels that each row may have, beside loops over the labels and NumPy."""

# ruff: noqa: E402  (optional libraries are looked for first)
import inspect
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import doors
import golden_answers
from golden_answers import GOLDEN, LISTS
from plain_merge import PLAN, SPLITS, assert_close, drawn_rows, expected_of, fitted_filter
from unlabel import UnlabelError
from unlabel.torch import FilterModule, attach

compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
OUTPUTS = ("probabilities", "log_probabilities")
PLANS = {"removed": {"a": None, "d": None}, "all kinds": PLAN, "splits": SPLITS}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}


def restricted(rows, allow):
    """Loop over the labels of each row; nothing left is shared equally."""
    results = []
    for row, may in zip(rows.tolist(), allow.tolist(), strict=True):
        kept = [value if is_allowed else 0.0 for value, is_allowed in zip(row, may, strict=True)]
        if math.fsum(kept) == 0:
            kept = [float(is_allowed) for is_allowed in may]
        results.append([value / math.fsum(kept) for value in kept])
    return np.array(results)


def drawn_allow(n_rows, n_labels, seed=0):
    allow = np.random.default_rng(seed).random((n_rows, n_labels)) < 0.5
    allow[np.arange(n_rows), np.random.default_rng(seed).integers(n_labels, size=n_rows)] = True
    return torch.tensor(allow)


@given(
    st.sampled_from([*PLANS.values()]),
    st.sampled_from(["osr", "mask"]),
    st.sampled_from(["probabilities", "logits"]),
    st.sampled_from(OUTPUTS),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1.0, 1.7]),
    st.integers(0, 1000),
)
def test_every_form_gives_what_loops_and_numpy_do(
    plan, method, kind, output, dtype, temperature, seed
):
    fitted = fitted_filter(plan, 8, method, kind=kind, temperature=temperature)
    rows = drawn_rows(8, kind, dtype, seed)
    allow = drawn_allow(4, len(fitted.classes_out), seed)
    expected = restricted(expected_of(rows, kind, plan, method, temperature), allow)
    module = FilterModule(fitted, output=output)
    if output == "probabilities":
        in_numpy = fitted.apply(rows.numpy(), allow=allow.numpy())
        np.testing.assert_array_equal(module(rows, allow), in_numpy)
    images, wanted = rows.T.reshape(1, 8, 2, 2), allow.T.reshape(1, -1, 2, 2)
    for result in (
        module(rows, allow),
        FilterModule(fitted, output=output, dim=0)(rows.T, allow.T).T,
        FilterModule(fitted, output=output, dim=1)(images, wanted).movedim(1, -1).reshape(4, -1),
        module(rows.clone().requires_grad_(), allow).detach(),
    ):
        assert result.dtype == dtype
        assert result.isfinite().all()
        assert_close(result, expected, TOLERANCE[dtype], output)
        lowest = torch.finfo(dtype).min if output == "log_probabilities" else 0.0
        assert (result[~allow] == lowest).all()


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
def test_the_golden_file_of_answers_is_reproduced(output, dtype, form):
    module = FilterModule(golden_answers.golden_filter(), output=output)
    allow = [[label in LISTS[name] for label in module.classes_out] for name in GOLDEN["lists"]]
    rows = torch.tensor(GOLDEN["rows"]).to(dtype)
    rows.requires_grad_(form == "with a gradient")
    allow = torch.tensor(allow)
    result = module(rows, allow)
    assert_close(result, GOLDEN["renormalised"], TOLERANCE[dtype], output)
    mass = module.removed_mass(rows)
    np.testing.assert_allclose(
        mass.detach().cpu().double(), GOLDEN["removed_mass"], rtol=0, atol=TOLERANCE[dtype]
    )
    best = result.masked_fill(~allow, -torch.inf).argmax(-1).tolist()
    answers = [
        "unknown" if is_unknown else module.classes_out[column]
        for is_unknown, column in zip(mass > golden_answers.UNKNOWN_ABOVE, best, strict=True)
    ]
    assert answers == GOLDEN["answers"].tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", PLANS)
def test_every_type(plan, kind, output, dtype):
    fitted = fitted_filter(PLANS[plan], kind=kind, temperature=1.7)
    rows = drawn_rows(8, kind, dtype, seed=1, n_rows=30)
    allow = drawn_allow(30, len(fitted.classes_out))
    expected = restricted(expected_of(rows, kind, PLANS[plan], "osr", 1.7), allow)
    # A logarithm that is rounded to 8 bits is far off as a power.
    coarse = {torch.float16: 4e-3, torch.bfloat16: 3e-2} if output == OUTPUTS[1] else {}
    tolerance = coarse.get(dtype, TOLERANCE[dtype])
    module = FilterModule(fitted, output=output, dim=1)
    images = rows.view(2, 5, 3, 8).movedim(-1, 1).contiguous()
    may = allow.view(2, 5, 3, -1).movedim(-1, 1)
    for given_rows in (rows, rows.requires_grad_()):
        result = module(given_rows, allow)
        assert result.dtype == dtype
        assert result.isfinite().all()
        assert (result[~allow] == result.min()).all()
        assert_close(result, expected, tolerance, output)
    result = module(images, may)
    assert result.is_contiguous()
    assert_close(result.movedim(1, -1).reshape(30, -1), expected, tolerance, output)


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["probabilities", "logits", "far logits"])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_labels_that_have_nothing_share_a_row_equally(temperature, kind, dtype, output, form):
    plan = {"b": None, "g": "h"}
    kind = "probabilities" if kind == "probabilities" else "logits"
    fitted = fitted_filter(plan, method="mask", kind=kind, temperature=temperature)
    rows = torch.eye(8, dtype=dtype)
    if kind == "logits":
        rows = rows.log() if kind == "logits" else 1e4 * rows - torch.arange(8.0, dtype=dtype)
    allow = torch.tensor([[False, True, True, False, False, True]]).expand(8, 6)
    rows = rows[[0, 4, 5, 6]].requires_grad_(form == "with a gradient")
    allow = allow[[0, 4, 5, 6]]
    module = FilterModule(fitted, output=output)
    result = module(rows, allow)
    third, whole = [0, 1 / 3, 1 / 3, 0, 0, 1 / 3], [0, 0, 0, 0, 0, 1]
    assert_close(result, [third, third, third, whole], TOLERANCE[dtype], output)
    if rows.requires_grad:
        (result * torch.arange(6)).clamp(min=-100).sum().backward()
        assert rows.grad.isfinite().all()
    in_numpy = fitted.apply(rows.detach().numpy(), allow=allow.numpy())
    assert_close(result, in_numpy, TOLERANCE[dtype], output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_little_is_still_told_apart(dtype):
    rows = torch.tensor([[20.0, -5.0, -6.0, 0.0]], dtype=dtype)  # 1e-11, which float16 lacks
    fitted = doors.mask([*"abcd"], [], kind="logits")
    allow = torch.tensor([False, True, True, False])
    more = 1 / (1 + math.exp(-1))
    result = FilterModule(fitted)(rows, allow)
    assert_close(result, [[0, more, 1 - more, 0]], TOLERANCE[dtype])


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_rows_that_are_not_valid_or_allowed_nothing_are_nan(output, form):
    fitted = fitted_filter(PLAN)
    rows = drawn_rows(8, "probabilities", torch.float32, seed=7)
    rows[0, 2] = torch.nan
    allow = drawn_allow(4, len(fitted.classes_out))
    allow[2] = False
    module = FilterModule(fitted, output=output)
    bad = module(rows.requires_grad_(form == "with a gradient"), allow).isnan()
    assert bad.all(1).tolist() == bad.any(1).tolist() == [True, False, True, False]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", PLANS)
def test_gradients_are_those_of_finite_differences(plan, kind, output):
    fitted = fitted_filter(PLANS[plan], kind=kind, temperature=1.7)
    allow = drawn_allow(4, len(fitted.classes_out))
    module = FilterModule(fitted, output=output)
    rows = drawn_rows(8, kind, torch.float64, seed=2)
    rows = rows if kind == "logits" else (rows + 1 / 8) / 2  # far from 0, as steps are finite
    rows.requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: module(rows, allow)[allow], rows)


@compilers_own_warnings
@pytest.mark.parametrize("plan", PLANS)
def test_compiled_and_mapped_the_result_is_the_same(plan):
    fitted = fitted_filter(PLANS[plan], kind="logits")
    module = FilterModule(fitted)
    rows = drawn_rows(8, "logits", torch.float32, seed=3, n_rows=60)
    allow = drawn_allow(60, len(fitted.classes_out))
    expected = module(rows, allow)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows, allow), expected)
    assert torch.equal(compiled(rows, allow=allow[0]), module(rows, allow[0]))
    parts = torch.vmap(module)(rows.view(4, 15, 8), allow.view(4, 15, -1))
    torch.testing.assert_close(parts.flatten(0, 1), expected)
    torch.testing.assert_close(torch.vmap(module)(rows, allow), expected)
    first = torch.vmap(module, in_dims=(None, 0))(rows[0], allow)
    torch.testing.assert_close(first, torch.stack([module(rows[0], each) for each in allow]))
    every = torch.vmap(module, in_dims=(0, None))(rows, allow[0])
    torch.testing.assert_close(every, module(rows, allow[0]))
    assert module(rows[:0], allow[:0]).shape == (0, len(fitted.classes_out))


@compilers_own_warnings
@pytest.mark.parametrize("output", OUTPUTS)
def test_compiled_and_per_row_the_gradients_are_the_same(output):
    fitted = fitted_filter(PLAN, kind="logits", temperature=1.7)
    module = FilterModule(fitted, output=output)
    rows = drawn_rows(8, "logits", torch.float64, seed=4).requires_grad_()
    allow = drawn_allow(4, len(fitted.classes_out))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")

    def loss(result, may):
        return result.masked_fill(~may, 0.0).square().sum()

    gradients = [
        torch.autograd.grad(loss(form(rows, allow), allow), rows)[0] for form in (module, compiled)
    ]
    per_row = torch.func.grad(lambda row, may: loss(module(row, may), may))
    gradients.append(torch.vmap(per_row)(rows.detach(), allow))
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=1e-12)
    assert gradients[0].abs().sum() > 0


@compilers_own_warnings
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("output", OUTPUTS)
def test_what_is_exported_runs_without_unlabel_for_any_batch(output, strict):
    fitted = fitted_filter(PLAN, kind="logits", temperature=1.7)
    module = FilterModule(fitted, output=output)
    rows = drawn_rows(8, "logits", torch.float64, seed=5, n_rows=7)
    allow = drawn_allow(7, len(fitted.classes_out))
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(
        module, (rows[:2], allow[:2]), dynamic_shapes=(batch, batch), strict=strict
    )
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    targets = {str(node.target) for graph in graphs for node in graph.nodes}
    assert not any(target.startswith("unlabel") for target in targets)
    expected = restricted(expected_of(rows, "logits", PLAN, "osr", 1.7), allow)
    assert_close(exported.module()(rows, allow), expected, 1e-12, output)


def test_an_exported_segmentation_takes_any_size_and_one_list_per_image():
    fitted = fitted_filter(PLAN, kind="logits")
    module = FilterModule(fitted, dim=1)
    images = drawn_rows(8, "logits", torch.float64, 6, n_rows=24).view(2, 3, 4, 8).movedim(-1, 1)
    allow = drawn_allow(2, len(fitted.classes_out))[:, :, None, None]
    Dim = torch.export.Dim
    sizes = ({0: Dim("batch"), 2: Dim("height"), 3: Dim("width")}, {0: Dim("batch")})
    exported = torch.export.export(module, (images, allow), dynamic_shapes=sizes).module()
    for batch in (images, images[:, :, :2].repeat(1, 1, 1, 3)):
        result = exported(batch, allow)
        torch.testing.assert_close(result, module(batch, allow))
        whole = allow.expand(result.shape)
        assert (result[~whole] == 0).all()
        torch.testing.assert_close(module(batch, whole), module(batch, allow))


@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 6), (3, 1, 6), (3, 5, 6), (1, 1, 6)])
def test_allowed_labels_broadcast_to_the_result(shape):
    fitted = doors.mask(range(8), [0, 1])
    rows = drawn_rows(8, "probabilities", torch.float64, seed=9, n_rows=15).view(3, 5, 8)
    allow = drawn_allow(math.prod(shape[:-1]), 6).view(shape)
    every = np.broadcast_to(allow.numpy(), (3, 5, 6)).copy()
    expected = fitted.apply(rows.numpy(), allow=every)
    np.testing.assert_array_equal(FilterModule(fitted)(rows, allow), expected)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((8,), -1),
        ((1,), -1),
        ((), -1),
        ((2, 6), -1),
        ((2, 3, 5, 6), -1),
        ((3, 6, 5), -1),
        ((6,), 1),  # along the last dimension, which may be as long
        ((3, 6), 1),
        ((3, 1, 6), 1),
    ],
    ids=str,
)
def test_allowed_labels_of_another_shape_are_refused(shape, dim):
    rows = drawn_rows(8, "probabilities", torch.float32, seed=9, n_rows=15).view(3, 5, 8)
    rows = rows if dim == -1 else rows.movedim(-1, 1)
    result = (3, 5, 6) if dim == -1 else (3, 6, 5)
    module = FilterModule(doors.mask(range(8), [0, 1]), dim=dim)
    with pytest.raises(UnlabelError) as caught:
        module(rows, torch.ones(shape, dtype=torch.bool))
    assert str(caught.value) == (
        f"The allowed labels have the shape {shape} and the result has {result}: give a shape that "
        f"broadcasts to it, with the 6 labels along dimension {dim - 3 if dim > 0 else dim} "
        "(allow=)."
    )


def test_allowed_labels_are_booleans():
    module = FilterModule(doors.mask(range(3), [0]))
    rows = torch.full((2, 3), 1 / 3)
    for allow, kind in ((torch.ones(2), "torch.float32"), ([True, True], "list"), (["a"], "list")):
        with pytest.raises(UnlabelError, match=f"allowed labels are {kind}: give a boolean tensor"):
            module(rows, allow)


# Models


class WithAllow(torch.nn.Module):
    def forward(self, rows, allow=None):
        return rows if allow is None else rows + allow


class WithOptions(torch.nn.Module):
    def forward(self, rows, **options):
        assert not options
        return rows


@pytest.mark.parametrize("model", [torch.nn.Identity(), WithOptions()])
def test_a_filtered_model_takes_the_allowed_labels(model):
    fitted = fitted_filter(PLAN, kind="logits")
    rows = drawn_rows(8, "logits", torch.float64, seed=10)
    allow = drawn_allow(4, len(fitted.classes_out))
    filtered = attach(model, fitted)
    assert torch.equal(filtered(rows, allow=allow), FilterModule(fitted)(rows, allow))
    assert torch.equal(filtered(rows), FilterModule(fitted)(rows))


def test_a_models_own_allow_goes_to_the_model():
    fitted = doors.mask(range(3), [0], kind="logits")
    filtered = attach(WithAllow(), fitted)
    assert inspect.signature(filtered.forward) == inspect.signature(WithAllow().forward)
    rows = torch.zeros(2, 3)
    for result in (filtered(rows, torch.tensor(1.0)), filtered(rows, allow=torch.tensor(1.0))):
        assert_close(result, [[0.5, 0.5]] * 2, 1e-7)


def test_an_exported_model_takes_the_allowed_labels_by_name():
    fitted = doors.mask(range(8), [0, 1], kind="logits")
    filtered = attach(torch.nn.Linear(4, 8), fitted)
    inputs, allow = torch.rand(2, 4), drawn_allow(2, 6)
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(
        filtered, (inputs,), {"allow": allow}, dynamic_shapes={"input": batch, "allow": batch}
    ).module()
    inputs, allow = torch.rand(5, 4), drawn_allow(5, 6)
    torch.testing.assert_close(exported(inputs, allow=allow), filtered(inputs, allow=allow))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript is on its way out
def test_a_model_of_torchscript_takes_the_allowed_labels():
    fitted = doors.mask(range(8), [0, 1], kind="logits")
    model = torch.nn.Linear(4, 8)
    inputs, allow = torch.rand(5, 4), drawn_allow(5, 6)
    expected = attach(model, fitted)(inputs, allow=allow)
    scripted = attach(torch.jit.script(model), fitted)
    torch.testing.assert_close(scripted(inputs, allow=allow), expected)
