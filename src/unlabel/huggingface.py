"""Hugging Face classifiers without some of their labels."""

from __future__ import annotations

import copy
import functools
import os
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

from unlabel.filter import OutputFilter
from unlabel.torch import FilterModule
from unlabel.validation import UnlabelError

FILTER_FILE = "unlabel.safetensors"


def remove_labels(
    model: transformers.PreTrainedModel, filter: OutputFilter
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
        A filter for the labels of ``model.config.id2label``, or for 0..n-1. Fitted on
        probabilities or on logits, it is given the model's logits.
    """
    if hasattr(model, "label_filter"):
        raise UnlabelError(
            "The model has a filter already: remove all labels from the model it was made of, with "
            "one filter."
        )
    names = _label_names(model.config)
    _check_labels(names, filter)
    module = FilterModule(filter, "logits", output="log_probabilities").to(model.device)
    kind: Any = type(model)
    filtered = _blank(kind)
    filtered.__dict__.update(model.__dict__)
    filtered._modules = {**model._modules, "label_filter": module}
    filtered._unfiltered = (model, filter)  # in a tuple: it must not become a second submodule
    filtered.config = copy.deepcopy(model.config)
    remaining = [names[column] for column in filter.retained_columns]
    filtered.config.id2label = dict(enumerate(remaining))
    filtered.config.label2id = {name: number for number, name in enumerate(remaining)}
    if hasattr(model, "num_labels"):
        filtered.num_labels = len(remaining)
    return filtered


def _label_names(config: transformers.PretrainedConfig) -> list[str]:
    """Give the labels of a classifier for mutually exclusive labels, in order."""
    kind = getattr(config, "problem_type", None)
    if kind not in (None, "single_label_classification"):
        raise UnlabelError(
            f"The model's problem_type is {kind!r}: only labels that exclude each other can be "
            "removed ('single_label_classification')."
        )
    return [config.id2label[number] for number in range(config.num_labels)]


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

    @functools.wraps(original.forward)
    def forward(self: Any, *args: Any, labels: Tensor | None = None, **kwargs: Any) -> Any:
        # The model would compare its own logits with `labels`, which number other labels.
        output = original.forward(self, *args, **kwargs)
        logs = self.label_filter(output[0] if isinstance(output, tuple) else output.logits)
        loss = None
        if labels is not None:
            rows = logs.reshape(-1, logs.shape[-1]).float()
            loss = nn.functional.nll_loss(rows, labels.reshape(-1))
        if isinstance(output, tuple):
            return (logs, *output[1:]) if loss is None else (loss, logs, *output[1:])
        fields = {**output, "loss": loss, "logits": logs}
        return type(output)(**fields)

    def save_pretrained(self: Any, folder: str | os.PathLike[str], **options: Any) -> None:
        """Write the unfiltered model and, beside it, the filter."""
        model, filter = self._unfiltered
        model.save_pretrained(folder, **options)
        filter.save(Path(folder) / FILTER_FILE, overwrite=True)

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


def _blank(original: Any) -> Any:
    return object.__new__(_filtered_class(original))
