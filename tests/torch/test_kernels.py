"""The kernel on a GPU or, with TRITON_INTERPRET=1, in Triton's interpreter on the CPU."""

# ruff: noqa: E402  (optional libraries are looked for first)
import contextlib
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from chains import error, fitted_chain, saturated
from golden_integrations import KINDS, METHODS, golden_case, golden_filter
from plain_merge import PLAN, SPLITS, assert_close, drawn_rows, expected_of, fitted_filter
from unlabel.torch import FilterModule

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
pytestmark = [
    pytest.mark.skipif(
        not (IS_INTERPRETED or torch.cuda.is_available()), reason="no GPU and no interpreter here"
    ),
    # NumPy's, of logarithms of 0 and differences of infinities.
    pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
CHAINS = [(3, 1), (10, 1), (10, 7), (33, 20), (100, 60)]
if not IS_INTERPRETED:  # a label and a row take Python a while
    CHAINS += [(100, 10), (1000, 100)]
N_ROWS = 70 if IS_INTERPRETED else 301
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
OUTPUTS = ("probabilities", "log_probabilities")
TOLERANCE = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}
# A logarithm that is rounded to 8 bits is far off as a power.
LOG_TOLERANCE = {torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def tolerance_of(output, dtype, temperature=1.0):
    tolerance = (LOG_TOLERANCE if output == "log_probabilities" else TOLERANCE)[dtype]
    return tolerance / min(temperature, 1.0)  # which divides a logarithm that was rounded


@contextlib.contextmanager
def nothing_waits():
    """Let nothing wait for the device."""
    if not IS_INTERPRETED:
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        if not IS_INTERPRETED:
            torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(autouse=True)
def kernel_runs(monkeypatch):
    """Count the kernel's runs, so that no test passes without it."""
    from unlabel.torch import kernels

    runs, run = [], kernels.filter_rows
    monkeypatch.setattr(kernels, "filter_rows", lambda *given: runs.append(given) or run(*given))
    yield runs
    assert runs


@pytest.mark.parametrize("temperature", [1.0, 1.7, 0.6])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_chains_give_what_numpy_does(n, k, kind, output, dtype, temperature):
    fitted, removed = fitted_chain(n, k, kind=kind, temperature=temperature)
    module = FilterModule(fitted, output=output).to(DEVICE)
    rows = saturated(N_ROWS, n, removed, seed=2, kind=kind)[0]
    rows = torch.tensor(rows, device=DEVICE).to(dtype)
    module(rows)  # compiled before it counts: loading code waits for the device
    with nothing_waits():
        result = module(rows)
    assert result.dtype == dtype
    assert result.isfinite().all()
    result = result.double().exp() if output == "log_probabilities" else result
    assert error(fitted, rows, result) < tolerance_of(output, dtype, temperature)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_golden_file_is_reproduced(method, kind, dtype):
    rows, expected = golden_case(method, kind, dtype)
    result = FilterModule(golden_filter(method, kind)).to(DEVICE)(torch.tensor(rows, device=DEVICE))
    assert_close(result, expected, TOLERANCE[result.dtype])


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plan", [PLAN, SPLITS], ids=["all kinds", "splits"])
def test_labels_are_merged_and_split(plan, kind, output, dtype, temperature):
    fitted = fitted_filter(plan, kind=kind, temperature=temperature)
    module = FilterModule(fitted, output=output).to(DEVICE)
    rows = drawn_rows(8, kind, dtype, seed=1, n_rows=30).to(DEVICE)
    expected = expected_of(rows, kind, plan, "osr", temperature)
    module(rows)
    with nothing_waits():
        result = module(rows)
    assert result.dtype == dtype
    assert_close(result, expected, tolerance_of(output, dtype), output)
    allow = torch.arange(expected.shape[1]) % 3 > 0
    kept = np.where(allow, expected, 0.0)
    kept /= kept.sum(axis=1, keepdims=True)
    result = module(rows, allow.to(DEVICE))
    assert_close(result, kept, tolerance_of(output, dtype), output)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 7])
def test_images_are_filtered_where_they_lie(kernel_runs, k, kind, output, dtype):
    fitted, removed = fitted_chain(10, k, kind=kind, temperature=1.3)
    rows = torch.tensor(saturated(2 * 5 * 6, 10, removed, seed=2, kind=kind)[0]).to(dtype)
    images = rows.view(2, 5, 6, 10).movedim(-1, 1).contiguous().to(DEVICE)
    result = FilterModule(fitted, output=output, dim=1).to(DEVICE)(images)
    assert kernel_runs[0][0].data_ptr() == images.data_ptr()
    assert result.shape == (2, 10 - k, 5, 6)
    assert result.is_contiguous()
    result = result.double().exp() if output == "log_probabilities" else result
    result = result.movedim(1, -1).reshape(60, -1)
    assert error(fitted, rows, result) < tolerance_of(output, dtype)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_probabilities_become_nan(k, temperature):
    fitted, removed = fitted_chain(50, k, temperature=temperature)
    rows = torch.tensor(saturated(8, 50, removed, seed=3)[0], device=DEVICE).float()
    rows[1, 5] = torch.nan
    rows[3] *= 2
    rows[5, 7] += rows[5, 8] + 0.001
    rows[5, 8] = -0.001
    bad = FilterModule(fitted).to(DEVICE)(rows).isnan()
    assert bad.all(1).tolist() == bad.any(1).tolist() == [i in (1, 3, 5) for i in range(8)]


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_logits_become_nan(k, temperature):
    fitted, removed = fitted_chain(50, k, kind="logits", temperature=temperature)
    rows = torch.tensor(saturated(8, 50, removed, seed=3, kind="logits")[0], device=DEVICE).float()
    rows[1, 5], rows[3, 6], rows[5] = torch.nan, torch.inf, -torch.inf
    rows[6, 7] = -torch.inf
    bad = FilterModule(fitted).to(DEVICE)(rows).isnan()
    assert bad.all(1).tolist() == bad.any(1).tolist() == [i in (1, 3, 5) for i in range(8)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # its advice on speed
@pytest.mark.parametrize("plan", [None, PLAN])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_mapped_and_reshaped_the_result_is_the_same(kind, plan):
    fitted = fitted_filter(plan or {"a": None, "d": None}, kind=kind, temperature=1.3)
    module = FilterModule(fitted).to(DEVICE)
    rows = drawn_rows(8, kind, torch.float32, seed=3, n_rows=60).to(DEVICE)
    expected = module(rows)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), expected)
    torch.testing.assert_close(torch.vmap(module)(rows.view(4, 15, 8)).flatten(0, 1), expected)
    assert torch.equal(module(rows.view(4, 15, 8)).flatten(0, 1), expected)
    assert torch.equal(module(rows.T.contiguous().T), expected)
    assert module(rows[:0]).shape == (0, len(module.classes_out))


def test_gradients_are_those_of_float64():
    fitted, removed = fitted_chain(33, 20, kind="logits", temperature=1.3)
    rows = torch.tensor(saturated(30, 33, removed, seed=3, kind="logits")[0])
    module, found = FilterModule(fitted), []
    for device, dtype in (("cpu", torch.float64), (DEVICE, torch.float32)):
        given = rows.detach().to(device, dtype).clone().requires_grad_()
        result = module.to(device)(given)
        result.square().sum().backward()
        found.append(given.grad.cpu().double())
        torch.testing.assert_close(module(given.detach()), result.detach())
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)
