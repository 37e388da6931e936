"""Resources that the pieces of a study share: images on the device, models, weights."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from scipy.special import softmax
from torch import nn

from research.datasets import load_set
from research.files import plain
from research.grid import BASE, Cell
from research.models import MOBILENET_ADDRESS, build, compile_blocks, load_below_head
from research.progress import Progress, no_progress
from research.results.collect import store_outcome
from research.results.files import read_facts
from research.settings import Pretraining, Recipe
from research.suites import Study
from research.task import Base, Outcome, Task
from research.training import Images, logits_of, resize_inputs, seeded, train
from research.weights import facts_beside, save_weights
from unlabel import UnlabelError

PRETRAINING_SEED = 0
MOBILENET_FILE = MOBILENET_ADDRESS.rpartition("/")[2]


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
        self._progress: Progress = no_progress
        # One entry each: pieces come in the order of their sets, architectures and seeds.
        self._images_or_error = lru_cache(maxsize=1)(self._load_images)
        self._base = lru_cache(maxsize=1)(self._load_base)
        torch.backends.cudnn.allow_tf32 = False  # training uses bfloat16, evaluation float32

    def task(self, study: Study, cell: Cell, progress: Progress) -> Task:
        """Make the task of a cell; loading its image set reports to `progress` first."""
        self._progress = progress
        train_images, test_images, classes = self._images(study.set)
        return Task(
            train_images=train_images,
            test_images=test_images,
            classes=classes,
            removed=cell.removed,
            seed=cell.seed,
            study=study,
            load_base=partial(self._base, study, cell.seed),
            build=partial(self.build, study),
            progress=progress,
        )

    def build(self, study: Study, classes: int, seed: int) -> nn.Module:
        """Build a model on the device with the weights that its training starts from."""
        recipe = study.recipe
        imagenet = self._imagenet_file() if recipe.start == "ImageNet-1K" else None
        with seeded(seed):
            model = build(study.architecture, classes, pretrained=imagenet)
        if study.pretraining is not None:
            load_below_head(
                model, load_file(self._pretrained(study.architecture, study.pretraining))
            )
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
            train_images, test_images, classes = self._images(pretraining.set)
            with seeded(PRETRAINING_SEED):
                model = self._on_device(build(architecture, classes), pretraining.recipe)
            seconds = train(
                model, train_images, pretraining.recipe, PRETRAINING_SEED, self._progress
            )
            right = logits_of(model, test_images).argmax(axis=1) == test_images.labels.cpu().numpy()
            facts = asdict(pretraining) | {"accuracy": right.mean(), "seconds": seconds["total"]}
            save_weights(model, file, plain(facts))
        elif not asdict(pretraining).items() <= facts_beside(file).items():
            raise UnlabelError(
                f"{file} was pretrained with other settings: delete it, or choose another folder."
            )
        return file

    def train_base(self, study: Study, seed: int, progress: Progress) -> None:
        """Train a base model and store its weights and logits."""
        cell = Cell(study.set, study.architecture, seed, BASE)
        task = self.task(study, cell, progress)
        model = self.build(study, task.classes, seed)
        seconds = train(model, task.train_images, study.recipe, seed, progress)
        base = Base(model, task.train_images, task.test_images)
        config = asdict(study.recipe) | {"seed": seed, "images": len(task.train_images)}
        if study.pretraining is not None:
            config["pretraining"] = facts_beside(
                self._pretrained(study.architecture, study.pretraining)
            )
        outcome = Outcome(
            confidences={"base": softmax(base.test_logits, axis=1)},
            seconds=seconds,
            config=config,
            logits={"base": base.test_logits},
        )
        save_weights(model, cell.weights(self.out))
        store_outcome(self.out, cell, "base", outcome, task)
        self._base.cache_clear()

    def _load_base(self, study: Study, seed: int) -> Base:
        cell = Cell(study.set, study.architecture, seed, BASE)
        weights, folder = cell.weights(self.out), cell.file(self.out, "").parent
        if read_facts(self.out, cell) is None:
            raise UnlabelError("The base model could not be trained.")
        if not weights.exists():
            raise UnlabelError(
                f"{weights} is missing, and the results of {cell} depend on it: restore it, or "
                f"delete {folder} to start over."
            )
        train_images, test_images, classes = self._images(study.set)
        model = self.build(study, classes, seed)
        try:
            model.load_state_dict(load_file(weights))
        except (SafetensorError, RuntimeError) as error:
            raise UnlabelError(
                f"{weights} is damaged: restore it, or delete {folder} to start over."
            ) from error
        return Base(model.eval(), train_images, test_images)

    def _images(self, name: str) -> tuple[Images, Images, int]:
        found = self._images_or_error(name)
        if isinstance(found, UnlabelError):
            raise found
        return found

    def _load_images(self, name: str) -> tuple[Images, Images, int] | UnlabelError:
        try:
            loaded = load_set(name, self.data, self._progress)
        except UnlabelError as error:  # cached: a missing set is not looked for again
            return error
        return (
            Images.from_tensors(loaded.train_images, loaded.train_labels, self.device),
            Images.from_tensors(loaded.test_images, loaded.test_labels, self.device),
            len(loaded.classes),
        )

    def _imagenet_file(self) -> Path:
        if self.imagenet is not None:
            is_folder = self.imagenet.is_dir()
            return self.imagenet / MOBILENET_FILE if is_folder else self.imagenet
        cached = Path(torch.hub.get_dir(), "checkpoints", MOBILENET_FILE)  # as torchvision does
        if not cached.exists():
            cached.parent.mkdir(parents=True, exist_ok=True)
            try:
                torch.hub.download_url_to_file(MOBILENET_ADDRESS, str(cached), progress=False)
            except OSError as error:
                raise UnlabelError(
                    f"{MOBILENET_ADDRESS} could not be fetched ({error}): give {MOBILENET_FILE} "
                    "with --weights."
                ) from error
        return cached
