"""The Hugging Face integration: classifiers of `transformers` whose labels are changed."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from unlabel.errors import UnlabelError, located, needs_extra

with needs_extra("huggingface"):
    import transformers
    from torch import Tensor, nn

from unlabel._typing import Kind, Label
from unlabel.filter import OutputFilter, require_filter
from unlabel.labels import as_labels, known_columns, listing
from unlabel.torch import FilterModule
from unlabel.torch.checks import which_dimension
from unlabel.torch.model import with_allow

FILTER_FILE = "unlabel.safetensors"
FILTER_NAME = "label_filter"
# A compiled or patched model calls these instead of its class's forward, and so skips the filter.
BOUND = {"forward", "_compiled_call_impl"}


def attach(
    model: transformers.PreTrainedModel,
    filter: OutputFilter,
    kind: Kind | None = None,
    *,
    dim: int | None = None,
) -> transformers.PreTrainedModel:
    """Return a classifier with the labels of the filter's result.

    The result is a shallow copy: it shares its layers with `model`, which stays unchanged.
    Its ``config`` has the new labels, and its ``logits`` are their log-probabilities, so
    a pipeline's softmax gives the filter's probabilities. Given ``labels``, numbered as in
    the new ``config.id2label``, it returns the loss over the new labels. Given ``allow``, a tensor
    of booleans as `unlabel.torch.FilterModule` takes it, each row has only the labels it may have.

    ``save_pretrained`` writes the whole model, unfiltered, and the filter beside it.

    Parameters
    ----------
    model : PreTrainedModel
        A classifier for mutually exclusive labels whose outputs have ``logits``.
    filter : OutputFilter
        A filter for the labels of ``model.config.id2label``, or for 0 to n - 1: then labels keep
        the model's names, and new labels are named by their texts.
    kind : {"probabilities", "logits"}, optional
        The kind of rows that the filter takes, by default the kind it was fitted on. Models return
        logits, so a filter that was fitted on probabilities needs ``kind="logits"``.
    dim : int, optional
        The dimension of the labels, by default the last one of (N, C) and (N, T, C). The
        (N, C, H, W) of semantic segmentation need ``dim=1``.
    """
    require_filter(filter)
    if not isinstance(model, transformers.PreTrainedModel):
        raise UnlabelError(
            f"The model is a {type(model).__name__}: give a PreTrainedModel, as pipeline.model is."
        )
    _check_task(type(model))
    if hasattr(model, FILTER_NAME):
        raise UnlabelError(
            "The model has a filter already: give the original model one filter, such as "
            "first.then(second)."
        )
    filter = filter if kind is None else replace(filter, kind=kind)
    if filter.kind != "logits":
        raise UnlabelError(
            "The model gives logits and the filter takes probabilities: say that they are logits.",
            argument="kind",
        )
    names = _result_labels(_model_labels(model.config, filter), filter)
    module = FilterModule(filter, output="log_probabilities", dim=-1 if dim is None else dim)
    filtered = _blank(type(model))
    for name, value in model.__dict__.items():
        if name not in BOUND:
            # Copied, so that hooks added to one model later are not added to the other.
            filtered.__dict__[name] = copy.copy(value) if "hook" in name else value
    filtered._modules = {**model._modules, FILTER_NAME: module.to(model.device)}
    filtered._unfiltered_config, filtered._filter = model.config, filter
    filtered._has_dim = dim is not None
    filtered.config = copy.deepcopy(model.config)
    filtered.config.id2label = dict(enumerate(names))
    filtered.config.label2id = {name: number for number, name in enumerate(names)}
    if hasattr(model, "num_labels"):
        filtered.num_labels = len(names)
    return filtered


def _check_task(model_class: type) -> None:
    """Raise an error for models whose logits are not one per label but, say, one per choice."""
    for base in model_class.__mro__:
        task = re.search("For([A-Z].*)", base.__name__)
        if task and base.__module__.startswith("transformers."):
            if "Classification" in task[1] or task[1] == "SemanticSegmentation":
                return
            raise UnlabelError(
                f"The logits of {base.__name__} are not one per label: use a classifier, such as "
                "...ForSequenceClassification."
            )


def _model_labels(config: transformers.PretrainedConfig, filter: OutputFilter) -> tuple[Label, ...]:
    """Return the model's labels in order, after comparing them with the filter's."""
    problem = getattr(config, "problem_type", None)
    if problem not in (None, "single_label_classification"):
        raise UnlabelError(
            f"The model's problem_type is {problem!r}: it must be single_label_classification."
        )
    id2label, label2id = config.id2label or {}, config.label2id or {}
    numbers = range(len(id2label))
    if set(id2label) != set(numbers):
        raise UnlabelError(
            f"The keys of config.id2label are {listing(list(id2label))}: number them from 0 to n-1."
        )
    with located(row="the model's config.id2label"):
        names = as_labels([id2label[number] for number in numbers])
    if len(names) != len(filter.classes_in):
        raise UnlabelError(
            f"The model has {len(names)} labels and the filter is for {len(filter.classes_in)}: "
            "fit the filter on this model's outputs."
        )
    has_names = filter.classes_in != tuple(numbers)
    for number, name, label in zip(numbers, names, filter.classes_in, strict=True):
        if int(label2id.get(name, number)) != number:
            raise UnlabelError(
                f"Label {number} is {name!r} in the model's config.id2label, but {name!r} is label "
                f"{label2id[name]} in its config.label2id: correct the config."
            )
        if has_names and name != label:
            raise UnlabelError(
                f"Label {number} is {name!r} in the model's config.id2label and {label!r} in the "
                "filter: fit the filter with the classes of config.id2label, in their order."
            )
    if len(filter.classes_out) == 1:
        raise UnlabelError(
            f"Only {filter.classes_out[0]!r} would be left, and transformers takes a model with "
            "one label for a regression: keep at least two labels."
        )
    return names


def _result_labels(names: tuple[Label, ...], filter: OutputFilter) -> list[Label]:
    """Name the result's labels as the model does, and new ones by their texts."""
    columns = known_columns(filter.classes_out, filter.classes_in).tolist()
    results = [
        names[column] if column >= 0 else str(label)
        for column, label in zip(columns, filter.classes_out, strict=True)
    ]
    name, number = Counter(map(str, results)).most_common(1)[0]
    if number > 1:
        raise UnlabelError(
            f"Two labels of the result would be {name!r} in config.id2label: give the new label "
            "another name, or fit the filter with the classes of config.id2label."
        )
    return results


@functools.cache
def _filtered_class(original: Any) -> Any:
    """Derive a class of the same name, since pipelines look models up by name."""
    signature, takes_allow = with_allow(inspect.signature(original.forward))
    parameters = signature.parameters.values()
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD][1:]
    labels_at = names.index("labels") if "labels" in names else None

    @functools.wraps(original.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The model would compare `labels`, numbered as the new labels, with its own logits.
        if labels_at is not None and len(args) > labels_at:
            labels, args = args[labels_at], (*args[:labels_at], None, *args[labels_at + 1 :])
        else:
            labels = kwargs.pop("labels", None)
        allow = kwargs.pop("allow", None) if takes_allow else None
        output = original.forward(self, *args, **kwargs)
        if not isinstance(output, tuple) and "logits" not in output:
            raise UnlabelError(
                f"The outputs of {original.__name__} have no logits: use a classifier."
            )
        logits = output[0] if isinstance(output, tuple) else output.logits
        if logits.ndim > 3 and not self._has_dim:
            raise which_dimension(tuple(logits.shape), len(self.label_filter.classes_in))
        logs = self.label_filter(logits, allow)
        loss = {}
        if labels is not None:
            rows = logs.movedim(self.label_filter.dim, -1)
            loss["loss"] = _loss(rows, labels, kwargs.get("num_items_in_batch"))
        if isinstance(output, tuple):
            return (*loss.values(), logs, *output[1:])
        return type(output)(**{**output, **loss, "logits": logs})

    forward.__signature__ = signature  # type: ignore[attr-defined]

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
        model._modules = _without_filter(self._modules)
        state = None if state_dict is None else _without_filter(state_dict)
        model.save_pretrained(save_directory, is_main_process, state, *more, **options)
        if is_main_process:
            self._filter.save(Path(save_directory) / FILTER_FILE)

    members = {
        "__module__": original.__module__,
        "__doc__": original.__doc__,
        "forward": forward,
        "save_pretrained": save_pretrained,
        # By the class's name pickle would find the original.
        "__reduce__": lambda self: (_blank, (original,), self.__dict__),
    }
    return type(original.__name__, (original,), members)


def _blank(original: Any) -> Any:
    return object.__new__(_filtered_class(original))


def _without_filter(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name.split(".")[0] != FILTER_NAME}


def _loss(logs: Tensor, labels: Tensor, items: Tensor | int | None) -> Tensor:
    """Return the mean loss over the rows, or this part's share of the mean over `items` rows."""
    if logs.ndim > 3:  # models resize their logits to the labels in their own ways
        raise UnlabelError(
            "The loss of a segmentation is not computed: leave out labels=, and use the logits."
        )
    if labels.shape == logs.shape:  # one-hot, as models of audio frames take them
        labels = labels.argmax(-1)
    rows, truth = logs.reshape(-1, logs.shape[-1]).float(), labels.reshape(-1)
    if items is None:
        return nn.functional.nll_loss(rows, truth)
    return nn.functional.nll_loss(rows, truth, reduction="sum") / items
