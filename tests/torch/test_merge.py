"""Labels that are merged, renamed and split, beside loops over labels and a dense matrix."""

# ruff: noqa: E402  (optional libraries are looked for first)
import contextlib
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from plain_merge import (
    LABELS,
    PLAN,
    SPLITS,
    assert_close,
    dense,
    drawn_rows,
    expected_of,
    fitted_filter,
)
from plain_plan import result_labels
from unlabel import OutputFilter
from unlabel.torch import FilterModule, operator
from unlabel.torch import plain as torch_plain

needs_cuda = pytest.mark.skipif(
    not (torch.cuda.is_available() and operator.has_kernels()), reason="no CUDA device here"
)
compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
ON_DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
OUTPUTS = ("probabilities", "log_probabilities")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}


@st.composite
def plans(draw):
    n = draw(st.integers(2, 8))
    labels = LABELS[:n]
    retired = draw(st.permutations(labels))[: draw(st.integers(0, n - 1))]
    staying = [label for label in labels if label not in retired]
    destination = st.sampled_from([*staying, "x", "y", "other"])
    weights = st.lists(st.integers(1, 5), min_size=2, max_size=4)
    plan = dict.fromkeys(retired)
    for label in draw(st.permutations(staying)):
        kind = draw(st.sampled_from(["stays", "goes", "is split"]))
        if kind == "goes":
            plan[label] = draw(destination)
        elif kind == "is split":
            parts = draw(weights)
            to = draw(st.lists(destination, min_size=1, max_size=len(parts), unique=True))
            given = parts[: len(to)]
            plan[label] = {name: part / sum(given) for name, part in zip(to, given, strict=True)}
    return n, plan


@given(
    plans(),
    st.sampled_from(["osr", "mask"]),
    st.sampled_from(["probabilities", "logits"]),
    st.sampled_from(OUTPUTS),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1.0, 1.7, 0.6]),
    st.integers(0, 1000),
)
def test_every_form_gives_what_loops_over_the_labels_do(
    case, method, input, output, dtype, temperature, seed
):
    n, plan = case
    fitted = fitted_filter(plan, n, method, input=input, temperature=temperature)
    rows = drawn_rows(n, input, dtype, seed)
    expected = expected_of(rows, input, plan, method, temperature)
    module = FilterModule(fitted, output=output, dim=-1)
    assert module.classes == tuple(result_labels(plan, LABELS[:n]))
    options = (-1, input == "logits", output == "log_probabilities")
    for result in (
        module(rows),
        FilterModule(fitted, output=output, dim=0)(rows.T).T,
        FilterModule(fitted, output=output, dim=1)(rows.T.view(1, n, 2, 2)).movedim(1, -1)[0],
        *(
            torch_plain.filter_rows(rows, module._recipe(), *options, f)
            for f in (torch_plain.jump, torch_plain.walk)
        ),
    ):
        assert result.dtype == dtype
        assert_close(result.reshape(len(rows), -1), expected, TOLERANCE[dtype], output)


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_every_type_on_every_device(plan, input, output, dtype, temperature, device):
    fitted = fitted_filter(plan, input=input, temperature=temperature)
    module = FilterModule(fitted, output=output).to(device)
    rows = drawn_rows(8, input, dtype, seed=1, n_rows=30)
    expected = expected_of(rows, input, plan, "osr", temperature)
    # A logarithm that is rounded to 8 bits is far off as a power.
    coarse = {torch.float16: 4e-3, torch.bfloat16: 3e-2} if output == OUTPUTS[1] else {}
    tolerance = coarse.get(dtype, TOLERANCE[dtype])
    images = rows.view(2, 5, 3, 8).movedim(-1, 1).contiguous().to(device)
    result = module(rows.to(device))
    assert result.dtype == dtype
    assert_close(result, expected, tolerance, output)
    result = FilterModule(fitted, output=output, dim=1).to(device)(images)
    assert result.is_contiguous()
    assert_close(result.movedim(1, -1).reshape(30, -1), expected, tolerance, output)


def test_a_split_may_give_more_labels_than_the_model_has():
    fitted = OutputFilter.mask(["a", "b"], {"a": {"x": 0.5, "y": 0.5}, "b": {"z": 0.25, "u": 0.75}})
    module = FilterModule(fitted)
    assert module.classes == ("x", "y", "z", "u")
    assert "2 probabilities -> 4 probabilities" in repr(module)
    assert_close(module(torch.tensor([[0.2, 0.8]])), [[0.1, 0.1, 0.2, 0.6]], 1e-7)


def test_renamed_and_swapped_labels_keep_their_numbers():
    fitted = OutputFilter.mask(LABELS[:3], {"a": "b", "b": "a", "c": "new"})
    module = FilterModule(fitted)
    assert module.classes == ("b", "a", "new")
    assert "sources" not in module.state_dict()
    rows = torch.tensor([[0.5, 0.3, 0.2]])
    torch.testing.assert_close(module(rows), rows)


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_logarithm_is_lost_far_below_the_others(dtype, temperature, form):
    plan = {"a": "low", "b": "low", "c": "high", "d": {"high": 0.5, "tiny": 0.5}}
    fitted = OutputFilter.mask(LABELS[:4], plan, input="logits")
    module = FilterModule(replace(fitted, temperature=temperature), output="log_probabilities")
    rows = torch.tensor([[-2000.0, -2001.0, 5.0, -300.0]], dtype=dtype)
    result = module(rows.requires_grad_(form == "with a gradient"))
    low = -2000 + math.log1p(math.exp(-1))
    expected = [(value - 5) / temperature for value in (low, 5, -300 + math.log(0.5))]
    np.testing.assert_allclose(result.detach()[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_gradients_are_those_of_a_dense_matrix(plan, input, output, temperature, device):
    fitted = fitted_filter(plan, input=input, temperature=temperature)
    retiring = fitted_filter({x: to for x, to in plan.items() if to is None}, input=input)
    rows = drawn_rows(8, input, torch.float64, seed=2).to(device).requires_grad_()
    matrix = torch.tensor(dense(plan, LABELS), device=device)
    sums = FilterModule(retiring).to(device)(rows) @ matrix
    logs = (sums.log() / temperature).log_softmax(-1)
    reference = logs if output == "log_probabilities" else logs.exp()
    result = FilterModule(fitted, output=output).to(device)(rows)
    wanted = torch.arange(result.shape[-1], device=device) + result.detach().cos()
    expected, found = (
        torch.autograd.grad((each * wanted).sum(), rows)[0] for each in (reference, result)
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert expected.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("method", ["osr", "mask"])
def test_saturated_rows_have_finite_results_and_gradients(method, input, output, dtype):
    one_hot = torch.eye(8, dtype=dtype)
    rows = one_hot
    if input == "logits":
        rows = torch.vstack([90 * one_hot, 1e6 * one_hot, one_hot.log(), -1e4 * one_hot])
    rows.requires_grad_()
    result = FilterModule(fitted_filter(PLAN, method=method, input=input), output=output)(rows)
    assert result.isfinite().all()
    (result * torch.arange(result.shape[1])).clamp(min=-100).sum().backward()
    assert rows.grad.isfinite().all()


@compilers_own_warnings
def test_forward_mode_works_where_no_label_is_retired():
    fitted = OutputFilter.mask(LABELS, {"b": "c", "g": {"x": 0.5, "y": 0.5}}, input="logits")
    module = FilterModule(fitted)
    rows, step = (drawn_rows(8, "logits", torch.float64, seed) for seed in (1, 2))
    slope = torch.func.jvp(module, (rows,), (step,))[1]
    nearby = (module(rows + 1e-6 * step) - module(rows - 1e-6 * step)) / 2e-6
    torch.testing.assert_close(slope, nearby, rtol=0, atol=1e-8)


@compilers_own_warnings
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # its advice on speed
@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("input", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_compiled_mapped_and_reshaped_the_result_is_the_same(plan, input, device):
    module = FilterModule(fitted_filter(plan, input=input)).to(device)
    rows = drawn_rows(8, input, torch.float32, seed=3, n_rows=60).to(device)
    expected = module(rows)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), expected)
    assert torch.equal(torch.vmap(module)(rows.view(4, 15, 8)).flatten(0, 1), expected)
    assert torch.equal(module(rows.view(4, 15, 8)).flatten(0, 1), expected)
    assert torch.equal(module(rows.T.contiguous().T), expected)
    assert module(rows[:0]).shape == (0, len(module.classes))


@compilers_own_warnings
@pytest.mark.parametrize("output", OUTPUTS)
def test_compiled_and_per_row_the_gradients_are_the_same(output):
    module = FilterModule(fitted_filter(PLAN, input="logits", temperature=1.7), output=output)
    rows = drawn_rows(8, "logits", torch.float64, seed=4).requires_grad_()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    gradients = [
        torch.autograd.grad(form(rows).square().sum(), rows)[0] for form in (module, compiled)
    ]
    per_row = torch.func.grad(lambda row: module(row).square().sum())
    gradients.append(torch.vmap(per_row)(rows.detach()))
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=1e-12)


@compilers_own_warnings
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("output", OUTPUTS)
def test_what_is_exported_runs_without_unlabel_for_any_batch(output, strict):
    module = FilterModule(fitted_filter(PLAN, input="logits", temperature=1.7), output=output)
    rows = drawn_rows(8, "logits", torch.float64, seed=5, n_rows=7)
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(module, (rows[:2],), dynamic_shapes=sizes, strict=strict)
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    targets = {str(node.target) for graph in graphs for node in graph.nodes}
    assert "aten.logsumexp.default" in targets
    assert not any(target.startswith("unlabel") for target in targets)
    expected = expected_of(rows, "logits", PLAN, "osr", 1.7)
    assert_close(exported.module()(rows), expected, 1e-12, output)


def test_the_operator_passes_the_checks_of_pytorch():
    recipe = FilterModule(fitted_filter(PLAN, input="logits", temperature=1.7))._recipe()
    rows = drawn_rows(8, "logits", torch.float64, seed=6).requires_grad_()
    arguments = (rows, None, *operator.taken_apart(recipe), -1, True, False, False)
    torch.library.opcheck(operator.operator, arguments)


@pytest.mark.parametrize("device", ON_DEVICES)
@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_rows_that_are_not_probabilities_become_nan(output, form, device):
    module = FilterModule(fitted_filter(PLAN), output=output).to(device)
    rows = drawn_rows(8, "probabilities", torch.float32, seed=7).to(device)
    rows[0, 2], rows[2] = torch.nan, 2 * rows[2]
    bad = module(rows.requires_grad_(form == "with a gradient")).isnan()
    assert bad.all(1).tolist() == bad.any(1).tolist() == [True, False, True, False]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("output", OUTPUTS)
def test_what_the_kernels_give_is_merged_and_calibrated(monkeypatch, output, dtype):
    def stand_in(rows, n_retained, dim, logits, log_output, *arrays):
        assert (rows.dtype, len(arrays)) == (torch.float32, 4)  # without a temperature
        options = (dim, logits, log_output, torch_plain.jump)
        return torch_plain.filter_rows(rows, torch_plain.Recipe(n_retained, *arrays), *options)

    kernels = SimpleNamespace(filter_rows=stand_in)
    monkeypatch.setattr("unlabel.torch.kernels", kernels, raising=False)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr("unlabel.torch.module.filter_rows", operator._in_kernels)
    fitted = fitted_filter(PLAN, input="logits", temperature=1.7)
    rows = drawn_rows(8, "logits", dtype, seed=13)
    result = FilterModule(fitted, output=output, dim=0)(rows.T).T
    assert result.dtype == dtype
    tolerance = 4e-3 if dtype == torch.float16 else 1e-6
    assert_close(result, expected_of(rows, "logits", PLAN, "osr", 1.7), tolerance, output)


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_on_a_gpu_nothing_waits_for_the_device(dtype):
    module = FilterModule(fitted_filter(PLAN, input="logits", temperature=1.7)).cuda()
    rows = drawn_rows(8, "logits", dtype, seed=8, n_rows=100).cuda()
    expected = module(rows)  # compiled before it counts: loading code waits for the device
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = module(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(result, expected)


def test_a_thousand_labels_into_twenty_and_one_into_hundreds():
    plan = {label: label % 20 for label in range(20, 1000)}
    plan |= {1: dict.fromkeys(range(2000, 2300), 1 / 300)}
    fitted = OutputFilter.mask(range(1000), plan)
    rows = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(1000), 5))
    matrix = np.zeros((1000, 320))
    for label in range(1000):
        to = plan.get(label, label)
        for name, weight in (to if isinstance(to, dict) else {to: 1.0}).items():
            matrix[label, fitted.classes.index(name)] = weight
    for given_rows in (rows, rows.clone().requires_grad_()):
        assert_close(FilterModule(fitted)(given_rows), rows.numpy() @ matrix, 1e-12)
