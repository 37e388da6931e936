"""One PyTorch operator that filters rows, and the one place that decides what executes it."""

# No postponed annotations: PyTorch reads an operator's types.
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.autograd import forward_ad

from unlabel._method import backend
from unlabel._method.chain import LARGEST
from unlabel._method.chain import Recipe as CoreRecipe
from unlabel._method.merge import Merge as CoreMerge
from unlabel._method.restrict import restrict
from unlabel.torch import plain
from unlabel.torch.gradients import LIMITS
from unlabel.torch.merge import Merge
from unlabel.torch.plain import SUM_TOLERANCE, Recipe

KERNEL_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def filter_rows(
    rows: Tensor,
    recipe: Recipe,
    dim: int,
    logits: bool,
    log_output: bool,
    allow: Tensor | None = None,
    absolute: bool = False,
) -> Tensor:
    """Filter the dimension `dim` of a tensor, counted from the end.

    `allow` has the shape of the result.
    """
    follow = choose(rows)
    if follow is None:
        return operator(rows, allow, *taken_apart(recipe), dim, logits, log_output, absolute)
    return plain.filter_rows(rows, recipe, dim, logits, log_output, follow, allow, absolute)


def choose(rows: Tensor) -> plain.Driver | None:
    """Give the plain form to use, or None for the operator.

    Derivatives need the plain form, and so do exported graphs, which run without unlabel.
    """
    # Not `is_exporting()`: compilers of some versions take it for true.
    if torch.compiler._is_exporting_flag:
        return plain.walk
    if torch.compiler.is_compiling():
        return None
    inner = rows
    while functorch.is_batchedtensor(inner):  # what `torch.vmap` maps over
        inner = functorch.get_unwrapped(inner)
    is_transformed = functorch.is_functorch_wrapped_tensor(inner)  # by `torch.func.grad`, say
    has_gradient = inner.requires_grad and torch.is_grad_enabled()
    if not (is_transformed or has_gradient or forward_ad.unpack_dual(inner).tangent is not None):
        return None
    is_plain = type(rows) in (Tensor, torch.nn.Parameter) and not is_transformed
    return plain.jump if is_plain and inner is rows and not rows.is_meta else plain.walk


def taken_apart(recipe: Recipe) -> tuple[list[Tensor], list[int]]:
    """Give a recipe as the arguments that an operator may have: its arrays and its sizes."""
    n_retained, *arrays, merge = recipe
    *merged, groups = ([],) if merge is None else merge
    return [array for array in (*arrays, *merged) if array is not None], [n_retained, *groups]


def put_together(arrays: list[Tensor], sizes: list[int]) -> Recipe:
    """Make the recipe that was taken apart."""
    n_retained, *groups = sizes
    if not groups:
        return Recipe(n_retained, *arrays)
    end = len(arrays) - len(Merge._fields) + 1
    merge = Merge._make([*arrays[end:], groups])
    return Recipe(n_retained, *arrays[:end])._replace(merge=merge)


def has_kernels() -> bool:
    """Whether Triton, which compiles the kernels, came with PyTorch."""
    return find_spec("triton") is not None


@torch.library.custom_op("unlabel::filter_rows", mutates_args=())
def operator(
    rows: Tensor,
    allow: Tensor | None,
    arrays: list[Tensor],
    sizes: list[int],
    dim: int,
    logits: bool,
    log_output: bool,
    absolute: bool,
) -> Tensor:
    """Filter rows by what is fastest where they are, with a recipe that was taken apart."""
    recipe = put_together(arrays, sizes)
    if rows.device.type == "cpu":
        return _in_the_core(rows, recipe, dim, logits, log_output, allow, absolute)
    if rows.is_cuda and rows.dtype in KERNEL_TYPES and has_kernels():
        return _in_kernels(rows, recipe, dim, logits, log_output, allow, absolute)
    return plain.filter_rows(rows, recipe, dim, logits, log_output, plain.jump, allow, absolute)


def _in_the_core(
    rows: Tensor,
    recipe: Recipe,
    dim: int,
    logits: bool,
    log_output: bool,
    allow: Tensor | None,
    absolute: bool,
) -> Tensor:
    turned = rows.detach().movedim(dim, -1)
    given = turned.reshape(-1, turned.shape[-1])
    given = given.to(torch.promote_types(rows.dtype, torch.float32))
    order = recipe.order.numpy()
    # A coarser type may have turned the largest of the numbers into infinity.
    numbers = recipe.numbers.double().clamp(max=LARGEST)
    pulls, shares, numbers = (x.double().numpy() for x in (recipe.pulls, recipe.shares, numbers))
    filtered = backend.filter_rows(
        CoreRecipe(order, pulls, shares, numbers, order[-recipe.n_retained :], _core_merge(recipe)),
        given.numpy(),
        "logits" if logits else "probabilities",
        temperature=1.0 if recipe.temperature is None else recipe.temperature.item(),
        tolerance=SUM_TOLERANCE,
    )
    result = torch.from_numpy(filtered.rows)
    if allow is not None:
        allow = allow.movedim(dim, -1).reshape(result.shape)
        some = allow.any(-1, keepdim=True)
        restrict(filtered.rows, (allow | ~some).numpy(), np.arange(len(result)), absolute=absolute)
        result.masked_fill_(~some, torch.nan)
    if log_output:
        # Logarithms of probabilities that are lost, or nearly, come from the plain form.
        is_low = result < LIMITS[result.dtype].nothing
        low = (is_low if allow is None else is_low & allow).any(-1).nonzero()[:, 0]
        result = result.log_()
        options = (plain.jump, None if allow is None else allow[low], absolute)
        result[low] = plain.filter_rows(given[low], recipe, -1, logits, True, *options)
        result = result.clamp_(min=torch.finfo(rows.dtype).min)
    result = result.to(rows.dtype).view(*turned.shape[:-1], recipe.n_results)
    return result.movedim(-1, dim).contiguous()


def _core_merge(recipe: Recipe) -> CoreMerge | None:
    if recipe.merge is None:
        return None
    sources, starts = recipe.merge.sources.numpy(), recipe.merge.starts.numpy()
    weights = recipe.merge.weights.double().numpy()
    # A coarser type may have rounded the weights of a split, which sum to 1.
    return CoreMerge(sources, starts, weights / np.bincount(sources, weights)[sources])


def _in_kernels(
    rows: Tensor,
    recipe: Recipe,
    dim: int,
    logits: bool,
    log_output: bool,
    allow: Tensor | None = None,
    absolute: bool = False,
) -> Tensor:
    from unlabel.torch import kernels

    if recipe.merge is not None or allow is not None:
        bare = recipe._replace(temperature=None, merge=None)
        logs = _in_kernels(rows.float(), bare, dim, logits, True).movedim(dim, -1)
        allow = None if allow is None else allow.movedim(dim, -1)
        result = plain.finish(logs, recipe, log_output, rows.dtype, allow, absolute)
        return result.movedim(-1, dim).contiguous()
    arrays = [array.float() for array in recipe[2:-1] if array is not None]
    options = (recipe.n_retained, dim % rows.ndim, logits, log_output)
    with torch.cuda.device(rows.device):
        return kernels.filter_rows(rows.contiguous(), *options, recipe.order, *arrays)


@operator.register_fake
def _(rows: Tensor, allow: Any, arrays: Any, sizes: Any, dim: int, *options: bool) -> Tensor:
    shape = list(rows.shape)
    shape[dim] = put_together(arrays, sizes).n_results
    return rows.new_empty(shape)


@operator.register_vmap
def _(
    info: Any, batched_at: tuple[Any, ...], rows: Tensor, allow: Tensor | None, *more: Any
) -> tuple[Tensor, int]:
    # Nobody maps over a filter's arrays, and `dim` is counted from the end.
    rows, allow = (
        each
        if each is None
        else each.expand(info.batch_size, *each.shape)
        if at is None
        else each.movedim(at, 0)
        for each, at in zip((rows, allow), batched_at[:2], strict=True)
    )
    return operator(rows, allow, *more), 0


@torch.library.custom_op("unlabel::filter_rows_backward", mutates_args=())
def backward(
    gradient: Tensor,
    rows: Tensor,
    allow: Tensor | None,
    arrays: list[Tensor],
    sizes: list[int],
    dim: int,
    logits: bool,
    log_output: bool,
    absolute: bool,
) -> Tensor:
    """Give the gradient with respect to the rows, by the plain form."""
    recipe = put_together(arrays, sizes)

    def forward(rows: Tensor) -> Tensor:
        options = (dim, logits, log_output, plain.jump, allow, absolute)
        return plain.filter_rows(rows, recipe, *options)

    # Not `torch.autograd.grad`: an operator is executed below autograd.
    result: Tensor = torch.func.vjp(forward, rows)[1](gradient)[0]
    return result


@backward.register_fake
def _(gradient: Tensor, rows: Tensor, *more: Any) -> Tensor:
    return torch.empty_like(rows)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    rows, allow, arrays, *ctx.options = inputs
    ctx.save_for_backward(rows, allow, *arrays)


def _pull_back(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    rows, allow, *arrays = ctx.saved_tensors
    result = backward(gradient, rows, allow, arrays, *ctx.options)
    return result, None, [None] * len(arrays), *[None] * 5


operator.register_autograd(_pull_back, setup_context=_keep)
