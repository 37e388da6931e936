"""Labels that are merged, renamed and split, beside loops over labels and a dense matrix."""

# ruff: noqa: E402  (optional libraries are looked for first)
import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import plain
from unlabel import OutputFilter, UnlabelError
from unlabel.fitting import fit_filter
from unlabel.torch import FilterModule, chain, operator

needs_cuda = pytest.mark.skipif(
    not (torch.cuda.is_available() and operator.has_kernels()), reason="no CUDA device here"
)
compilers_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
ON_DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
OUTPUTS = ("probabilities", "log_probabilities")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 4e-3}
LABELS = [*"abcdefgh"]
# Retired, retired into, merged, renamed, swapped, split, and sent to a new label.
PLAN = {
    "a": None,
    "b": "c",
    "d": "other",
    "e": "f",
    "f": "e",
    "g": {"c": 0.25, "left": 0.5, "right": 0.25},
    "h": "other",
}
SPLITS = {"a": {"x": 0.5, "y": 0.5}, "b": {"z": 1 / 3, "x": 1 / 3, "b": 1 / 3}, "d": None}


def parts_of(plan, label):
    to = plan.get(label, label)
    return to if isinstance(to, dict) else {to: 1.0}


def results_of(plan, labels):
    """The result's labels: in the order of the first old label that goes there."""
    seen = {}
    for label in labels:
        if plan.get(label, label) is not None:
            seen |= dict.fromkeys(parts_of(plan, label))
    return [*seen]


def dense(plan, labels):
    """The matrix from the retained labels to the result's."""
    retained = [label for label in labels if plan.get(label, label) is not None]
    results = results_of(plan, labels)
    matrix = np.zeros((len(retained), len(results)))
    for row, label in enumerate(retained):
        for to, weight in parts_of(plan, label).items():
            matrix[row, results.index(to)] = weight
    return matrix


def references(plan, n, seed=0):
    """Reference rows of each retired label, in the plan's order."""
    rng = np.random.default_rng(seed)
    retired = [LABELS.index(label) for label, to in plan.items() if to is None]
    return retired, [rng.dirichlet(1 + 4 * np.eye(n)[column], 5) for column in retired]


def fitted_filter(plan, n=8, method="osr", **changes):
    labels = LABELS[:n]
    if method == "mask":
        return replace(OutputFilter.mask(labels, plan), **changes)
    retired, rows = references(plan, n)
    truth = [labels[column] for column in retired for _ in range(5)]
    # A row of a label that stays, since there must be one.
    rows, truth = np.vstack([*rows, np.full((1, n), 1 / n)]), [*truth, staying_label(plan)]
    return replace(fit_filter(rows, truth, classes=labels, remove=plan), **changes)


def staying_label(plan):
    return next(label for label in LABELS if plan.get(label, label) is not None)


def changed(row, plan, method, temperature=1.0):
    """One row of probabilities by the plan, label by label."""
    n = len(row)
    retired, rows = references(plan, n)
    if method == "osr":
        left = plain.apply_row(np.asarray(row, float), plain.fit(rows, retired, n))
    else:
        left = np.delete(row, retired)
        left = left / left.sum()
    sums = dict.fromkeys(results_of(plan, LABELS[:n]), 0.0)
    retained = [label for label in LABELS[:n] if plan.get(label, label) is not None]
    for label, probability in zip(retained, left, strict=True):
        for to, weight in parts_of(plan, label).items():
            sums[to] += weight * probability
    powers = [value ** (1 / temperature) for value in sums.values()]
    return [power / math.fsum(powers) for power in powers]


def softmax(row):
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def drawn_rows(n, input, dtype, seed, n_rows=4):
    logits = 3 * np.random.default_rng(seed).normal(size=(n_rows, n))
    rows = logits if input == "logits" else np.apply_along_axis(softmax, 1, logits)
    return torch.tensor(rows).to(dtype)


def expected_of(rows, input, plan, method, temperature=1.0):
    exact = rows.double().cpu().numpy()
    exact = [softmax(row) if input == "logits" else row / row.sum() for row in exact]
    return np.array([changed(row, plan, method, temperature) for row in exact])


def assert_close(result, expected, tolerance, output="probabilities"):
    result = result.detach().double().cpu()
    result = result.exp() if output == "log_probabilities" else result
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=tolerance)


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


@settings(deadline=None, max_examples=150)
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
    assert module.classes == tuple(results_of(plan, LABELS[:n]))
    options = (-1, input == "logits", output == "log_probabilities")
    for result in (
        module(rows),
        FilterModule(fitted, output=output, dim=0)(rows.T).T,
        FilterModule(fitted, output=output, dim=1)(rows.T.view(1, n, 2, 2)).movedim(1, -1)[0],
        *(chain.filter_rows(rows, module._recipe(), *options, f) for f in (chain.jump, chain.walk)),
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
    arguments = (rows, *operator.taken_apart(recipe), -1, True, False)
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


OTHER_DESTINATIONS = {
    "another merge": PLAN | {"h": "c"},
    "another name": PLAN | {"d": "others", "h": "others"},
    "other weights": PLAN | {"g": {"c": 0.5, "left": 0.25, "right": 0.25}},
    "none": {"a": None},
    "only names": {"a": None, "b": "bee"},
}


@pytest.mark.parametrize("how", OTHER_DESTINATIONS)
def test_the_state_of_other_destinations_is_refused(how):
    plan, other = (
        FilterModule(fitted_filter(each, method="mask")) for each in (PLAN, OTHER_DESTINATIONS[how])
    )
    for module, state in ((plan, other.state_dict()), (other, plan.state_dict())):
        before = copy.deepcopy(module.state_dict())
        with pytest.raises(UnlabelError, match=r"^The state sends labels to other dest.*filter\.$"):
            module.load_state_dict(state, strict=False)
        assert all(torch.equal(before[name], now) for name, now in module.state_dict().items())


def test_the_state_of_a_plan_in_other_words_is_taken():
    other = dict(reversed(PLAN.items())) | {"c": "c"}
    module = FilterModule(fitted_filter(other, temperature=3.0))
    module.load_state_dict(FilterModule(fitted_filter(PLAN)).state_dict())
    rows = drawn_rows(8, "probabilities", torch.float64, seed=9)
    assert_close(module(rows), expected_of(rows, "probabilities", PLAN, "osr"), 1e-12)


def test_the_state_has_the_merge_and_never_coarser_than_float32():
    fitted = fitted_filter(PLAN)
    module = FilterModule(fitted)
    merge = fitted.outcome.merge
    for name in ("sources", "starts", "weights"):
        np.testing.assert_array_equal(module.state_dict()[name], getattr(merge, name))
    assert torch.equal(module.half().weights, torch.tensor(merge.weights))
    assert module.float().weights.dtype == torch.float32
    rows = drawn_rows(8, "probabilities", torch.float32, seed=10)
    expected = expected_of(rows, "probabilities", PLAN, "osr")
    for again in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_close(again(rows), expected, 1e-6)


def test_values_of_a_merge_may_come_later():
    fitted, rows = fitted_filter(PLAN), drawn_rows(8, "probabilities", torch.float64, seed=11)
    module = FilterModule(fitted).to("meta")
    result = module(torch.empty(3, 4, 8, device="meta", dtype=torch.float16))
    assert (result.shape, result.dtype) == ((3, 4, 6), torch.float16)
    module = module.to_empty(device="cpu")
    module.load_state_dict(FilterModule(fitted).state_dict())
    assert torch.equal(module(rows), FilterModule(fitted)(rows))
