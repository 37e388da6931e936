"""Hugging Face classifiers without some of their labels."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import re
from pathlib import Path
from typing import Any

try:
    import transformers
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "unlabel.huggingface needs transformers: pip install 'unlabel[huggingface]'.",
        name=error.name,
    ) from None
from torch import Tensor, nn

from unlabel._labels import as_labels, listing
from unlabel._typing import InputKind
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, require_filter
from unlabel.torch import FilterModule
from unlabel.torch.checks import which_dimension

FILTER_FILE = "unlabel.safetensors"
FILTER_NAME = "label_filter"
# What a compiled or patched model calls instead of its class's forward: it goes past the filter.
BOUND = {"forward", "_compiled_call_impl"}


def remove_labels(
    model: transformers.PreTrainedModel,
    filter: OutputFilter,
    input: InputKind | None = None,
    *,
    dim: int | None = None,
) -> transformers.PreTrainedModel:
    """Give a classifier that knows only the labels that remain.

    The result is a shallow copy: it shares its layers with `model`, which is left as it is.
    Its ``config`` has the remaining labels, and its ``logits`` are their log-probabilities, so
    a pipeline's softmax gives the filter's probabilities. Given ``labels``, numbered as in
    the new ``config.id2label``, it returns the loss over the labels that remain.

    ``save_pretrained`` writes the whole model, unfiltered, and the filter beside it.

    Parameters
    ----------
    model : PreTrainedModel
        A classifier for mutually exclusive labels whose outputs have ``logits``.
    filter : OutputFilter
        A filter for the labels of ``model.config.id2label``, or for 0..n-1.
    input : {"probabilities", "logits"}, optional
        What the model gives; if not given, what the filter was fitted on. It gives logits, so a
        filter that was fitted on probabilities needs ``input="logits"``.
    dim : int, optional
        The dimension of the labels; if not given, the last one of (N, C) and (N, T, C). The
        (N, C, H, W) of semantic segmentation need ``dim=1``.
    """
    require_filter(filter)
    if not isinstance(model, transformers.PreTrainedModel):
        raise UnlabelError(
            f"The model is a {type(model).__name__}: give a PreTrainedModel, as from_pretrained "
            "and pipeline.model are."
        )
    _check_task(type(model))
    if hasattr(model, FILTER_NAME):
        raise UnlabelError(
            "The model has a filter already: remove all labels from the model it was made of, with "
            "one filter."
        )
    filter = filter.taking(input)
    if filter.input != "logits":
        raise UnlabelError(
            "The model gives logits and the filter takes probabilities: give input='logits'."
        )
    names = _label_names(model.config)
    _check_labels(names, filter)
    module = FilterModule(filter, output="log_probabilities", dim=-1 if dim is None else dim)
    module = module.to(model.device)
    kind: Any = type(model)
    filtered = _blank(kind)
    for name, of in model.__dict__.items():
        if name not in BOUND:
            # Hooks that are put on one later are none on the other.
            filtered.__dict__[name] = copy.copy(of) if "hook" in name else of
    filtered._modules = {**model._modules, FILTER_NAME: module}
    filtered._unfiltered_config, filtered._filter = model.config, filter
    filtered._is_told_the_dimension = dim is not None
    filtered.config = copy.deepcopy(model.config)
    remaining = [names[column] for column in filter.retained_columns]
    filtered.config.id2label = dict(enumerate(remaining))
    filtered.config.label2id = {name: number for number, name in enumerate(remaining)}
    if hasattr(model, "num_labels"):
        filtered.num_labels = len(remaining)
    return filtered


def _check_task(kind: type) -> None:
    """Refuse the models of transformers whose logits are not over the labels.

    Those of BertForMultipleChoice, say, are over the choices, which may be as many.
    """
    names = [each.__name__ for each in kind.__mro__ if each.__module__.startswith("transformers.")]
    for name in names:
        if task := re.search("For([A-Z].*)", name):
            if "Classification" not in task[1] and task[1] != "SemanticSegmentation":
                raise UnlabelError(
                    f"The logits of {name} are not one per label: labels can be removed from "
                    "classifiers alone, such as ...ForSequenceClassification."
                )
            return


def _label_names(config: transformers.PretrainedConfig) -> list[str]:
    """Give the labels of a classifier for mutually exclusive labels, in order."""
    kind = getattr(config, "problem_type", None)
    if kind not in (None, "single_label_classification"):
        raise UnlabelError(
            f"The model's problem_type is {kind!r}: only labels that exclude each other can be "
            "removed ('single_label_classification')."
        )
    id2label, label2id = config.id2label or {}, config.label2id or {}
    if set(id2label) != set(range(len(id2label))):
        raise UnlabelError(
            f"The keys of the model's config.id2label are {listing(list(id2label))}: number the "
            "labels from 0 to n-1."
        )
    names = [id2label[number] for number in range(len(id2label))]
    as_labels(names, "config.id2label")
    for number, name in enumerate(names):
        if int(label2id.get(name, number)) != number:
            raise UnlabelError(
                f"Label {number} is {name!r} in the model's config.id2label, and {name!r} is label "
                f"{label2id[name]} in its config.label2id: correct the config."
            )
    return names


def _check_labels(names: list[str], filter: OutputFilter) -> None:
    if len(names) != len(filter.classes_in):
        raise UnlabelError(
            f"The model has {len(names)} labels and the filter is for {len(filter.classes_in)}: "
            "fit the filter on this model's outputs."
        )
    numbered = filter.classes_in == tuple(range(len(names)))
    for number, (name, label) in enumerate(zip(names, filter.classes_in, strict=True)):
        if name != label and not numbered:
            raise UnlabelError(
                f"Label {number} is {name!r} in the model's config.id2label and {label!r} in the "
                "filter: fit the filter with the classes of config.id2label, in their order."
            )
    if len(filter.classes) == 1:
        raise UnlabelError(
            f"Only {filter.classes[0]!r} would remain, and a Hugging Face model with one label "
            "counts as a regression: keep two labels at least."
        )


@functools.cache
def _filtered_class(original: Any) -> Any:
    """A subclass of a model's class, of the same name: pipelines look models up by it."""
    parameters = inspect.signature(original.forward).parameters.values()
    names = [of.name for of in parameters if of.kind is of.POSITIONAL_OR_KEYWORD][1:]
    labels_at = names.index("labels") if "labels" in names else None

    @functools.wraps(original.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The model would compare its own logits with `labels`, which number other labels.
        if labels_at is not None and len(args) > labels_at:
            labels, args = args[labels_at], (*args[:labels_at], None, *args[labels_at + 1 :])
        else:
            labels = kwargs.pop("labels", None)
        output = original.forward(self, *args, **kwargs)
        if not isinstance(output, tuple) and "logits" not in output:
            raise UnlabelError(
                f"The outputs of {original.__name__} have no logits: labels can be removed from "
                "classifiers alone."
            )
        logits = output[0] if isinstance(output, tuple) else output.logits
        if logits.ndim > 3 and not self._is_told_the_dimension:
            raise which_dimension(tuple(logits.shape), len(self.label_filter.classes_in))
        logs = self.label_filter(logits)
        loss = {}
        if labels is not None:
            rows = logs.movedim(self.label_filter.dim, -1)
            loss["loss"] = _loss(rows, labels, kwargs.get("num_items_in_batch"))
        if isinstance(output, tuple):
            return (*loss.values(), logs, *output[1:])
        return type(output)(**{**output, **loss, "logits": logs})

    def save_pretrained(
        self: Any,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        state_dict: dict[str, Any] | None = None,
        *more: Any,
        **options: Any,
    ) -> None:
        """Write the unfiltered model and, beside it, the filter."""
        model = object.__new__(original)
        model.__dict__.update(self.__dict__)
        model.config = copy.deepcopy(self.config)
        model.config.id2label = self._unfiltered_config.id2label
        model.config.label2id = self._unfiltered_config.label2id
        model._modules = {name: of for name, of in self._modules.items() if name != FILTER_NAME}
        if state_dict is not None:
            state_dict = {
                name: of
                for name, of in state_dict.items()
                if not name.startswith(f"{FILTER_NAME}.")
            }
        model.save_pretrained(save_directory, is_main_process, state_dict, *more, **options)
        if is_main_process:
            self._filter.save(Path(save_directory) / FILTER_FILE, overwrite=True)

    return type(
        original.__name__,
        (original,),
        {
            "__module__": original.__module__,
            "__doc__": original.__doc__,
            "forward": forward,
            "save_pretrained": save_pretrained,
            # Under the class's name pickle would find the original.
            "__reduce__": lambda self: (_blank, (original,), self.__dict__),
        },
    )


def _loss(logs: Tensor, labels: Tensor, items: Tensor | int | None) -> Tensor:
    """The mean loss over the rows or, of a part of a batch, its share of the batch's mean."""
    if logs.ndim > 3:
        raise UnlabelError(
            "The loss of a segmentation is not computed, since models scale their logits to the "
            "size of the labels in their own ways: leave out the labels and compute it from the "
            "logits."
        )
    rows, truth = logs.reshape(-1, logs.shape[-1]).float(), labels.reshape(-1)
    if items is None:
        return nn.functional.nll_loss(rows, truth)
    return nn.functional.nll_loss(rows, truth, reduction="sum") / items


def _blank(original: Any) -> Any:
    return object.__new__(_filtered_class(original))
