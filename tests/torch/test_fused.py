"""The fused kernels, where there is a GPU, and what is prepared for them everywhere."""

# ruff: noqa: E402  (optional libraries are looked for first)
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from unlabel import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.torch import FilterModule, fused

needs_cuda = pytest.mark.skipif(
    not (torch.cuda.is_available() and fused.is_available()), reason="no CUDA device here"
)
CHAINS = [(3, 1), (10, 1), (10, 7), (100, 4), (100, 60), (1000, 100)]
TOLERANCE = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}


def saturated(n_rows, n, removed, seed):
    """Rows as networks give them, some with all but 1e-7 of their mass on a removed label."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_rows, n))
    truth = rng.integers(n, size=n_rows)
    truth[: 3 * len(removed)] = np.tile(removed, 3)[:n_rows]
    logits[np.arange(n_rows), truth] += rng.normal(8, 4, size=n_rows)
    logits[::7, removed[0]] += 16
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True), truth


def fitted_chain(n, k):
    removed = np.random.default_rng(1).permutation(n)[:k].tolist()
    rows, truth = saturated(8 * n, n, removed, seed=0)
    return fit_filter(rows, truth, remove=removed), removed


@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_the_kernels_arrays_are_those_of_the_chain(monkeypatch, n, k):
    monkeypatch.setattr(fused, "is_available", lambda: True)
    fitted, _ = fitted_chain(n, k)
    module, chain = FilterModule(fitted), fitted.chain
    expected = {
        "residual": chain.residual,
        "shares": chain.shares[:, chain.retained],
        "weights": chain.weight,
        "overlap": chain.overlap.T,
        "rest": chain.rest.T,
    }
    for name, array in expected.items():
        found = module.get_buffer(f"fused_{name}").numpy()
        np.testing.assert_allclose(found, array, rtol=0, atol=1e-6, err_msg=name)


def test_the_kernels_arrays_follow_a_state_that_is_loaded(monkeypatch):
    monkeypatch.setattr(fused, "is_available", lambda: True)
    fitted, removed = fitted_chain(10, 3)
    rows, truth = saturated(200, 10, removed, seed=5)
    module, other = FilterModule(fitted), FilterModule(fit_filter(rows, truth, remove=removed))
    assert not any(name.startswith("fused") for name in module.state_dict())
    module.load_state_dict(other.state_dict())
    for name, buffer in other.named_buffers():
        assert torch.equal(module.get_buffer(name), buffer), name


def test_only_plain_removal_of_probabilities_is_fused(monkeypatch):
    monkeypatch.setattr(fused, "is_available", lambda: True)
    fitted, removed = fitted_chain(10, 3)
    assert FilterModule(fitted).is_fusible
    assert not FilterModule(fitted, "logits").is_fusible
    assert not FilterModule(fitted, output="log_probabilities").is_fusible
    rows, truth = saturated(200, 10, removed, seed=5)
    masking = fit_filter(rows, truth, remove=removed, method="mask")
    assert not FilterModule(masking).is_fusible
    warm = OutputFilter(
        classes_in=fitted.classes_in,
        removed=fitted.removed,
        means=fitted.means,
        shares=fitted.shares,
        counts=fitted.counts,
        temperature=1.5,
    )
    assert not FilterModule(warm).is_fusible
    # The kernels lose digits of a label that hardly knows itself.
    strange = fit_filter([[0.01, 0.9, 0.09], [0.02, 0.9, 0.08]], [0, 0], remove=[0])
    assert not FilterModule(strange).is_fusible


@fused.redistribute.register_kernel("cpu")
def in_plain_operators(
    rows, removed, retained, column_after, residual, shares, weight, overlap, rest
):
    """What the kernels do with their arrays, so that what surrounds them is tested everywhere."""
    kept, found = rows[:, retained].double(), rows[:, removed].double()
    own, weights = torch.ones(len(rows)).double(), torch.zeros(found.shape).double()
    for step in range(len(removed)):
        left = kept.sum(1) + found[:, step + 1 :].sum(1)
        whole = left + found[:, step]
        rho = own * (rows.double() @ residual[step].double()) / whole
        rho = (rho + weights @ overlap[step].double()).clamp(0, 1)
        remains, weights = own * left / whole, weights * rest[step]
        left = remains + weights.sum(1)
        total = 1 - rho + rho * weight[step]
        own = remains / left * (1 - rho) / total
        weights = weights * ((1 - rho) / total / left)[:, None]
        weights[:, step] = rho * weight[step] / total
    mixed = own[:, None] * kept / kept.sum(1, keepdim=True) + weights @ shares.double()
    assert (column_after[retained] == torch.arange(len(retained))).all()
    return mixed.to(rows.dtype)


@pytest.fixture
def fused_on_the_cpu(monkeypatch):
    monkeypatch.setattr(fused, "is_available", lambda: True)
    monkeypatch.setattr(fused, "takes", lambda rows: rows.dtype in fused.DTYPES)


@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_the_operator_gives_what_numpy_does(fused_on_the_cpu, n, k):
    fitted, removed = fitted_chain(n, k)
    rows = saturated(301, n, removed, seed=2)[0]
    result = FilterModule(fitted)(torch.tensor(rows).float())
    assert np.abs(result.double().numpy() - fitted.apply(rows)).max() < 1e-6


def assert_same_in_any_shape(module, rows, k):
    expected = module(rows)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(rows), expected)
    assert torch.equal(torch.vmap(module)(rows.view(8, 8, 50)).flatten(0, 1), expected)
    assert torch.equal(module(rows.view(4, 16, 50)).flatten(0, 1), expected)
    assert torch.equal(module(rows.T.contiguous().T), expected)
    assert module(rows[:0]).shape == (0, 50 - k)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("k", [2, 40])
def test_compiled_mapped_and_reshaped_the_operator_gives_the_same(fused_on_the_cpu, k):
    fitted, removed = fitted_chain(50, k)
    rows = torch.tensor(saturated(64, 50, removed, seed=3)[0]).float()
    assert_same_in_any_shape(FilterModule(fitted), rows, k)


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(("n", "k"), CHAINS)
def test_the_kernels_give_what_numpy_does(n, k, dtype):
    fitted, removed = fitted_chain(n, k)
    module = FilterModule(fitted).cuda()
    rows = torch.tensor(saturated(301, n, removed, seed=2)[0], device="cuda").to(dtype)
    assert fused.takes(rows)
    module(rows)  # compiled before it counts: loading code waits for the device
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = module(rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    wide = rows.double().cpu().numpy()
    exact = fitted.apply(wide / wide.sum(axis=1, keepdims=True))
    assert result.dtype == dtype
    assert np.abs(result.double().cpu().numpy() - exact).max() < TOLERANCE[dtype]


@needs_cuda
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
@pytest.mark.parametrize("k", [2, 40])
def test_compiled_mapped_and_reshaped_the_kernels_give_the_same(k):
    fitted, removed = fitted_chain(50, k)
    rows = torch.tensor(saturated(64, 50, removed, seed=3)[0], device="cuda").float()
    assert_same_in_any_shape(FilterModule(fitted).cuda(), rows, k)


@needs_cuda
@pytest.mark.parametrize("k", [2, 40])
def test_rows_that_are_not_probabilities_become_nan(k):
    fitted, removed = fitted_chain(50, k)
    module = FilterModule(fitted).cuda()
    rows = torch.tensor(saturated(8, 50, removed, seed=3)[0], device="cuda").float()
    rows[1, 5] = torch.nan
    rows[3] *= 2
    rows[5, 7] += rows[5, 8] + 0.001
    rows[5, 8] = -0.001
    bad = module(rows).isnan().any(1)
    assert bad.tolist() == [i in (1, 3, 5) for i in range(8)]
