"""Labels that are merged, renamed and split, beside loops over labels and a dense matrix."""

# ruff: noqa: E402  (optional libraries are looked for first)
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import doors
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
from unlabel.torch import FilterModule

compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
OUTPUTS = ("probabilities", "log_probabilities")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}


@st.composite
def plans(draw):
    n = draw(st.integers(2, 8))
    labels = LABELS[:n]
    removed = draw(st.permutations(labels))[: draw(st.integers(0, n - 1))]
    staying = [label for label in labels if label not in removed]
    destination = st.sampled_from([*staying, "x", "y", "other"])
    weights = st.lists(st.integers(1, 5), min_size=2, max_size=4)
    plan = dict.fromkeys(removed)
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
    case, method, kind, output, dtype, temperature, seed
):
    n, plan = case
    fitted = fitted_filter(plan, n, method, kind=kind, temperature=temperature)
    rows = drawn_rows(n, kind, dtype, seed)
    expected = expected_of(rows, kind, plan, method, temperature)
    module = FilterModule(fitted, output=output, dim=-1)
    assert module.classes_out == tuple(result_labels(plan, LABELS[:n]))
    for result in (
        module(rows),
        FilterModule(fitted, output=output, dim=0)(rows.T).T,
        FilterModule(fitted, output=output, dim=1)(rows.T.view(1, n, 2, 2)).movedim(1, -1)[0],
        module(rows.clone().requires_grad_()).detach(),
    ):
        assert result.dtype == dtype
        assert_close(result.reshape(len(rows), -1), expected, TOLERANCE[dtype], output)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_every_type(plan, kind, output, dtype, temperature):
    fitted = fitted_filter(plan, kind=kind, temperature=temperature)
    module = FilterModule(fitted, output=output)
    rows = drawn_rows(8, kind, dtype, seed=1, n_rows=30)
    expected = expected_of(rows, kind, plan, "osr", temperature)
    # A logarithm that is rounded to 8 bits is far off as a power.
    coarse = {torch.float16: 4e-3, torch.bfloat16: 3e-2} if output == OUTPUTS[1] else {}
    tolerance = coarse.get(dtype, TOLERANCE[dtype])
    images = rows.view(2, 5, 3, 8).movedim(-1, 1).contiguous()
    result = module(rows)
    assert result.dtype == dtype
    assert_close(result, expected, tolerance, output)
    result = FilterModule(fitted, output=output, dim=1)(images)
    assert result.is_contiguous()
    assert_close(result.movedim(1, -1).reshape(30, -1), expected, tolerance, output)


def test_a_split_may_give_more_labels_than_the_model_has():
    fitted = doors.mask(["a", "b"], {"a": {"x": 0.5, "y": 0.5}, "b": {"z": 0.25, "u": 0.75}})
    module = FilterModule(fitted)
    assert module.classes_out == ("x", "y", "z", "u")
    assert "2 probabilities -> 4 probabilities" in repr(module)
    assert_close(module(torch.tensor([[0.2, 0.8]])), [[0.1, 0.1, 0.2, 0.6]], 1e-7)


def test_renamed_and_swapped_labels_keep_their_numbers():
    fitted = doors.mask(LABELS[:3], {"a": "b", "b": "a", "c": "new"})
    module = FilterModule(fitted)
    assert module.classes_out == ("b", "a", "new")
    assert "sources" not in module.state_dict()
    rows = torch.tensor([[0.5, 0.3, 0.2]])
    torch.testing.assert_close(module(rows), rows)


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_logarithm_is_lost_far_below_the_others(dtype, temperature, form):
    plan = {"a": "low", "b": "low", "c": "high", "d": {"high": 0.5, "tiny": 0.5}}
    fitted = doors.mask(LABELS[:4], plan, kind="logits")
    module = FilterModule(replace(fitted, temperature=temperature), output="log_probabilities")
    rows = torch.tensor([[-2000.0, -2001.0, 5.0, -300.0]], dtype=dtype)
    result = module(rows.requires_grad_(form == "with a gradient"))
    low = -2000 / temperature + math.log1p(math.exp(-1 / temperature))
    top = 5 / temperature
    expected = [low - top, 0, -300 / temperature + math.log(0.5) - top]
    np.testing.assert_allclose(result.detach()[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_gradients_are_those_of_a_dense_matrix(plan, kind, output, temperature):
    fitted = fitted_filter(plan, kind=kind, temperature=temperature)
    removing = fitted_filter({x: to for x, to in plan.items() if to is None})
    rows = drawn_rows(8, kind, torch.float64, seed=2).requires_grad_()
    matrix = torch.tensor(dense(plan, LABELS))
    logits = rows if kind == "logits" else rows.log()
    reference = FilterModule(removing)((logits / temperature).softmax(-1)) @ matrix
    reference = reference.log() if output == "log_probabilities" else reference
    result = FilterModule(fitted, output=output)(rows)
    wanted = torch.arange(result.shape[-1]) + result.detach().cos()
    expected, found = (
        torch.autograd.grad((each * wanted).sum(), rows)[0] for each in (reference, result)
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert expected.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("method", ["osr", "mask"])
def test_saturated_rows_have_finite_results_and_gradients(method, kind, output, dtype):
    one_hot = torch.eye(8, dtype=dtype)
    rows = one_hot
    if kind == "logits":
        rows = torch.vstack([90 * one_hot, 1e6 * one_hot, one_hot.log(), -1e4 * one_hot])
    rows.requires_grad_()
    result = FilterModule(fitted_filter(PLAN, method=method, kind=kind), output=output)(rows)
    assert result.isfinite().all()
    (result * torch.arange(result.shape[1])).clamp(min=-100).sum().backward()
    assert rows.grad.isfinite().all()


@compilers_own_warnings
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_compiled_mapped_and_reshaped_the_result_is_the_same(plan, kind):
    module = FilterModule(fitted_filter(plan, kind=kind))
    rows = drawn_rows(8, kind, torch.float32, seed=3, n_rows=60)
    expected = module(rows)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), expected)
    torch.testing.assert_close(torch.vmap(module)(rows.view(4, 15, 8)).flatten(0, 1), expected)
    assert torch.equal(module(rows.view(4, 15, 8)).flatten(0, 1), expected)
    assert torch.equal(module(rows.T.contiguous().T), expected)
    assert module(rows[:0]).shape == (0, len(module.classes_out))


@compilers_own_warnings
@pytest.mark.parametrize("output", OUTPUTS)
def test_compiled_and_per_row_the_gradients_are_the_same(output):
    module = FilterModule(fitted_filter(PLAN, kind="logits", temperature=1.7), output=output)
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
    module = FilterModule(fitted_filter(PLAN, kind="logits", temperature=1.7), output=output)
    rows = drawn_rows(8, "logits", torch.float64, seed=5, n_rows=7)
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    exported = torch.export.export(module, (rows[:2],), dynamic_shapes=sizes, strict=strict)
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    targets = {str(node.target) for graph in graphs for node in graph.nodes}
    assert "aten.logsumexp.default" in targets
    assert not any(target.startswith("unlabel") for target in targets)
    expected = expected_of(rows, "logits", PLAN, "osr", 1.7)
    assert_close(exported.module()(rows), expected, 1e-12, output)


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_rows_that_are_not_probabilities_become_nan(output, form):
    module = FilterModule(fitted_filter(PLAN), output=output)
    rows = drawn_rows(8, "probabilities", torch.float32, seed=7)
    rows[0, 2], rows[2] = torch.nan, 2 * rows[2]
    bad = module(rows.requires_grad_(form == "with a gradient")).isnan()
    assert bad.all(1).tolist() == bad.any(1).tolist() == [True, False, True, False]


def test_a_thousand_labels_into_twenty_and_one_into_hundreds():
    plan = {label: label % 20 for label in range(20, 1000)}
    plan |= {1: dict.fromkeys(range(2000, 2300), 1 / 300)}
    fitted = doors.mask(range(1000), plan)
    rows = torch.tensor(np.random.default_rng(0).dirichlet(np.ones(1000), 5))
    matrix = np.zeros((1000, 320))
    for label in range(1000):
        to = plan.get(label, label)
        for name, weight in (to if isinstance(to, dict) else {to: 1.0}).items():
            matrix[label, fitted.classes_out.index(name)] = weight
    for given_rows in (rows, rows.clone().requires_grad_()):
        assert_close(FilterModule(fitted)(given_rows), rows.numpy() @ matrix, 1e-12)
