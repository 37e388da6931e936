"""UNSIR on 100 labels: what impairs and repairs how much, on one cell.

python benchmarks/unsir_balance.py RESULTS DATA OUT.json [CELL]

RESULTS is a folder of `unlabel bench run --suite paper` with the weights of the cell's base model,
DATA the folder of image sets. The settings with the best balance are printed last. It needs
a GPU.
"""

from __future__ import annotations

import copy
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from scipy.special import softmax

from unlabel.bench.grid import Cell
from unlabel.bench.methods import unsir
from unlabel.bench.progress import no_progress
from unlabel.bench.resources import Resources
from unlabel.bench.results.collect import full_precision, hardware
from unlabel.bench.suites import SUITES, Unsir
from unlabel.bench.task import Task
from unlabel.bench.training import generator, logits_of, now

CELL = "cifar100/resnet18/s0/F2"
COMMON = Unsir(noise_images=25, retain_a_class=500, batch=128, clip=1.0)  # 500: all of a label
IMPAIR = ((20, 0.02), (20, 0.05), (20, 0.1), (20, 0.3))  # copies of the noise, rate
REPAIR = ((0.01, 1), (0.01, 2), (0.05, 2))  # rate, epochs
LARGEST_A_F, LARGEST_LOSS = 0.05, 0.06  # the aim: both values below these

Trial = dict[str, Any]


def trials(task: Task) -> list[Trial]:
    """Run UNSIR with every setting; noise is made once, and each impaired model repaired anew."""
    random = generator(task.seed, task.device)
    base = task.base.model
    noise_labels = torch.tensor(task.removed, device=task.device).repeat_interleave(
        COMMON.noise_images
    )
    shape = task.train_images.pixels.shape[1:3]
    noise = torch.cat(
        [
            unsir.make_noise(base, labels, shape, COMMON, random)
            for labels in noise_labels.split(unsir.NOISE_BATCH)
        ]
    )
    retained = unsir.retain_set(replace(task, study=replace(task.study, unsir=COMMON)))
    found = []
    for copies, impair_rate in IMPAIR:
        settings = replace(COMMON, noise_copies=copies, impair_rate=impair_rate)
        impaired = copy.deepcopy(base)
        unsir.impair(impaired, noise, noise_labels, retained, settings, random)
        found.append(_trial(task, impaired, replace(settings, repair_epochs=0), 0.0))
        for repair_rate, epochs in REPAIR:
            settings = replace(settings, repair_rate=repair_rate, repair_epochs=epochs)
            model = copy.deepcopy(impaired)
            started = now(task.device)
            unsir.repair(model, retained, settings, random)
            found.append(_trial(task, model, settings, now(task.device) - started))
            print(found[-1], flush=True)
    return found


def _trial(task: Task, model: torch.nn.Module, settings: Unsir, seconds: float) -> Trial:
    confidences = softmax(logits_of(model, task.test_images), axis=1)
    labels = task.test_images.labels.cpu().numpy()
    values = full_precision(confidences, labels, task)
    before = full_precision(softmax(task.base.test_logits, axis=1), labels, task)
    return {
        "settings": asdict(settings),
        "A_F": float(values["A_F"]),
        "A_R": float(values["A_R"]),
        "lost": float(before["A_R"] - values["A_R"]),
        "repair_seconds": seconds,
    }


def balance(trial: Trial) -> float:
    """Return how far a trial is from the aim: at most 1 if it meets it."""
    return float(max(trial["A_F"] / LARGEST_A_F, trial["lost"] / LARGEST_LOSS))


def main(results: Path, data: Path, out: Path, name: str = CELL) -> Unsir:
    """Run the trials, write them, and return the settings with the best balance."""
    set_name, architecture, seed, forget = name.split("/")
    cell = Cell(set_name, architecture, int(seed[1:]), forget)
    (study,) = (s for s in SUITES["paper"] if (s.set, s.architecture) == (set_name, architecture))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    task = Resources(results, data, None, device).task(study, cell, no_progress)
    found = trials(task)
    best = min((trial for trial in found if trial["settings"]["repair_epochs"]), key=balance)
    facts = {"cell": name, "hardware": hardware(device), "trials": found, "best": best}
    out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(f"best balance {balance(best):.2f}: {best}")
    return Unsir(**best["settings"])


if __name__ == "__main__":
    results, data, out, *name = sys.argv[1:]
    main(Path(results), Path(data), Path(out), *name)
