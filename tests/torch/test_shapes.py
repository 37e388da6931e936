"""Which dimension holds the labels, and what is left open when a module is exported."""

# ruff: noqa: E402  (optional libraries are looked for first)
import copy
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import doors
from golden_integrations import KINDS, golden_case, golden_filter
from unlabel import UnlabelError
from unlabel.torch import FilteredModel, FilterModule, attach

Dim = torch.export.Dim
HINTS = [Dim("batch"), Dim.AUTO, Dim.DYNAMIC]
SAME_SIZES = [(2, 10, 10), (1, 10, 10, 10), (2, 1, 3, 10), (2, 10, 3, 4)]


def rows_of(*shape, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(0).normal(size=shape)).to(dtype)


@pytest.mark.parametrize("shape", SAME_SIZES, ids=str)
def test_a_shape_that_leaves_the_dimension_open_is_refused(shape):
    module = FilterModule(golden_filter("osr", "logits"))
    with pytest.raises(
        UnlabelError, match=r"the shape \(.*\): name the dimension of the 10 labels, 1 for"
    ):
        module(rows_of(*shape))


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((2, 10, 10), 1),
        ((2, 10, 10), -1),
        ((1, 10, 10, 10), 1),
        ((2, 10, 3, 4), 1),
        ((2, 3, 10, 4), -2),
        ((2, 3, 4, 10), 3),
        ((10, 5), 0),
        ((10,), 0),
    ],
    ids=str,
)
def test_the_dimension_given_as_dim_is_filtered(shape, dim):
    fitted = golden_filter("osr", "logits")
    rows = rows_of(*shape)
    result = FilterModule(fitted, dim=dim)(rows)
    expected = np.apply_along_axis(lambda row: fitted.apply(row[None])[0], dim, rows.numpy())
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    assert result.is_contiguous()  # as the result of torch.softmax is


def test_a_dimension_that_is_not_that_of_the_labels_is_refused():
    fitted = golden_filter("osr", "logits")
    for shape, dim in (((2, 10), 2), ((2, 10), -3), ((10, 3), 1), ((2, 3, 10), 1)):
        with pytest.raises(UnlabelError, match=f"dimension {dim} must be that of the labels"):
            FilterModule(fitted, dim=dim)(rows_of(*shape))
    with pytest.raises(UnlabelError, match="'channels' is not an integer"):
        FilterModule(fitted, dim="channels")


def test_channels_last_in_memory_is_not_channels_last_in_shape():
    images = rows_of(2, 10, 10, 10)
    module = FilterModule(golden_filter("osr", "logits"), dim=1)
    turned = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(module(turned), module(images))


@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_module_takes_any_batch(method, kind, hint):
    module = FilterModule(golden_filter(method, kind))
    rows, expected = golden_case(method, kind, "float64")
    exported = torch.export.export(
        module, (torch.tensor(rows[:2]),), dynamic_shapes={"confidences": {0: hint}}
    ).module()
    for size in (1, 2, 7):
        result = exported(torch.tensor(rows[:size]))
        np.testing.assert_allclose(result, expected[:size], rtol=0, atol=1e-12)


@pytest.mark.parametrize("hint", HINTS, ids=str)
@pytest.mark.parametrize("how", ["in order", "by name"])
def test_an_exported_model_takes_any_batch(hint, how):
    filtered = attach(torch.nn.Linear(4, 10), golden_filter("osr", "logits"))
    open_sizes = {"input": {0: hint}} if how == "by name" else ({0: hint},)
    exported = torch.export.export(filtered, (torch.ones(2, 4),), dynamic_shapes=open_sizes)
    for size in (1, 2, 7):
        images = torch.rand(size, 4)
        assert torch.allclose(exported.module()(images), filtered(images))


class TwoInputs(torch.nn.Module):
    def forward(self, left, *, right):
        return left + right


def test_an_exported_model_keeps_the_names_of_its_arguments():
    filtered = attach(TwoInputs(), golden_filter("osr", "logits"))
    batch = {0: Dim("batch")}
    exported = torch.export.export(
        filtered,
        (rows_of(2, 10),),
        {"right": rows_of(2, 10)},
        dynamic_shapes={"left": batch, "right": batch},
    ).module()
    left, right = rows_of(5, 10), rows_of(5, 10)
    torch.testing.assert_close(exported(left, right=right), filtered(left, right=right))


@pytest.mark.parametrize("sizes", [(Dim("batch"), Dim("time")), (Dim.AUTO, Dim.AUTO)], ids=str)
def test_exported_sequences_may_be_as_long_as_there_are_labels(sizes):
    module = FilterModule(golden_filter("osr", "logits"))
    exported = torch.export.export(
        module, (rows_of(2, 5, 10),), dynamic_shapes=(dict(enumerate(sizes)),)
    ).module()
    for shape in ((3, 4, 10), (2, 10, 10)):
        rows = rows_of(*shape)
        expected = module(rows.flatten(0, 1)).unflatten(0, shape[:2])
        assert torch.allclose(exported(rows), expected)


# PyTorch's compiler itself does what PyTorch deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_sequences_with_dim_are_exported_strictly_too():
    module = FilterModule(golden_filter("osr", "logits"), dim=-1)
    sizes = {0: Dim("batch"), 1: Dim("time")}
    exported = torch.export.export(
        module, (rows_of(2, 5, 10),), dynamic_shapes=(sizes,), strict=True
    ).module()
    rows = rows_of(3, 10, 10)
    assert torch.allclose(exported(rows), module(rows))


def test_an_exported_segmentation_takes_any_size():
    module = FilterModule(golden_filter("osr", "logits"), dim=1)
    sizes = {0: Dim("batch"), 2: Dim("height"), 3: Dim("width")}
    exported = torch.export.export(module, (rows_of(2, 10, 3, 4),), dynamic_shapes=(sizes,))
    images = rows_of(1, 10, 10, 10)
    assert torch.allclose(exported.module()(images), module(images))


def test_a_filtered_model_can_be_pickled_and_copied():
    filtered = attach(torch.nn.Linear(4, 10), golden_filter("osr", "logits"))
    images = torch.rand(3, 4)
    for again in (pickle.loads(pickle.dumps(filtered)), copy.deepcopy(filtered)):
        assert isinstance(again, FilteredModel)
        assert again.model is not filtered.model
        assert torch.equal(again(images), filtered(images))


@pytest.mark.parametrize("made", ["script", "trace"])
def test_a_model_of_torchscript_is_filtered_too(made):
    model = torch.nn.Linear(3, 3)
    rows = torch.rand(5, 3)
    with warnings.catch_warnings(action="ignore"):  # TorchScript is on its way out
        scripted = torch.jit.script(model) if made == "script" else torch.jit.trace(model, rows)
    fitted = doors.mask([0, 1, 2], [1], kind="logits")
    expected = attach(model, fitted)(rows)
    torch.testing.assert_close(attach(scripted, fitted)(rows), expected)
