"""The operator, and the plain form for gradients and exports."""

# ruff: noqa: E402  (optional libraries are looked for first)
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

import doors
from chains import error, fitted_chain, saturated
from plain_merge import PLAN, drawn_rows, fitted_filter
from unlabel.torch import FilterModule

CHAINS = [(3, 1), (10, 1), (10, 7), (100, 10), (100, 60), (1000, 100)]
FORMS = ("eager", "with a gradient")
KINDS = ("probabilities", "logits")
OUTPUTS = ("probabilities", "log_probabilities")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def test_the_buffers_have_the_names_of_the_recipe():
    fitted, _ = fitted_chain(10, 3)
    state = FilterModule(fitted).state_dict()
    steps = {"diagonal", "complement", "no_residual_below", "share_sums"}
    arrays = {"order", "residual_weights", "shares", *steps}
    assert set(state) == {*arrays, "temperature", "labels"}
    assert state["residual_weights"].shape == state["shares"].shape == (3, 10)
    assert {state[name].shape for name in steps} == {(3,)}


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_every_form_gives_what_numpy_does(n, k, kind, output, dtype, temperature):
    fitted, removed = fitted_chain(n, k, kind=kind, temperature=temperature)
    rows = torch.tensor(saturated(301, n, removed, seed=2, kind=kind)[0]).to(dtype)
    module = FilterModule(fitted, output=output)
    for form in FORMS:
        result = module(rows.requires_grad_(form == "with a gradient"))
        result = result.double().exp() if output == "log_probabilities" else result
        assert error(fitted, rows, result) < TOLERANCE[dtype]


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", [{"a": None, "d": None}, PLAN], ids=["removed", "all kinds"])
def test_on_a_cpu_the_bits_are_those_of_numpy(plan, kind, dtype, temperature):
    fitted = fitted_filter(plan, kind=kind, temperature=temperature)
    rows = drawn_rows(8, kind, dtype, seed=8, n_rows=50)
    expected = fitted.apply(rows.numpy())
    np.testing.assert_array_equal(FilterModule(fitted)(rows).numpy(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_extreme_rows_have_finite_results_and_gradients(seed, kind, dtype):
    rng = np.random.default_rng(seed)
    reference = 10.0 ** rng.uniform(-rng.choice([1, 12, 40]), 0, (32, 8))
    reference = np.eye(8)[np.arange(32) % 8] if seed == 0 else reference
    reference /= reference.sum(axis=1, keepdims=True)
    fitted = doors.fit(reference, np.arange(32) % 8, remove=rng.permutation(8)[:5].tolist())
    fitted = replace(fitted, kind=kind)
    span = 10 * seed  # from what float32 can tell apart to what it cannot
    rows = 10.0 ** rng.uniform(-span, 0, (60, 8))
    rows[rng.random(rows.shape) < 0.1] = 0
    rows[np.arange(60), rng.integers(8, size=60)] = 1
    rows[::6] = np.eye(8)[rng.integers(8, size=10)]
    with np.errstate(divide="ignore"):
        rows = np.log(rows) if kind == "logits" else rows / rows.sum(axis=1, keepdims=True)
    for output in OUTPUTS:
        module = FilterModule(fitted, output=output)
        for form in FORMS:
            given = torch.tensor(rows).to(dtype).requires_grad_(form == "with a gradient")
            result = module(given)
            assert result.isfinite().all()
            if given.requires_grad and span <= 10:
                (result * torch.arange(3)).clamp(min=-100).sum().backward()
                assert given.grad.isfinite().all()
            result = result.exp() if output == "log_probabilities" else result
            if span <= 25 or dtype == torch.float64:
                assert error(fitted, given, result) < TOLERANCE[dtype]


@pytest.mark.parametrize("form", FORMS)
def test_log_probabilities_of_rows_without_a_residual_are_those_of_a_softmax(form):
    fitted, removed = fitted_chain(100, 60, kind="logits")
    module = FilterModule(fitted, output="log_probabilities")
    rows = 20 * torch.randn(50, 100, generator=torch.Generator().manual_seed(0))
    rows[:, removed] = -90.0
    expected = rows[:, np.setdiff1d(np.arange(100), removed)].log_softmax(1)
    assert expected.min() < -88  # as probabilities they would underflow
    result = module(rows.requires_grad_(form == "with a gradient"))
    torch.testing.assert_close(result.detach(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 40])
def test_compiled_mapped_and_reshaped_the_result_is_the_same(k, kind):
    fitted, removed = fitted_chain(50, k, kind=kind)
    rows = torch.tensor(saturated(64, 50, removed, seed=3, kind=kind)[0]).float()
    module = FilterModule(fitted)
    expected = module(rows)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), expected)
    torch.testing.assert_close(torch.vmap(module)(rows.view(8, 8, 50)).flatten(0, 1), expected)
    assert torch.equal(module(rows.view(4, 16, 50)).flatten(0, 1), expected)
    assert torch.equal(module(rows.T.contiguous().T), expected)
    assert module(rows[:0]).shape == (0, 50 - k)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_what_is_compiled_does_not_grow_with_the_number_of_removed_labels():
    graphs = []

    def remembered(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op != "placeholder"])
        return graph

    for k in (1, 60):
        fitted, removed = fitted_chain(100, k, kind="logits")
        rows = torch.tensor(saturated(10, 100, removed, seed=3, kind="logits")[0])
        torch.compile(FilterModule(fitted), fullgraph=True, backend=remembered)(rows)
    one, sixty = graphs
    assert one == sixty
    assert "unlabel.filter_rows.default" in one


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_what_is_compiled_has_the_gradients_of_what_is_not(k, output):
    fitted, removed = fitted_chain(50, k, kind="logits")
    rows = torch.tensor(saturated(64, 50, removed, seed=3, kind="logits")[0], requires_grad=True)
    module = FilterModule(fitted, output=output)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    gradients = [
        torch.autograd.grad(form(rows).clamp(min=-50).square().sum(), rows)[0]
        for form in (module, compiled)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
    assert gradients[0].abs().sum() > 0


class Remembered(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        if operator is torch.ops.unlabel.filter_rows.default:
            self.arguments = arguments
        return operator(*arguments, **(options or {}))


@pytest.mark.parametrize("plan", [{"a": None, "d": None}, PLAN])
@pytest.mark.parametrize("allow", [None, torch.ones(6, dtype=torch.bool)])
def test_the_operator_passes_the_checks_of_pytorch(allow, plan):
    module = FilterModule(fitted_filter(plan, kind="logits", temperature=1.7))
    with Remembered() as remembered:
        module(drawn_rows(8, "logits", torch.float64, seed=6), allow)
    torch.library.opcheck(torch.ops.unlabel.filter_rows.default, remembered.arguments)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_derivatives_of_functions_are_those_of_tensors():
    fitted, removed = fitted_chain(10, 3, kind="logits")
    module = FilterModule(fitted)
    rows = torch.tensor(saturated(8, 10, removed, seed=3, kind="logits")[0], requires_grad=True)
    (expected,) = torch.autograd.grad(module(rows).square().sum(), rows)
    rows = rows.detach()
    per_row = torch.vmap(torch.func.grad(lambda row: module(row).square().sum()))(rows)
    mapped = torch.func.grad(lambda rows: torch.vmap(module)(rows).square().sum())(rows)
    torch.testing.assert_close(per_row, expected)
    torch.testing.assert_close(mapped, expected)
    _, slope = torch.func.jvp(lambda rows: module(rows).square().sum(), (rows,), (rows,))
    torch.testing.assert_close(slope, (expected * rows).sum())


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_exported_runs_without_unlabel(strict):
    fitted, removed = fitted_chain(10, 3, kind="logits")
    rows = torch.tensor(saturated(8, 10, removed, seed=3, kind="logits")[0])
    exported = torch.export.export(FilterModule(fitted), (rows,), strict=strict)
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    targets = {str(node.target) for graph in graphs for node in graph.nodes}
    assert "aten.logaddexp.default" in targets
    assert not any(target.startswith("unlabel") for target in targets)
    assert error(fitted, rows, exported.module()(rows)) < 1e-12


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_probabilities_become_nan(k, output):
    fitted, removed = fitted_chain(50, k)
    module = FilterModule(fitted, output=output)
    rows = torch.tensor(saturated(8, 50, removed, seed=3)[0]).float()
    rows[1, 5] = torch.nan
    rows[3] *= 2
    rows[5, 7] += rows[5, 8] + 0.001
    rows[5, 8] = -0.001
    bad = module(rows).isnan().any(1)
    assert bad.tolist() == [i in (1, 3, 5) for i in range(8)]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_logits_become_nan(k, output):
    fitted, removed = fitted_chain(50, k, kind="logits")
    module = FilterModule(fitted, output=output)
    rows = saturated(8, 50, removed, seed=3, kind="logits")[0]
    rows = torch.tensor(rows).float()
    rows[1, 5], rows[3, 6], rows[5] = torch.nan, torch.inf, -torch.inf
    rows[6, 7] = -torch.inf
    bad = module(rows).isnan().any(1)
    assert bad.tolist() == [i in (1, 3, 5) for i in range(8)]
