"""The operator, the plain forms beside it and, where there is a GPU, the kernels behind it."""

# ruff: noqa: E402  (optional libraries are looked for first)
import functools
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unlabel.fitting import fit_filter
from unlabel.torch import FilterModule, operator
from unlabel.torch import plain as torch_plain
from unlabel.torch.plain import Recipe

needs_cuda = pytest.mark.skipif(
    not (torch.cuda.is_available() and operator.has_kernels()), reason="no CUDA device here"
)
CHAINS = [(3, 1), (10, 1), (10, 7), (100, 10), (100, 60), (1000, 100)]
FORMS = {"jump": torch_plain.jump, "walk": torch_plain.walk}
INPUTS = ("probabilities", "logits")
OUTPUTS = ("probabilities", "log_probabilities")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}


def saturated(n_rows, n, removed, seed, input="probabilities"):
    """Rows as networks give them, some with all but 1e-7 of their mass on a removed label."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_rows, n))
    truth = rng.integers(n, size=n_rows)
    truth[: 3 * len(removed)] = np.tile(removed, 3)[:n_rows]
    logits[np.arange(n_rows), truth] += rng.normal(8, 4, size=n_rows)
    logits[::7, removed[0]] += 16
    if input == "logits":
        return logits, truth
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True), truth


@functools.cache
def fitted_once(n, k):
    removed = np.random.default_rng(1).permutation(n)[:k].tolist()
    rows, truth = saturated(8 * n, n, removed, seed=0)
    return fit_filter(rows, truth, remove=removed), removed


def fitted_chain(n, k, **changes):
    fitted, removed = fitted_once(n, k)
    return replace(fitted, **changes), removed


def recipe_of(module):
    arrays = (module.order, module.pulls, module.shares, module.numbers, module.temperature)
    return Recipe(len(module.classes), *arrays)


def error(fitted, rows, result, dim=-1):
    """The largest difference from NumPy's float64 form, for the rows as they were rounded."""
    wide = rows.detach().double().cpu().movedim(dim, -1).reshape(-1, len(fitted.classes_in))
    if fitted.input == "probabilities":
        wide = wide / wide.sum(1, keepdim=True)
    found = result.detach().double().cpu().movedim(dim, -1).reshape(-1, len(fitted.classes))
    return np.abs(found.numpy() - fitted.apply(wide.numpy())).max()


def test_the_buffers_are_the_arrays_of_the_recipe():
    fitted, _ = fitted_chain(10, 3)
    module = FilterModule(fitted)
    for name in ("order", "pulls", "shares", "numbers"):
        np.testing.assert_array_equal(module.get_buffer(name), getattr(fitted.recipe, name))
    assert set(module.state_dict()) == {
        *("order", "pulls", "shares", "numbers", "temperature", "labels")
    }


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_every_form_gives_what_numpy_does(n, k, input, output, dtype, temperature):
    fitted, removed = fitted_chain(n, k, input=input, temperature=temperature)
    rows = torch.tensor(saturated(301, n, removed, seed=2, input=input)[0]).to(dtype)
    module = FilterModule(fitted, output=output)
    options = (-1, input == "logits", output == "log_probabilities")
    results = [
        torch_plain.filter_rows(rows, recipe_of(module), *options, form) for form in FORMS.values()
    ]
    for result in (module(rows), *results):
        result = result.double().exp() if output == "log_probabilities" else result
        assert error(fitted, rows, result) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("seed", range(8))
def test_extreme_rows_have_finite_results_and_gradients(seed, input, dtype):
    rng = np.random.default_rng(seed)
    reference = 10.0 ** rng.uniform(-rng.choice([1, 12, 40]), 0, (32, 8))
    reference = np.eye(8)[np.arange(32) % 8] if seed == 0 else reference
    reference /= reference.sum(axis=1, keepdims=True)
    fitted = fit_filter(reference, np.arange(32) % 8, remove=rng.permutation(8)[:5].tolist())
    fitted = replace(fitted, input=input)
    span = 10 * seed  # from what float32 can tell apart to what it cannot
    rows = 10.0 ** rng.uniform(-span, 0, (60, 8))
    rows[rng.random(rows.shape) < 0.1] = 0
    rows[np.arange(60), rng.integers(8, size=60)] = 1
    rows[::6] = np.eye(8)[rng.integers(8, size=10)]
    with np.errstate(divide="ignore"):
        rows = np.log(rows) if input == "logits" else rows / rows.sum(axis=1, keepdims=True)
    for output in OUTPUTS:
        module = FilterModule(fitted, output=output)
        options = (-1, input == "logits", output == "log_probabilities")
        for form in FORMS.values():
            given = torch.tensor(rows).to(dtype).requires_grad_()
            result = torch_plain.filter_rows(given, recipe_of(module), *options, form)
            (result * torch.arange(3)).clamp(min=-100).sum().backward()
            assert result.isfinite().all()
            assert given.grad.isfinite().all()
            result = result.exp() if output == "log_probabilities" else result
            if span <= 25 or dtype == torch.float64:
                assert error(fitted, given, result) < TOLERANCE[dtype]


@pytest.mark.parametrize("form", FORMS)
def test_log_probabilities_of_rows_without_a_residual_are_those_of_a_softmax(form):
    fitted, removed = fitted_chain(100, 60, input="logits")
    module = FilterModule(fitted)
    rows = 20 * torch.randn(50, 100, generator=torch.Generator().manual_seed(0))
    rows[:, removed] = -90.0
    expected = rows[:, fitted.retained_columns].log_softmax(1)
    assert expected.min() < -88  # as probabilities they would underflow
    for result in (
        torch_plain.filter_rows(rows, recipe_of(module), -1, True, True, FORMS[form]),
        FilterModule(fitted, output="log_probabilities")(rows),
    ):
        torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [10, 60])
def test_jumping_takes_no_step_that_is_ruled_out(monkeypatch, k):
    fitted, removed = fitted_chain(100, k, input="logits")
    rows = torch.full((20, 100), -5.0)
    rows[:10, removed[3]] = rows[5:15, removed[k - 1]] = 9.0
    calls, step = [], torch_plain._step
    monkeypatch.setattr(torch_plain, "_step", lambda *given: calls.append(given) or step(*given))
    FilterModule(fitted)(rows.requires_grad_())
    assert 1 <= len(calls) <= 4


def assert_same_in_any_shape(module, rows):
    n, n_retained = rows.shape[1], len(module.classes)
    expected = module(rows)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), expected)
    assert torch.equal(torch.vmap(module)(rows.view(8, 8, n)).flatten(0, 1), expected)
    assert torch.equal(module(rows.view(4, 16, n)).flatten(0, 1), expected)
    assert torch.equal(module(rows.T.contiguous().T), expected)
    assert module(rows[:0]).shape == (0, n_retained)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_compiled_mapped_and_reshaped_the_operator_gives_the_same(k, input):
    fitted, removed = fitted_chain(50, k, input=input)
    rows = torch.tensor(saturated(64, 50, removed, seed=3, input=input)[0]).float()
    assert_same_in_any_shape(FilterModule(fitted), rows)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_what_is_compiled_does_not_grow_with_the_number_of_retired_labels():
    graphs = []

    def remembered(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes if node.op != "placeholder"])
        return graph

    for k in (1, 60):
        fitted, removed = fitted_chain(100, k, input="logits")
        rows = torch.tensor(saturated(10, 100, removed, seed=3, input="logits")[0])
        torch.compile(FilterModule(fitted), fullgraph=True, backend=remembered)(rows)
    one, sixty = graphs
    assert one == sixty
    assert "unlabel.filter_rows.default" in one


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_what_is_compiled_has_the_gradients_of_what_is_not(k, output):
    fitted, removed = fitted_chain(50, k, input="logits")
    rows = torch.tensor(saturated(64, 50, removed, seed=3, input="logits")[0], requires_grad=True)
    module = FilterModule(fitted, output=output)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    gradients = [
        torch.autograd.grad(form(rows).clamp(min=-50).square().sum(), rows)[0]
        for form in (module, compiled)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
    assert gradients[0].abs().sum() > 0


def test_the_operator_passes_the_checks_of_pytorch():
    fitted, removed = fitted_chain(10, 3, input="logits")
    rows = torch.tensor(saturated(8, 10, removed, seed=3, input="logits")[0], requires_grad=True)
    arguments = operator.taken_apart(FilterModule(fitted)._recipe())
    torch.library.opcheck(operator.operator, (rows, None, *arguments, -1, True, False, False))


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_derivatives_of_functions_are_those_of_tensors():
    fitted, removed = fitted_chain(10, 3, input="logits")
    module = FilterModule(fitted)
    rows = torch.tensor(saturated(8, 10, removed, seed=3, input="logits")[0], requires_grad=True)
    (expected,) = torch.autograd.grad(module(rows).square().sum(), rows)
    rows = rows.detach()
    per_row = torch.vmap(torch.func.grad(lambda row: module(row).square().sum()))(rows)
    mapped = torch.func.grad(lambda rows: torch.vmap(module)(rows).square().sum())(rows)
    torch.testing.assert_close(per_row, expected)
    torch.testing.assert_close(mapped, expected)
    with pytest.raises(RuntimeError, match="must implement the jvp function"):
        torch.func.jvp(module, (rows,), (rows,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_exported_runs_without_unlabel(strict):
    fitted, removed = fitted_chain(10, 3, input="logits")
    rows = torch.tensor(saturated(8, 10, removed, seed=3, input="logits")[0])
    exported = torch.export.export(FilterModule(fitted), (rows,), strict=strict)
    graphs = [part.graph for part in exported.graph_module.modules() if hasattr(part, "graph")]
    targets = {str(node.target) for graph in graphs for node in graph.nodes}
    assert "aten.logaddexp.default" in targets
    assert not any(target.startswith("unlabel") for target in targets)
    assert error(fitted, rows, exported.module()(rows)) < 1e-12


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_the_kernels_give_what_numpy_does(n, k, input, output, dtype, temperature):
    fitted, removed = fitted_chain(n, k, input=input, temperature=temperature)
    module = FilterModule(fitted, output=output).cuda()
    rows = saturated(301, n, removed, seed=2, input=input)[0]
    rows = torch.tensor(rows, device="cuda").to(dtype)
    module(rows)  # compiled before it counts: loading code waits for the device
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = module(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert result.dtype == dtype
    if output == "log_probabilities":
        assert result.isfinite().all()
        # A logarithm that is rounded to 8 bits is far off as a power.
        tolerance = {torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
        assert error(fitted, rows, result.double().exp()) < tolerance
    else:
        assert error(fitted, rows, result) < TOLERANCE[dtype]


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("k", [1, 7])
def test_the_kernels_filter_images(k, input, output, dtype):
    fitted, removed = fitted_chain(10, k, input=input)
    rows = torch.tensor(saturated(2 * 5 * 6, 10, removed, seed=2, input=input)[0]).to(dtype)
    images = rows.view(2, 5, 6, 10).movedim(-1, 1).contiguous().cuda()
    result = FilterModule(fitted, output=output, dim=1).cuda()(images)
    assert result.shape == (2, 10 - k, 5, 6)
    assert result.is_contiguous()
    expected = FilterModule(fitted, output=output)(rows).view(2, 5, 6, 10 - k).movedim(-1, 1)
    tolerance = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype]
    torch.testing.assert_close(result.cpu(), expected, rtol=tolerance, atol=tolerance)


@needs_cuda
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # its advice on speed
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_compiled_mapped_and_reshaped_the_kernels_give_the_same(k, input):
    fitted, removed = fitted_chain(50, k, input=input)
    rows = saturated(64, 50, removed, seed=3, input=input)[0]
    assert_same_in_any_shape(FilterModule(fitted).cuda(), torch.tensor(rows).float().cuda())


@needs_cuda
def test_gradients_on_a_gpu_are_those_on_the_cpu():
    fitted, removed = fitted_chain(50, 40, input="logits")
    rows = torch.tensor(saturated(64, 50, removed, seed=3, input="logits")[0])
    module, gradients = FilterModule(fitted), []
    for device in ("cpu", "cuda"):
        given = rows.detach().to(device).clone().requires_grad_()
        module.to(device)(given).square().sum().backward()
        gradients.append(given.grad.cpu())
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_probabilities_become_nan(k, output, device):
    fitted, removed = fitted_chain(50, k)
    module = FilterModule(fitted, output=output).to(device)
    rows = torch.tensor(saturated(8, 50, removed, seed=3)[0], device=device).float()
    rows[1, 5] = torch.nan
    rows[3] *= 2
    rows[5, 7] += rows[5, 8] + 0.001
    rows[5, 8] = -0.001
    bad = module(rows).isnan().any(1)
    assert bad.tolist() == [i in (1, 3, 5) for i in range(8)]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_logits_become_nan(k, output, device):
    fitted, removed = fitted_chain(50, k, input="logits")
    module = FilterModule(fitted, output=output).to(device)
    rows = saturated(8, 50, removed, seed=3, input="logits")[0]
    rows = torch.tensor(rows, device=device).float()
    rows[1, 5], rows[3, 6], rows[5] = torch.nan, torch.inf, -torch.inf
    rows[6, 7] = -torch.inf
    bad = module(rows).isnan().any(1)
    assert bad.tolist() == [i in (1, 3, 5) for i in range(8)]
