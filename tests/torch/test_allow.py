"""Labels that each row may have, beside loops over the labels and NumPy."""

# ruff: noqa: E402  (optional libraries are looked for first)
import contextlib
import inspect
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import golden_answers
from golden_answers import GOLDEN, LISTS
from plain_merge import PLAN, SPLITS, assert_close, drawn_rows, expected_of, fitted_filter
from unlabel import OutputFilter, UnlabelError
from unlabel.torch import FilterModule, operator, remove_labels
from unlabel.torch import plain as torch_plain

needs_cuda = pytest.mark.skipif(
    not (torch.cuda.is_available() and operator.has_kernels()), reason="no CUDA device here"
)
compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
ON_DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
OUTPUTS = ("probabilities", "log_probabilities")
SCORES = ("renormalised", "absolute")
PLANS = {"retired": {"a": None, "d": None}, "all kinds": PLAN, "splits": SPLITS}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}


def restricted(rows, allow, scores):
    """Loop over the labels of each row; nothing left is shared equally."""
    results = []
    for row, may in zip(rows.tolist(), allow.tolist(), strict=True):
        kept = [value if is_allowed else 0.0 for value, is_allowed in zip(row, may, strict=True)]
        if scores == "renormalised" and math.fsum(kept) == 0:
            kept = [float(is_allowed) for is_allowed in may]
        total = math.fsum(kept) if scores == "renormalised" else 1.0
        results.append([value / total for value in kept])
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
    st.sampled_from(SCORES),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1.0, 1.7]),
    st.integers(0, 1000),
)
def test_every_form_gives_what_loops_and_numpy_do(
    plan, method, input, output, scores, dtype, temperature, seed
):
    fitted = fitted_filter(plan, 8, method, input=input, temperature=temperature)
    rows = drawn_rows(8, input, dtype, seed)
    allow = drawn_allow(4, len(fitted.classes), seed)
    expected = restricted(expected_of(rows, input, plan, method, temperature), allow, scores)
    in_numpy = fitted.apply(rows.numpy(), allow=allow.numpy(), scores=scores)
    assert_close(torch.tensor(in_numpy), expected, TOLERANCE[dtype])
    options = {"output": output, "scores": scores}
    module = FilterModule(fitted, **options)
    if output == "probabilities":
        np.testing.assert_array_equal(module(rows, allow), in_numpy)
    images, wanted = rows.T.reshape(1, 8, 2, 2), allow.T.reshape(1, -1, 2, 2)
    flags = (-1, input == "logits", output == "log_probabilities")
    forms = [
        torch_plain.filter_rows(rows, module._recipe(), *flags, form, allow, scores == "absolute")
        for form in (torch_plain.jump, torch_plain.walk)
    ]
    for result in (
        module(rows, allow),
        FilterModule(fitted, dim=0, **options)(rows.T, allow.T).T,
        FilterModule(fitted, dim=1, **options)(images, wanted).movedim(1, -1).reshape(4, -1),
        *forms,
    ):
        assert result.dtype == dtype
        assert result.isfinite().all()
        assert_close(result, expected, TOLERANCE[dtype], output)
        lowest = torch.finfo(dtype).min if output == "log_probabilities" else 0.0
        assert (result[~allow] == lowest).all()


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("scores", SCORES)
def test_the_golden_file_of_answers_is_reproduced(scores, output, dtype, form, device):
    module = FilterModule(golden_answers.golden_filter(), output=output, scores=scores).to(device)
    allow = [[label in LISTS[name] for label in module.classes] for name in GOLDEN["lists"]]
    rows = torch.tensor(GOLDEN["rows"], device=device).to(dtype)
    rows.requires_grad_(form == "with a gradient")
    allow = torch.tensor(allow, device=device)
    result = module(rows, allow)
    assert_close(result, GOLDEN[scores], TOLERANCE[dtype], output)
    mass = module.removed_mass(rows)
    np.testing.assert_allclose(
        mass.detach().cpu().double(), GOLDEN["removed_mass"], rtol=0, atol=TOLERANCE[dtype]
    )
    best = result.masked_fill(~allow, -torch.inf).argmax(-1).tolist()
    answers = [
        "unknown" if is_unknown else module.classes[column]
        for is_unknown, column in zip(mass > golden_answers.UNKNOWN_ABOVE, best, strict=True)
    ]
    assert answers == GOLDEN["answers"].tolist()


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", PLANS)
def test_every_type_on_every_device(plan, input, output, dtype, scores, device):
    fitted = fitted_filter(PLANS[plan], input=input, temperature=1.7)
    rows = drawn_rows(8, input, dtype, seed=1, n_rows=30)
    allow = drawn_allow(30, len(fitted.classes))
    expected = restricted(expected_of(rows, input, PLANS[plan], "osr", 1.7), allow, scores)
    # A logarithm that is rounded to 8 bits is far off as a power.
    coarse = {torch.float16: 4e-3, torch.bfloat16: 3e-2} if output == OUTPUTS[1] else {}
    tolerance = coarse.get(dtype, TOLERANCE[dtype])
    module = FilterModule(fitted, output=output, dim=1, scores=scores).to(device)
    images = rows.view(2, 5, 3, 8).movedim(-1, 1).contiguous().to(device)
    may = allow.view(2, 5, 3, -1).movedim(-1, 1).to(device)
    for given_rows in (rows.to(device), rows.to(device).requires_grad_()):
        result = module(given_rows, allow.to(device))
        assert result.dtype == dtype
        assert result.isfinite().all()
        assert (result[~allow.to(device)] == result.min()).all()
        assert_close(result, expected, tolerance, output)
    result = module(images, may)
    assert result.is_contiguous()
    assert_close(result.movedim(1, -1).reshape(30, -1), expected, tolerance, output)


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("input", ["probabilities", "logits", "far logits"])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_labels_that_have_nothing_share_a_row_equally(
    temperature, input, dtype, output, form, device
):
    plan = {"b": None, "g": "h"}
    kind = "probabilities" if input == "probabilities" else "logits"
    fitted = fitted_filter(plan, method="mask", input=kind, temperature=temperature)
    rows = torch.eye(8, dtype=dtype)
    if kind == "logits":
        rows = rows.log() if input == "logits" else 1e4 * rows - torch.arange(8.0, dtype=dtype)
    allow = torch.tensor([[False, True, True, False, False, True]]).expand(8, 6)
    rows = rows[[0, 4, 5, 6]].to(device).requires_grad_(form == "with a gradient")
    allow = allow[[0, 4, 5, 6]].to(device)
    module = FilterModule(fitted, output=output).to(device)
    result = module(rows, allow)
    third, whole = [0, 1 / 3, 1 / 3, 0, 0, 1 / 3], [0, 0, 0, 0, 0, 1]
    assert_close(result, [third, third, third, whole], TOLERANCE[dtype], output)
    if rows.requires_grad:
        (result * torch.arange(6, device=device)).clamp(min=-100).sum().backward()
        assert rows.grad.isfinite().all()
    absolute = FilterModule(fitted, output=output, scores="absolute").to(device)(rows, allow)
    assert_close(absolute, [[0] * 6] * 3 + [whole], TOLERANCE[dtype], output)
    if device == "cpu":
        in_numpy = fitted.apply(rows.detach().numpy(), allow=allow.numpy())
        assert_close(result, in_numpy, TOLERANCE[dtype], output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_little_is_still_told_apart(dtype):
    rows = torch.tensor([[20.0, -5.0, -6.0, 0.0]], dtype=dtype)  # 1e-11, which float16 lacks
    fitted = OutputFilter.mask([*"abcd"], [], input="logits")
    allow = torch.tensor([False, True, True, False])
    more = 1 / (1 + math.exp(-1))
    result = FilterModule(fitted)(rows, allow)
    assert_close(result, [[0, more, 1 - more, 0]], TOLERANCE[dtype])


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_rows_that_are_not_valid_or_allowed_nothing_are_nan(output, form, scores, device):
    fitted = fitted_filter(PLAN)
    rows = drawn_rows(8, "probabilities", torch.float32, seed=7).to(device)
    rows[0, 2] = torch.nan
    allow = drawn_allow(4, len(fitted.classes)).to(device)
    allow[2] = False
    module = FilterModule(fitted, output=output, scores=scores).to(device)
    bad = module(rows.requires_grad_(form == "with a gradient"), allow).isnan()
    assert bad.all(1).tolist() == bad.any(1).tolist() == [True, False, True, False]


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", PLANS)
def test_gradients_are_those_of_finite_differences(plan, input, output, scores):
    fitted = fitted_filter(PLANS[plan], input=input, temperature=1.7)
    allow = drawn_allow(4, len(fitted.classes))
    module = FilterModule(fitted, output=output, scores=scores)
    rows = drawn_rows(8, input, torch.float64, seed=2)
    rows = rows if input == "logits" else (rows + 1 / 8) / 2  # far from 0, as steps are finite
    rows.requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: module(rows, allow)[allow], rows)


@compilers_own_warnings
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # its advice on speed
@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("plan", PLANS)
def test_compiled_and_mapped_the_result_is_the_same(plan, scores, device):
    fitted = fitted_filter(PLANS[plan], input="logits")
    module = FilterModule(fitted, scores=scores).to(device)
    rows = drawn_rows(8, "logits", torch.float32, seed=3, n_rows=60).to(device)
    allow = drawn_allow(60, len(fitted.classes)).to(device)
    expected = module(rows, allow)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows, allow), expected)
    assert torch.equal(compiled(rows, allow=allow[0]), module(rows, allow[0]))
    parts = torch.vmap(module)(rows.view(4, 15, 8), allow.view(4, 15, -1))
    assert torch.equal(parts.flatten(0, 1), expected)
    assert torch.equal(torch.vmap(module)(rows, allow), expected)
    first = [module(rows[:1], each)[0] for each in allow]
    assert torch.equal(torch.vmap(module, in_dims=(None, 0))(rows[0], allow), torch.stack(first))
    every = torch.vmap(module, in_dims=(0, None))(rows, allow[0])
    assert torch.equal(every, module(rows, allow[0]))
    assert module(rows[:0], allow[:0]).shape == (0, len(fitted.classes))


@compilers_own_warnings
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_compiled_and_per_row_the_gradients_are_the_same(output, scores):
    fitted = fitted_filter(PLAN, input="logits", temperature=1.7)
    module = FilterModule(fitted, output=output, scores=scores)
    rows = drawn_rows(8, "logits", torch.float64, seed=4).requires_grad_()
    allow = drawn_allow(4, len(fitted.classes))
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
    fitted = fitted_filter(PLAN, input="logits", temperature=1.7)
    module = FilterModule(fitted, output=output)
    rows = drawn_rows(8, "logits", torch.float64, seed=5, n_rows=7)
    allow = drawn_allow(7, len(fitted.classes))
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(
        module, (rows[:2], allow[:2]), dynamic_shapes=(batch, batch), strict=strict
    )
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    targets = {str(node.target) for graph in graphs for node in graph.nodes}
    assert not any(target.startswith("unlabel") for target in targets)
    expected = restricted(expected_of(rows, "logits", PLAN, "osr", 1.7), allow, "renormalised")
    assert_close(exported.module()(rows, allow), expected, 1e-12, output)


def test_an_exported_segmentation_takes_any_size_and_one_list_per_image():
    fitted = fitted_filter(PLAN, input="logits")
    module = FilterModule(fitted, dim=1)
    images = drawn_rows(8, "logits", torch.float64, 6, n_rows=24).view(2, 3, 4, 8).movedim(-1, 1)
    allow = drawn_allow(2, len(fitted.classes))[:, :, None, None]
    Dim = torch.export.Dim
    sizes = ({0: Dim("batch"), 2: Dim("height"), 3: Dim("width")}, {0: Dim("batch")})
    exported = torch.export.export(module, (images, allow), dynamic_shapes=sizes).module()
    for batch in (images, images[:, :, :2].repeat(1, 1, 1, 3)):
        result = exported(batch, allow)
        torch.testing.assert_close(result, module(batch, allow))
        whole = allow.expand(result.shape)
        assert (result[~whole] == 0).all()
        torch.testing.assert_close(module(batch, whole), module(batch, allow))


def test_the_operator_passes_the_checks_of_pytorch():
    fitted = fitted_filter(PLAN, input="logits", temperature=1.7)
    rows = drawn_rows(8, "logits", torch.float64, seed=6).requires_grad_()
    allow = drawn_allow(4, len(fitted.classes))
    recipe = operator.taken_apart(FilterModule(fitted)._recipe())
    torch.library.opcheck(operator.operator, (rows, allow, *recipe, -1, True, False, True))


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("output", OUTPUTS)
def test_what_the_kernels_give_is_restricted(monkeypatch, output, dtype, scores):
    def stand_in(rows, n_retained, dim, logits, log_output, *arrays):
        assert (rows.dtype, len(arrays), log_output) == (torch.float32, 4, True)
        options = (dim, logits, log_output, torch_plain.jump)
        return torch_plain.filter_rows(rows, torch_plain.Recipe(n_retained, *arrays), *options)

    kernels = SimpleNamespace(filter_rows=stand_in)
    monkeypatch.setattr("unlabel.torch.kernels", kernels, raising=False)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr("unlabel.torch.module.filter_rows", operator._in_kernels)
    for plan in PLANS.values():
        fitted = fitted_filter(plan, input="logits", temperature=1.7)
        rows = drawn_rows(8, "logits", dtype, seed=13)
        allow = drawn_allow(4, len(fitted.classes))
        result = FilterModule(fitted, output=output, dim=0, scores=scores)(rows.T, allow.T).T
        assert result.dtype == dtype
        tolerance = 4e-3 if dtype == torch.float16 else 1e-6
        expected = restricted(expected_of(rows, "logits", plan, "osr", 1.7), allow, scores)
        assert_close(result, expected, tolerance, output)


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_on_a_gpu_nothing_waits_for_the_device(dtype):
    fitted = fitted_filter(PLAN, input="logits", temperature=1.7)
    module = FilterModule(fitted).cuda()
    rows = drawn_rows(8, "logits", dtype, seed=8, n_rows=100).cuda()
    allow = drawn_allow(100, len(fitted.classes)).cuda()
    expected = module(rows, allow)  # compiled before it counts: loading code waits for the device
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = module(rows, allow)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(result, expected)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 6), (3, 1, 6), (3, 5, 6), (1, 1, 6)])
def test_allowed_labels_broadcast_to_the_result(shape):
    fitted = OutputFilter.mask(range(8), [0, 1])
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
    module = FilterModule(OutputFilter.mask(range(8), [0, 1]), dim=dim)
    with pytest.raises(UnlabelError) as caught:
        module(rows, torch.ones(shape, dtype=torch.bool))
    assert str(caught.value) == (
        f"The allowed labels have the shape {shape} and the result has {result}: give a shape that "
        f"broadcasts to it, with the 6 labels along dimension {dim - 3 if dim > 0 else dim}."
    )


def test_allowed_labels_are_booleans():
    module = FilterModule(OutputFilter.mask(range(3), [0]))
    rows = torch.full((2, 3), 1 / 3)
    for allow, kind in ((torch.ones(2), "torch.float32"), ([True, True], "list"), (["a"], "list")):
        with pytest.raises(UnlabelError, match=f"allowed labels are {kind}: give a boolean tensor"):
            module(rows, allow)
    with pytest.raises(UnlabelError, match="scores='relative' is not known: use one of 'renorm"):
        FilterModule(OutputFilter.mask(range(3), [0]), scores="relative")


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
    fitted = fitted_filter(PLAN, input="logits")
    rows = drawn_rows(8, "logits", torch.float64, seed=10)
    allow = drawn_allow(4, len(fitted.classes))
    for scores in SCORES:
        filtered = remove_labels(model, fitted, scores=scores)
        expected = FilterModule(fitted, scores=scores)(rows, allow)
        assert torch.equal(filtered(rows, allow=allow), expected)
        assert torch.equal(filtered(rows), FilterModule(fitted)(rows))


def test_a_models_own_allow_goes_to_the_model():
    fitted = OutputFilter.mask(range(3), [0], input="logits")
    filtered = remove_labels(WithAllow(), fitted)
    assert inspect.signature(filtered.forward) == inspect.signature(WithAllow().forward)
    rows = torch.zeros(2, 3)
    for result in (filtered(rows, torch.tensor(1.0)), filtered(rows, allow=torch.tensor(1.0))):
        assert_close(result, [[0.5, 0.5]] * 2, 1e-7)


def test_an_exported_model_takes_the_allowed_labels_by_name():
    fitted = OutputFilter.mask(range(8), [0, 1], input="logits")
    filtered = remove_labels(torch.nn.Linear(4, 8), fitted)
    inputs, allow = torch.rand(2, 4), drawn_allow(2, 6)
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(
        filtered, (inputs,), {"allow": allow}, dynamic_shapes={"input": batch, "allow": batch}
    ).module()
    inputs, allow = torch.rand(5, 4), drawn_allow(5, 6)
    torch.testing.assert_close(exported(inputs, allow=allow), filtered(inputs, allow=allow))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TorchScript is on its way out
def test_a_model_of_torchscript_takes_the_allowed_labels():
    fitted = OutputFilter.mask(range(8), [0, 1], input="logits")
    model = torch.nn.Linear(4, 8)
    inputs, allow = torch.rand(5, 4), drawn_allow(5, 6)
    expected = remove_labels(model, fitted)(inputs, allow=allow)
    scripted = remove_labels(torch.jit.script(model), fitted)
    torch.testing.assert_close(scripted(inputs, allow=allow), expected)
