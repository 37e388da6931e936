"""States that a filter's module takes and refuses, and modules without values."""

# ruff: noqa: E402  (optional libraries are looked for first)
import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file

import doors
from golden_integrations import CLASSES, GOLDEN, golden_filter
from plain_merge import PLAN, SPLITS, assert_close, drawn_rows, expected_of, fitted_filter
from unlabel import OutputFilter, UnlabelError
from unlabel.filter import outcome_of_filter
from unlabel.torch import FilterModule, attach

OTHER_STATE = (
    "^The state is of a filter that changes other labels, or in another way: make the module from "
    "the same filter.$"
)
ROWS = torch.tensor(GOLDEN["probabilities"])


def with_labels(fitted, names):
    """The same filter for labels of other names."""
    new = dict(zip(fitted.classes_in, names, strict=True))
    return OutputFilter(
        classes_in=names,
        plan=[new[label] for label in fitted.removed],
        means=fitted.means,
        shares=fitted.shares,
        counts=fitted.counts,
        method=fitted.method,
        kind=fitted.kind,
    )


OTHER_LABELS = {
    "other names": ["plane", *CLASSES[1:]],
    "another order": [CLASSES[1], CLASSES[0], *CLASSES[2:]],
    "numbers": list(range(10)),
}


@pytest.mark.parametrize("how", OTHER_LABELS)
@pytest.mark.parametrize("method", ["osr", "mask"])
def test_the_state_of_other_labels_is_refused(method, how):
    fitted = golden_filter(method, "logits")
    state = attach(torch.nn.Linear(4, 10), with_labels(fitted, OTHER_LABELS[how]))
    model = attach(torch.nn.Linear(4, 10), fitted)
    with pytest.raises(UnlabelError, match="changes other labels"):
        model.load_state_dict(state.state_dict())


def test_texts_of_numbers_are_other_labels_than_numbers():
    fitted = golden_filter("osr", "logits")
    texts = FilterModule(with_labels(fitted, [str(number) for number in range(10)]))
    with pytest.raises(UnlabelError, match="changes other labels"):
        FilterModule(with_labels(fitted, range(10))).load_state_dict(texts.state_dict())


def test_the_state_of_another_method_is_refused():
    osr, mask = (FilterModule(golden_filter(method, "logits")) for method in ("osr", "mask"))
    for module, other in ((osr, mask), (mask, osr)):
        with pytest.raises(UnlabelError, match="changes other labels"):
            module.load_state_dict(other.state_dict(), strict=False)


def test_kind_output_and_dim_are_not_in_the_state():
    module = FilterModule(golden_filter("osr", "probabilities"), dim=1)
    module.load_state_dict(FilterModule(golden_filter("calibrated", "logits")).state_dict())
    expected = FilterModule(golden_filter("calibrated", "probabilities"))(ROWS)
    assert torch.equal(module(ROWS), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_a_state_may_be_stored_as_safetensors_and_in_any_type(tmp_path, dtype):
    fitted = golden_filter("osr", "probabilities")
    state = FilterModule(fitted).state_dict()
    save_file(
        {name: array.to(dtype) for name, array in state.items()}, tmp_path / "state.safetensors"
    )
    stored = load_file(tmp_path / "state.safetensors")
    module = FilterModule(replace(fitted, temperature=3.0))
    assert not module.load_state_dict(stored).missing_keys
    assert torch.allclose(module(ROWS), FilterModule(fitted)(ROWS), atol=2e-2)
    with pytest.raises(UnlabelError, match="changes other labels"):
        FilterModule(with_labels(fitted, range(10))).load_state_dict(stored)


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
def test_the_largest_numbers_may_become_infinite_in_float32(form):
    # References that are all on their own label rule out any residual next to another label.
    fitted = doors.fit(np.eye(4), range(4), remove=[0, 1])
    module = FilterModule(fitted).float()
    assert module.no_residual_below.isinf().any()
    rows = torch.tensor([[0.7, 0.1, 0.2, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0, 0]])
    result = module(rows.requires_grad_(form == "with a gradient"))
    expected = torch.tensor(fitted.apply(rows.detach().numpy()))
    torch.testing.assert_close(result.detach(), expected)


def without_values(fitted, how):
    if how == "made there":
        with torch.device("meta"):
            return FilterModule(fitted)
    return FilterModule(fitted).to("meta")


@pytest.mark.parametrize("how", ["made there", "moved there"])
@pytest.mark.parametrize("method", ["osr", "calibrated", "mask"])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_without_values_only_the_shapes_are_found(method, kind, how):
    module = without_values(golden_filter(method, kind), how)
    result = module(torch.empty(3, 4, 10, device="meta", dtype=torch.float16))
    assert (result.device.type, result.shape, result.dtype) == ("meta", (3, 4, 7), torch.float16)
    with pytest.raises(UnlabelError, match="on the meta device, without values: load its state"):
        module(ROWS)


@pytest.mark.parametrize("how", ["made there", "moved there"])
@pytest.mark.parametrize("filled", ["assigned", "copied"])
def test_values_may_come_later(how, filled):
    fitted = golden_filter("osr", "probabilities")
    module = without_values(fitted, how)
    if filled == "copied":
        module = module.to_empty(device="cpu")
    state = FilterModule(fitted).state_dict()
    module.load_state_dict(state, assign=filled == "assigned")
    assert torch.equal(module(ROWS), FilterModule(fitted)(ROWS))
    other = FilterModule(with_labels(fitted, range(10))).state_dict()
    with pytest.raises(UnlabelError, match="changes other labels"):
        without_values(fitted, how).load_state_dict(other, assign=True)


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
        with pytest.raises(UnlabelError, match=OTHER_STATE):
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
    merge = outcome_of_filter(fitted).merge
    for name in ("sources", "starts", "weights"):
        np.testing.assert_array_equal(module.state_dict()[name], getattr(merge, name))
    assert torch.equal(module.half().weights, torch.tensor(merge.weights))
    assert module.float().weights.dtype == torch.float32
    rows = drawn_rows(8, "probabilities", torch.float32, seed=10)
    expected = expected_of(rows, "probabilities", PLAN, "osr")
    for again in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_close(again(rows), expected, 1e-6)


@pytest.mark.parametrize("form", ["eager", "with a gradient"])
@pytest.mark.parametrize("output", ["probabilities", "log_probabilities"])
def test_rows_sum_to_1_with_weights_that_were_stored_in_float16(output, form):
    fitted, rows = fitted_filter(SPLITS), drawn_rows(8, "probabilities", torch.float64, seed=12)
    module = FilterModule(fitted, output=output)
    module.load_state_dict({name: x.half() for name, x in module.state_dict().items()})
    assert not torch.equal(module.weights, FilterModule(fitted).weights)
    result = module(rows.requires_grad_(form == "with a gradient"))
    expected = expected_of(rows.detach(), "probabilities", SPLITS, "osr")
    assert_close(result, expected, 2e-3, output)
    result = result.exp() if output == "log_probabilities" else result
    assert_close(result.sum(1), np.ones(4), 1e-12)


def test_values_of_a_merge_may_come_later():
    fitted, rows = fitted_filter(PLAN), drawn_rows(8, "probabilities", torch.float64, seed=11)
    module = FilterModule(fitted).to("meta")
    result = module(torch.empty(3, 4, 8, device="meta", dtype=torch.float16))
    assert (result.shape, result.dtype) == ((3, 4, 6), torch.float16)
    module = module.to_empty(device="cpu")
    module.load_state_dict(FilterModule(fitted).state_dict())
    assert torch.equal(module(rows), FilterModule(fitted)(rows))
