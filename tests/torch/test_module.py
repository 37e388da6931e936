# ruff: noqa: E402  (optional libraries are looked for first)
import io
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

torch = pytest.importorskip("torch")

import doors
import plain
from golden_integrations import (
    DTYPES,
    GOLDEN,
    KINDS,
    METHODS,
    TOLERANCE,
    golden_case,
    golden_filter,
)
from torchvision_cpu import HAS_TORCHVISION
from unlabel import UnlabelError
from unlabel.torch import FilterModule, attach

BFLOAT16_TOLERANCE = 4e-3  # it has 8 bits: half a unit in the last place of 1 is 2e-3
EVERY_CASE = [(method, kind) for method in METHODS for kind in KINDS]

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="inductor needs a C++ compiler"
)
# PyTorch's compiler itself does what PyTorch deprecates.
compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


def assert_golden(module, method, kind, dtype, device="cpu"):
    rows, expected = golden_case(method, kind, dtype)
    result = module(torch.tensor(rows, device=device))
    assert result.dtype == getattr(torch, dtype)
    assert_close(result, expected, TOLERANCE[dtype])


def assert_close(result, expected, tolerance):
    result = result.detach().double().cpu().numpy()
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


def cifar100_filter(cifar100, kind):
    """A chain of 60 labels, and rows for it."""
    logits, labels = cifar100
    rows = logits if kind == "logits" else softmax(logits, axis=1)
    removed = np.random.default_rng(0).permutation(100)[:60].tolist()
    return doors.fit(rows, labels, remove=removed, kind=kind), rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("method", "kind"), EVERY_CASE)
def test_eager_reproduces_the_golden_file(method, kind, dtype):
    assert_golden(FilterModule(golden_filter(method, kind)), method, kind, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("method", "kind"), EVERY_CASE)
def test_log_probabilities_are_the_logarithms_of_the_golden_file(method, kind, dtype):
    module = FilterModule(golden_filter(method, kind), output="log_probabilities")
    rows, expected = golden_case(method, kind, dtype)
    logs = module(torch.tensor(rows))
    assert logs.isfinite().all()
    assert_close(logs.double().exp(), expected, TOLERANCE[dtype])


@pytest.mark.parametrize(("method", "kind"), EVERY_CASE)
def test_bfloat16_is_close_to_the_golden_file(method, kind):
    rows = torch.tensor(GOLDEN[kind]).bfloat16()
    result = FilterModule(golden_filter(method, kind))(rows)
    assert result.dtype == torch.bfloat16
    assert_close(result, golden_case(method, kind, "float64")[1], BFLOAT16_TOLERANCE)


@compilers_own_warnings
@pytest.mark.parametrize(("method", "kind"), EVERY_CASE)
def test_the_whole_module_is_one_graph(method, kind):
    traced = torch.compile(
        FilterModule(golden_filter(method, kind)), fullgraph=True, backend="eager"
    )
    assert_golden(traced, method, kind, "float64")


@needs_compiler
@compilers_own_warnings
@pytest.mark.parametrize(
    ("method", "kind", "dtype"),
    [("calibrated", "logits", "float64"), ("osr", "probabilities", "float32")],
)
def test_compiled_reproduces_the_golden_file(method, kind, dtype):
    compiled = torch.compile(FilterModule(golden_filter(method, kind)), fullgraph=True)
    with torch.no_grad():
        assert_golden(compiled, method, kind, dtype)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")  # torch 2.11 loading
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("method", "kind"), [("calibrated", "logits"), ("osr", "probabilities"), ("mask", "logits")]
)
def test_exported_reproduces_the_golden_file_for_any_batch(method, kind, dtype):
    example = torch.tensor(golden_case(method, kind, dtype)[0][:5])
    exported = torch.export.export(
        FilterModule(golden_filter(method, kind)),
        (example,),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
    )
    content = io.BytesIO()
    torch.export.save(exported, content)
    content.seek(0)
    assert_golden(torch.export.load(content).module(), method, kind, dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_of_60_labels_equals_numpy(cifar100, kind, dtype, tolerance):
    fitted, rows = cifar100_filter(cifar100, kind)
    rows = rows.astype(dtype)
    result = FilterModule(fitted)(torch.tensor(rows))
    assert_close(result, fitted.apply(rows), tolerance)


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_logits_equal_numpy_and_have_finite_gradients(cifar100, dtype, scale):
    fitted, _ = cifar100_filter(cifar100, "logits")
    rows = np.random.default_rng(1).uniform(-scale, scale, (50, 100)).astype(dtype)
    given = torch.tensor(rows, requires_grad=True)
    logs = FilterModule(fitted, output="log_probabilities")(given)
    assert logs.isfinite().all()
    # In float32, removed labels more than 87 below the row's largest logit count as nothing.
    if (dtype, scale) not in {("float32", 1e4), ("float32", 1e6)}:
        assert_close(logs.exp(), fitted.apply(rows), TOLERANCE[dtype])
    logs.sum().backward()
    assert given.grad.isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", METHODS)
def test_labels_masked_by_minus_infinity_equal_numpy(method, dtype):
    rows = golden_case(method, "logits", dtype)[0][:8].copy()
    rows[0, 0] = rows[1, 1] = -np.inf
    rows[2, GOLDEN["removed"]] = -np.inf
    rows[3, np.setdiff1d(np.arange(10), GOLDEN["removed"])] = -np.inf
    rows[4, np.setdiff1d(np.arange(10), GOLDEN["removed"][:1])] = -np.inf
    fitted = golden_filter(method, "logits")
    result = FilterModule(fitted)(torch.tensor(rows))
    expected = replace(fitted, temperature=1.0).apply(rows.astype(float) / fitted.temperature)
    assert_close(result, expected, TOLERANCE[dtype])


def test_log_probabilities_do_not_underflow_as_probabilities_do():
    fitted = golden_filter("mask", "logits")
    rows = torch.tensor(GOLDEN["logits"] * 100, dtype=torch.float32)
    logs = FilterModule(fitted, output="log_probabilities")(rows)
    assert logs.min() < -500
    expected = log_softmax(
        rows.double().numpy()[:, np.setdiff1d(np.arange(10), GOLDEN["removed"])], axis=1
    )
    np.testing.assert_allclose(logs, expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("output", ["probabilities", "log_probabilities"])
@pytest.mark.parametrize(("method", "kind"), EVERY_CASE)
def test_gradients_are_those_of_finite_differences(method, kind, output):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(3, 10)) if kind == "logits" else rng.dirichlet(np.ones(10), 3)
    given = torch.tensor(rows, requires_grad=True)
    module = FilterModule(golden_filter(method, kind), output=output)
    assert torch.autograd.gradcheck(module, given)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_removed_mass_is_that_of_the_calibrated_outputs(kind, dtype):
    rows = GOLDEN[kind].astype(dtype)
    exact = softmax(rows.astype(float), axis=1) if kind == "logits" else rows.astype(float)
    expected = [
        plain.at_temperature(row / row.sum(), GOLDEN["temperature"])[GOLDEN["removed"]].sum()
        for row in exact
    ]
    mass = FilterModule(golden_filter("calibrated", kind)).removed_mass(torch.tensor(rows))
    assert_close(mass, expected, 1e-12 if dtype == "float64" else 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("output", ["probabilities", "log_probabilities"])
@pytest.mark.parametrize(("method", "kind"), EVERY_CASE)
def test_gradients_of_saturated_rows_are_finite(method, kind, output, dtype):
    one_hot = np.eye(10)
    rows = np.vstack([GOLDEN[kind], 90 * one_hot if kind == "logits" else one_hot])
    given = torch.tensor(rows, dtype=getattr(torch, dtype), requires_grad=True)
    result = FilterModule(golden_filter(method, kind), output=output)(given)
    (result * torch.arange(7)).sum().backward()
    assert given.grad.isfinite().all()


def test_gradients_reach_the_weights_of_a_model():
    model = torch.nn.Linear(4, 10)
    filtered = attach(model, golden_filter("osr", "logits"), output="log_probabilities")
    torch.nn.functional.nll_loss(filtered(torch.ones(2, 4)), torch.tensor([0, 6])).backward()
    assert model.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("shape", [(10,), (0, 10), (2, 3, 10)])
def test_a_row_a_batch_and_sequences_are_filtered(shape):
    fitted = golden_filter("calibrated", "logits")
    rows = torch.tensor(np.random.default_rng(3).normal(size=shape))
    result = FilterModule(fitted)(rows)
    assert result.shape == (*shape[:-1], 7)
    assert_close(result.reshape(-1, 7), fitted.apply(rows.reshape(-1, 10).numpy()), 1e-12)


def test_a_filter_that_removes_nothing_is_the_softmax():
    fitted = doors.fit([[0.0, 2.0]], remove=[], kind="logits", method="mask")
    for same in (fitted, replace(fitted, method="osr")):
        result = FilterModule(same)(torch.tensor([[0.0, 1.0]]))
        assert_close(result, [[0.26894142, 0.73105858]], 1e-6)


def test_autocast_changes_neither_the_numbers_nor_the_dtype():
    rows, expected = golden_case("osr", "logits", "float32")
    module = FilterModule(golden_filter("osr", "logits"))
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        result = module(torch.tensor(rows))
    assert result.dtype == torch.float32
    assert_close(result, expected, TOLERANCE["float32"])


def test_the_state_dict_carries_the_filter():
    rows = torch.tensor(GOLDEN["probabilities"])
    fitted = golden_filter("calibrated", "probabilities")
    module = FilterModule(fitted)
    other = FilterModule(replace(fitted, temperature=3.0))
    assert not torch.equal(other(rows), module(rows))
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(rows), module(rows))


def test_the_state_of_a_filter_for_other_labels_is_refused():
    rows = np.eye(4)
    first, second = (FilterModule(doors.fit(rows, range(4), remove=[label])) for label in (0, 3))
    with pytest.raises(UnlabelError, match="changes other labels"):
        torch.nn.Sequential(first).load_state_dict(torch.nn.Sequential(second).state_dict())
    assert first.order.tolist() == [0, 1, 2, 3]


def test_a_module_may_be_made_without_memory_and_filled_later():
    fitted = golden_filter("osr", "probabilities")
    with torch.device("meta"):
        module = FilterModule(fitted)
    module = module.to_empty(device="cpu")
    module.load_state_dict(FilterModule(fitted).state_dict())
    rows = torch.tensor(GOLDEN["probabilities"])
    assert torch.equal(module(rows), FilterModule(fitted)(rows))


def test_other_objects_than_filters_and_models_are_refused():
    for wrong in ("removed.safetensors", {"cat": None}):
        with pytest.raises(UnlabelError, match=f"The filter is a {type(wrong).__name__}: give an"):
            FilterModule(wrong)
    with pytest.raises(UnlabelError, match=r"The model is a function: give a torch\.nn\.Module"):
        attach(lambda rows: rows, golden_filter("osr", "logits"))


def test_the_buffers_are_never_coarser_than_float32():
    module = FilterModule(golden_filter("calibrated", "logits"))
    state = module.state_dict()
    for coarse in (module.half(), module.bfloat16(), module.to(torch.float16)):
        assert all(torch.equal(state[name], now) for name, now in coarse.state_dict().items())
    assert module.float().shares.dtype == torch.float32
    assert_golden(module, "calibrated", "logits", "float32")
    assert module.to(torch.float64).shares.dtype == torch.float64
    assert module.to("meta").shares.is_meta


@pytest.mark.skipif(not HAS_TORCHVISION, reason="torchvision is not installed")
def test_a_resnet18_loses_labels():
    from torchvision.models import resnet18

    model = resnet18(num_classes=10).eval()
    fitted = golden_filter("osr", "logits")
    filtered = attach(model, fitted)
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        assert_close(filtered(images), fitted.apply(model(images).numpy()), 1e-6)
        halved = filtered.bfloat16()(images.bfloat16())
    assert halved.dtype == torch.bfloat16
    assert not filtered.training


def test_a_wrapped_model_is_called_as_before():
    class TwoInputs(torch.nn.Module):
        def forward(self, left, *, right):
            return left + right

    rows = torch.tensor(GOLDEN["logits"])
    filtered = attach(TwoInputs(), golden_filter("osr", "probabilities"), "logits")
    expected = golden_case("osr", "logits", "float64")[1]
    assert_close(filtered(rows / 2, right=rows / 2), expected, 1e-12)


def test_rows_that_are_not_probabilities_become_nan():
    rows = np.full((4, 10), 0.1)
    rows[1] = GOLDEN["logits"][0]
    rows[2, 0] = np.nan
    rows[3] = 0.2
    module = FilterModule(golden_filter("osr", "probabilities"))
    assert module(torch.tensor(rows)).isnan().all(dim=1).tolist() == [False, True, True, True]
    assert module.removed_mass(torch.tensor(rows)).isnan().tolist() == [False, True, True, True]


@pytest.mark.parametrize("low", [-1e29, -6e29, -1e35, torch.finfo(torch.float32).min])
def test_rows_of_very_low_logits_equal_numpy_with_gradients_too(low):
    fitted = golden_filter("osr", "logits")
    rows = torch.full((2, 10), low)
    rows[1, 1] = low / 2  # the only one that counts
    expected = torch.tensor(fitted.apply(rows.numpy()))
    torch.testing.assert_close(FilterModule(fitted)(rows), expected)
    torch.testing.assert_close(FilterModule(fitted)(rows.requires_grad_()).detach(), expected)


def test_a_far_lead_of_a_removed_label_costs_no_digits():
    fitted = golden_filter("mask", "logits")
    rows = torch.linspace(0, 1, 10).repeat(1, 1)
    rows[0, GOLDEN["removed"][0]] = 1e6
    expected = torch.tensor(fitted.apply(rows.numpy()))
    torch.testing.assert_close(FilterModule(fitted)(rows.requires_grad_()).detach(), expected)


def test_wrong_arguments_are_refused_in_one_sentence():
    fitted = golden_filter("osr", "logits")
    with pytest.raises(UnlabelError, match="'scores' is not known"):
        FilterModule(fitted, "scores")
    with pytest.raises(UnlabelError, match="'logits' is not known"):
        FilterModule(fitted, output="logits")
    module = FilterModule(fitted)
    for shape in ((2, 9), ()):
        with pytest.raises(UnlabelError, match="and the filter 10 labels"):
            module(torch.zeros(shape))
    with pytest.raises(UnlabelError, match=r"given torch.int64: give one tensor of floats"):
        module(torch.zeros(2, 10, dtype=torch.int64))
    with pytest.raises(UnlabelError, match=r"given torch.float8_e4m3fn: give one tensor of floats"):
        module(torch.zeros(2, 10, dtype=torch.float8_e4m3fn))
    with pytest.raises(UnlabelError, match="given tuple: give one tensor of floats"):
        module((torch.zeros(2, 10),))


def test_a_module_can_be_pickled():
    module = FilterModule(golden_filter("osr", "probabilities"))
    assert_golden(pickle.loads(pickle.dumps(module)), "osr", "probabilities", "float64")


WITHOUT_PYTORCH = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, Hidden())
import unlabel.torch
"""


def test_without_pytorch_the_import_names_the_extra():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTORCH], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "unlabel.errors.MissingExtraError: The module torch is not installed: "
        "pip install 'unlabel[torch]'."
    )
