"""UNSIR on 100 labels: forgetting against keeping by the rate of impairing, and its rows anew.

python -m research.unsir_balance DATA OUT [--weights FILE] [NETWORK ...]

Only logits are committed, so the base models are trained again. Several rates of impairing and ways
to repair are tried on one set of labels; the best of them is kept for the other sets, and every
method that starts from the base model is run again. OUT resumes where it left off. Its folders then
replace those of the committed results, its trials those in `stored/unsir`, and the settings that it
prints belong into `research.suites`. It needs a GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from scipy.special import softmax

from research.files import write_json
from research.grid import BASE, select
from research.methods import unsir
from research.resources import Resources
from research.results import PAPER
from research.results.collect import full_precision, hardware
from research.results.files import Result, read_result, stored_cells, write_result
from research.runner import pieces_left, report_failures, run_pieces
from research.settings import Unsir
from research.suites import SUITES, Study
from research.task import Task
from research.training import generator, logits_of

CHOSEN_ON = "F2"
# 500 are all images of a label; noise is half of the images that impair.
START = Unsir(noise_images=25, noise_share=0.5, retain_a_class=500, batch=128, clip=1.0)
# Rates of impairing, and ways to repair: a rate and a number of epochs.
GRIDS: dict[str, tuple[tuple[float, ...], tuple[tuple[float, int], ...]]] = {
    "cifar100/mobilenet_v2": ((0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4), ((0.02, 2),)),
    "faces/vit_b_16": ((0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3), ((0.02, 2), (0.05, 4))),
}

Trial = dict[str, Any]


def task_of(study: Study, forget: str, resources: Resources) -> Task:
    """Make the task of a set of labels, after training the base model if it is missing."""
    (cell,) = select(study.cells(), [f"s0/{forget}"])
    if not cell.base.weights(resources.out).exists():
        resources.train_base(study, 0)
    return resources.task(study, cell)


def trials(task: Task, grid: list[Unsir]) -> Iterator[Trial]:
    """Run UNSIR with each of the settings. Noise is made once, and so is each impaired model.

    Every trial draws the random numbers that UNSIR would draw if it ran with these settings alone.
    """
    random = generator(task.seed, task.device)
    noise, noise_labels = unsir.noise_of(task, task.base.model, random)
    retained = unsir.retain_set(task)
    with_noise = random.get_state()
    for _, of_rate in groupby(grid, key=lambda settings: settings.impair_rate):
        same_rate = list(of_rate)
        impaired = copy.deepcopy(task.base.model)
        random.set_state(with_noise)
        unsir.impair(impaired, noise, noise_labels, retained, same_rate[0], random)
        when_impaired = random.get_state()
        yield judged(task, impaired, replace(same_rate[0], repair_epochs=0))
        for settings in same_rate:
            model = copy.deepcopy(impaired)
            random.set_state(when_impaired)
            unsir.repair(model, retained, settings, random)
            yield judged(task, model, settings)


def judged(task: Task, model: torch.nn.Module, settings: Unsir) -> Trial:
    """Judge a model beside the base model, on all test images."""
    labels = task.test_images.labels.cpu().numpy()
    before, after = (
        full_precision(softmax(logits, axis=1), labels, task)
        for logits in (task.base.test_logits, logits_of(model, task.test_images))
    )
    values = {"A_F": after["A_F"], "A_R": after["A_R"], "lost": before["A_R"] - after["A_R"]}
    print(settings.impair_rate, settings.repair_rate, settings.repair_epochs, values, flush=True)
    return {"settings": asdict(settings), **values}


def best(tried: list[Trial]) -> Unsir:
    """Return the settings with the best balance: the larger of A_F and the lost A_R is least."""
    repaired = [trial for trial in tried if trial["settings"]["repair_epochs"]]
    return Unsir(**min(repaired, key=lambda trial: max(trial["A_F"], trial["lost"]))["settings"])


def with_unsir(study: Study, settings: Unsir) -> Study:
    """Set up a study with these settings of UNSIR."""
    return replace(study, settings={**study.settings, "unsir": settings})


def balanced(study: Study, resources: Resources) -> Study:
    """Set up a study with the settings of the best balance; the trials are stored in OUT."""
    file = resources.out / "unsir" / f"{study.set}-{study.architecture}.json"
    if not file.exists():
        task = task_of(with_unsir(study, START), CHOSEN_ON, resources)
        rates, repairs = GRIDS[f"{study.set}/{study.architecture}"]
        grid = [
            replace(START, impair_rate=rate, repair_rate=repair_rate, repair_epochs=epochs)
            for rate in rates
            for repair_rate, epochs in repairs
        ]
        found = list(trials(task, grid))
        facts = {"hardware": hardware(resources.device), "chosen": asdict(best(found))}
        write_json(file, facts | {"trials": found})
    chosen = Unsir(**json.loads(file.read_text(encoding="utf-8"))["chosen"])
    print(study.set, study.architecture, chosen, flush=True)
    return with_unsir(study, chosen)


def copy_retrained(study: Study, out: Path) -> None:
    """Copy the committed results of the retrained models, without those of other methods."""
    for cell in stored_cells(PAPER):
        of_study = (cell.set, cell.architecture) == (study.set, study.architecture)
        if of_study and cell.forget != BASE and not cell.file(out, ".json").exists():
            result = read_result(PAPER, cell)
            facts, logits = result.facts, {"retrain": result.arrays["retrain"]}
            config = {"training": facts["config"]["training"]}
            kept = {"methods": ["retrain"], "config": config, "failed": {}}
            for name in ("full_precision", "made", "seconds"):
                kept[name] = {"retrain": facts[name]["retrain"]}
            write_result(out, Result(cell, facts | kept, logits))


def main() -> None:
    """Run what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("networks", nargs="*", default=list(GRIDS), metavar="NETWORK")
    parser.add_argument("--weights", type=Path)
    arguments = parser.parse_args()
    if others := {*arguments.networks} - {*GRIDS}:
        parser.error(f"{min(others)} is not one of {', '.join(GRIDS)}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    resources = Resources(arguments.out, arguments.data, arguments.weights, device)
    studies = []
    for study in SUITES["paper"]:
        if f"{study.set}/{study.architecture}" in arguments.networks:
            copy_retrained(study, arguments.out)
            studies.append(balanced(study, resources))
    left = pieces_left(studies, arguments.out, ["s0"])
    left = [piece for piece in left if piece.method != "retrain"]
    report_failures(run_pieces(left, resources))


if __name__ == "__main__":
    main()
