"""One PyTorch operator that filters rows, and the one place that decides what executes it."""

# No postponed annotations: PyTorch reads an operator's types.
import os
from importlib.util import find_spec
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.autograd import forward_ad

from unlabel._method import recipe as core
from unlabel._method.merge import Merge
from unlabel._method.run import restrict, run
from unlabel._typing import Kind
from unlabel.torch import plain
from unlabel.torch.recipe import ARRAYS, MERGE, STEPS, Recipe

KERNEL_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def filter_rows(
    rows: Tensor,
    recipe: Recipe,
    dim: int,
    logits: bool,
    log_output: bool,
    allow: Tensor | None = None,
) -> Tensor:
    """Filter the dimension `dim` of a tensor, counted from the end.

    `allow` has the shape of the result.
    """
    if _needs_plain_operators(rows):
        return plain.filter_rows(rows, recipe, dim, logits, log_output, allow)
    arrays = [array for array in recipe[: len(ARRAYS)] if array is not None]
    sizes = [recipe.n_retained, recipe.is_calibrated, *chain.from_iterable(recipe.groups)]
    return operator(rows, allow, arrays, sizes, dim, logits, log_output)


def _needs_plain_operators(rows: Tensor) -> bool:
    """Whether derivatives are wanted, or a graph is exported, which runs without unlabel."""
    # Not `is_exporting()`: compilers of some versions take it for true.
    if torch.compiler._is_exporting_flag:
        return True
    if torch.compiler.is_compiling():
        return False
    is_transformed = functorch.peek_interpreter_stack() is not None  # by `torch.vmap`, say
    has_gradient = rows.requires_grad and torch.is_grad_enabled()
    return is_transformed or has_gradient or forward_ad.unpack_dual(rows).tangent is not None


def runs_kernel(rows: Tensor) -> bool:
    """Whether the kernel takes these rows: Triton came with PyTorch, or interprets it on a CPU."""
    is_there = rows.is_cuda or (rows.device.type == "cpu" and is_interpreted())
    return is_there and rows.dtype in KERNEL_TYPES and find_spec("triton") is not None


def is_interpreted() -> bool:
    """Whether Triton runs kernels in Python, on tensors of the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@torch.library.custom_op("unlabel::filter_rows", mutates_args=())
def operator(
    rows: Tensor,
    allow: Tensor | None,
    arrays: list[Tensor],
    sizes: list[int],
    dim: int,
    logits: bool,
    log_output: bool,
) -> Tensor:
    """Filter rows by what is fastest where they are, with a recipe that was taken apart."""
    recipe = _put_together(arrays, sizes)
    if runs_kernel(rows):
        return _in_the_kernel(rows, recipe, dim, logits, log_output, allow)
    if rows.device.type == "cpu":
        return _in_the_core(rows, recipe, dim, logits, log_output, allow)
    return plain.filter_rows(rows, recipe, dim, logits, log_output, allow)


@operator.register_fake
def _(rows: Tensor, allow: Any, arrays: Any, sizes: Any, dim: int, *options: bool) -> Tensor:
    shape = list(rows.shape)
    shape[dim] = _put_together(arrays, sizes).n_results
    return rows.new_empty(shape)


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
) -> Tensor:
    """Return the rows' gradient: one operator, since compiling all steps would take minutes."""
    recipe = _put_together(arrays, sizes)

    def forward(rows: Tensor) -> Tensor:
        return plain.filter_rows(rows, recipe, dim, logits, log_output, allow)

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
    return result, None, [None] * len(arrays), None, None, None, None


operator.register_autograd(_pull_back, setup_context=_keep)


def _put_together(arrays: list[Any], sizes: list[int]) -> Recipe:
    n_retained, is_calibrated, *groups = sizes
    merge = [None] * (len(ARRAYS) - len(arrays))
    pairs = tuple(zip(groups[::2], groups[1::2], strict=True))
    return Recipe._make([*arrays, *merge, n_retained, bool(is_calibrated), pairs])


def _in_the_core(
    rows: Tensor, recipe: Recipe, dim: int, logits: bool, log_output: bool, allow: Tensor | None
) -> Tensor:
    turned = rows.detach().movedim(dim, -1)
    given = turned.reshape(-1, turned.shape[-1])
    if rows.dtype == torch.bfloat16:  # which NumPy lacks
        given = given.float()
    dtype: Any = None
    if log_output or allow is not None:  # what is little counts
        is_linear = allow is None or not (logits or recipe.is_calibrated)
        dtype = np.float32 if is_linear and rows.dtype != torch.float64 else np.float64
    kind: Kind = "logits" if logits else "probabilities"
    filtered = run(_core_recipe(recipe), given.numpy(), kind, dtype).rows
    result = torch.from_numpy(filtered)
    if allow is not None:
        allow = allow.movedim(dim, -1).reshape(result.shape)
        is_lost = result[:, :1].isnan() | ~allow.any(-1, keepdim=True)
        restrict(filtered, (allow | is_lost).numpy(), np.arange(len(result)))
        result.masked_fill_(is_lost, torch.nan)
    if log_output:
        # Logarithms of probabilities that are lost, or nearly, come from the plain form.
        is_low = result < plain.LIMITS[result.dtype].nothing
        low = (is_low if allow is None else is_low & allow).any(-1).nonzero()[:, 0]
        few = None if allow is None else allow[low]
        result = result.log_()
        exact = plain.filter_rows(given[low].double(), recipe, -1, logits, True, few)
        result[low] = exact.to(result.dtype)
        result = result.clamp_(min=torch.finfo(rows.dtype).min)
    result = result.to(rows.dtype).view(*turned.shape[:-1], recipe.n_results)
    return result.movedim(-1, dim).contiguous()


def _core_recipe(recipe: Recipe) -> core.Recipe:
    order, merge = recipe.order.numpy(), None
    steps = {name: getattr(recipe, name).double().numpy() for name in STEPS}
    # A coarser type may have turned the largest of the numbers into infinity.
    steps["no_residual_below"] = steps["no_residual_below"].clip(max=core.LARGEST)
    if recipe.groups:
        sources, starts, weights = (getattr(recipe, name).numpy() for name in MERGE[:3])
        merge = Merge(sources, starts, weights.astype(np.float64, copy=False))
    temperature = recipe.temperature.item() if recipe.is_calibrated else 1.0
    retained = order[len(order) - recipe.n_retained :]
    return core.Recipe(order, retained, **steps, merge=merge, temperature=temperature)


def _in_the_kernel(
    rows: Tensor, recipe: Recipe, dim: int, logits: bool, log_output: bool, allow: Tensor | None
) -> Tensor:
    from unlabel.torch import kernels

    with torch.cuda.device_of(rows):
        if not recipe.groups and allow is None:
            return kernels.filter_rows(rows.contiguous(), recipe, dim, logits, log_output)
        logs = kernels.filter_rows(rows.float().contiguous(), recipe, dim, logits, True)
    allow = None if allow is None else allow.movedim(dim, -1)
    result = plain.finish(logs.movedim(dim, -1), recipe, log_output, rows.dtype, allow)
    return result.movedim(-1, dim).contiguous()
