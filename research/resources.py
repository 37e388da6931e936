"""Resources that the pieces of a study share: images on the device, models, weights."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from functools import cache, lru_cache, partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from scipy.special import softmax
from torch import nn

from research.datasets import load_set
from research.files import whole_file
from research.grid import BASE, Cell
from research.models import build, build_pretrained, compile_blocks, load_below_head
from research.registry import DATASETS
from research.results.collect import Values, store_outcome
from research.results.files import Facts, read_facts
from research.settings import Pretraining, Recipe
from research.suites import Study
from research.task import Base, Outcome, Task
from research.training import Images, logits_of, resize_inputs, seeded, train
from unlabel import UnlabelError

PRETRAINING_SEED = 0


class Resources:
    """Makes tasks, and caches the images and the base model for the next one.

    Parameters
    ----------
    out : path
        The folder for the results, which also holds the base models' weights.
    data : path
        The folder of image sets.
    imagenet : path, optional
        torchvision's file of ImageNet weights, or its folder.
    device : torch.device
    """

    def __init__(self, out: Path, data: Path, imagenet: Path | None, device: torch.device) -> None:
        self.out = out
        self.data = data
        self.imagenet = imagenet
        self.device = device
        # One entry each: pieces come in the order of their sets, architectures and seeds.
        self._images = lru_cache(maxsize=1)(self._load_images)
        self._base = lru_cache(maxsize=1)(self._load_base)
        torch.backends.cudnn.allow_tf32 = False  # training uses bfloat16, evaluation float32

    def task(self, study: Study, cell: Cell) -> Task:
        """Make the task of a cell."""
        train_images, test_images = self._images(study.set)
        return Task(
            train_images=train_images,
            test_images=test_images,
            classes=DATASETS[study.set].labels,
            removed=cell.removed,
            seed=cell.seed,
            study=study,
            load_base=cache(partial(self._copy_of_base, study, cell.seed)),
            build=partial(self.build, study),
        )

    def build(self, study: Study, classes: int, seed: int) -> nn.Module:
        """Build a model on the device with the weights that its training starts from."""
        recipe = study.recipe
        with seeded(seed):
            if recipe.start == "ImageNet-1K":
                model = build_pretrained(study.architecture, classes, self.imagenet)
            else:
                model = build(study.architecture, classes)
        if study.pretraining is not None:
            weights = self._pretrained(study.architecture, study.pretraining)
            load_below_head(model, load_file(weights))
        return self._on_device(model, recipe)

    def _on_device(self, model: nn.Module, recipe: Recipe) -> nn.Module:
        if recipe.side is not None:
            resize_inputs(model, recipe.side)
        if self.device.type == "cuda":
            compile_blocks(model)
        return model.to(self.device, memory_format=torch.channels_last)

    def _pretrained(self, architecture: str, pretraining: Pretraining) -> Path:
        """Return the file of pretrained weights, after pretraining if it is missing."""
        file = self.out / "weights" / f"pretrained-{pretraining.set}-{architecture}.safetensors"
        if not file.exists():
            train_images, test_images = self._images(pretraining.set)
            with seeded(PRETRAINING_SEED):
                model = build(architecture, DATASETS[pretraining.set].labels)
            model = self._on_device(model, pretraining.recipe)
            seconds = train(model, train_images, pretraining.recipe, PRETRAINING_SEED)
            right = logits_of(model, test_images).argmax(axis=1) == test_images.labels.cpu().numpy()
            facts = asdict(pretraining) | {"accuracy": right.mean(), "seconds": seconds["total"]}
            _save_weights(model, file, facts)
        elif not asdict(pretraining).items() <= _facts_beside(file).items():
            raise UnlabelError(
                f"{file} was pretrained with other settings: delete it, or choose another folder."
            )
        return file

    def train_base(self, study: Study, seed: int) -> Values:
        """Train a base model, store its weights and logits, and return its values."""
        cell = Cell(study.set, study.architecture, seed, BASE)
        task = self.task(study, cell)
        model = self.build(study, task.classes, seed)
        seconds = train(model, task.train_images, study.recipe, seed)
        logits = logits_of(model, task.test_images)
        config: Facts = {"images": len(task.train_images)}
        if study.pretraining is not None:
            pretrained = self._pretrained(study.architecture, study.pretraining)
            config["pretraining"] = _facts_beside(pretrained)
        outcome = Outcome(
            confidences={"base": softmax(logits, axis=1)},
            config=config,
            logits={"base": logits},
        )
        _save_weights(model, cell.weights(self.out))
        self._base.cache_clear()
        return store_outcome(self.out, cell, "base", outcome, task, seconds)

    def _copy_of_base(self, study: Study, seed: int) -> Base:
        """Copy the base model, so that what one method does to it reaches no other."""
        base = self._base(study, seed)
        return replace(base, model=copy.deepcopy(base.model))

    def _load_base(self, study: Study, seed: int) -> Base:
        cell = Cell(study.set, study.architecture, seed, BASE)
        weights, folder = cell.weights(self.out), cell.file(self.out, "").parent
        if read_facts(self.out, cell) is None:
            raise UnlabelError("The base model could not be trained.")
        model = self.build(study, DATASETS[study.set].labels, seed)
        try:
            model.load_state_dict(load_file(weights))
        except (OSError, SafetensorError, RuntimeError) as error:
            raise UnlabelError(
                f"{weights} is missing or damaged, and the results of {cell} depend on it: restore "
                f"it, or delete {folder} to start over."
            ) from error
        return Base(model.eval(), *self._images(study.set), cache(partial(logits_of, model)))

    def _load_images(self, name: str) -> tuple[Images, Images]:
        loaded = load_set(name, self.data)
        return (
            Images.from_tensors(loaded.train_images, loaded.train_labels, self.device),
            Images.from_tensors(loaded.test_images, loaded.test_labels, self.device),
        )


def _save_weights(model: nn.Module, file: Path, facts: Facts | None = None) -> None:
    """Write a model's weights whole or not at all, with facts about its training."""
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    with whole_file(file) as part:
        save_file(tensors, part, metadata={"facts": json.dumps(facts or {})})


def _facts_beside(file: Path) -> Facts:
    with safe_open(file, framework="pt") as stored:
        facts: Facts = json.loads(stored.metadata()["facts"])
    return facts
