"""UNSIR anew on 100 labels, with the rate of the best balance; retrained models are kept.

python -m research.unsir_again DATA OUT [--weights FILE] [--stop-after SECONDS] [NETWORK ...]

Only logits are committed, so the base models are trained again, and all methods that start from
them are run again. Several rates of impairing and ways to repair are tried on one set of labels
first; the best of them is kept for the other sets, and UNSIR comes before the other methods. OUT
resumes where it left off. Its folders then replace those of the committed results, and the settings
that it prints belong into `research.suites`. It needs a GPU.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from research import unsir_balance
from research.grid import BASE
from research.resources import Resources
from research.results.files import Facts, Result, read_result, stored_cells, write_result
from research.runner import pieces_left, report_failures, run_pieces
from research.settings import Unsir
from research.suites import SUITES, Study

COMMITTED = Path(__file__).parent / "stored" / "paper"
IMPAIR_RATES = (0.1, 0.15, 0.2, 0.25)
# With few images, as those of the faces, more epochs may be needed.
REPAIR_EPOCHS = {"cifar100/mobilenet_v2": (2,), "faces/vit_b_16": (2, 6)}
METHODS = ("base", "unsir", "osr", "mask", "linear_filtration", "nhle_cwm")


def copy_retrained(study: Study, out: Path) -> None:
    """Copy the committed results of the retrained models, without those of other methods."""
    for cell in stored_cells(COMMITTED):
        of_study = (cell.set, cell.architecture) == (study.set, study.architecture)
        if of_study and cell.forget != BASE and not cell.file(out, ".json").exists():
            result = read_result(COMMITTED, cell)
            if result is not None:
                logits = {"retrain": result.arrays["retrain"]}
                write_result(out, Result(cell, _of_retrained(result.facts), logits))


def _of_retrained(facts: Facts) -> Facts:
    kept = {name: value for name, value in facts.items() if name != "condition"}
    for name in ("failed", "full_precision", "made", "seconds"):
        kept[name] = {key: value for key, value in facts[name].items() if key == "retrain"}
    return kept | {"methods": ["retrain"], "config": {"training": facts["config"]["training"]}}


def balanced(study: Study, repair_epochs: tuple[int, ...], resources: Resources) -> Study:
    """Set up a study with the settings of UNSIR with the best balance; trials are stored in OUT."""
    file = resources.out / f"unsir-{study.set}-{study.architecture}.json"
    if not file.exists():
        stored = json.loads(unsir_balance.STORED.read_text(encoding="utf-8"))
        start = Unsir(**stored["chosen"])
        grid = [
            replace(start, impair_rate=rate, repair_epochs=epochs)
            for rate in IMPAIR_RATES
            for epochs in repair_epochs
        ]
        tried_on = unsir_balance.CHOSEN_ON
        task = unsir_balance.task_of(_with_unsir(study, start), tried_on, resources)
        found = list(unsir_balance.trials(task, grid))
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    best = unsir_balance.best(json.loads(file.read_text(encoding="utf-8")))
    print(study.set, study.architecture, best, flush=True)
    return _with_unsir(study, best)


def _with_unsir(study: Study, settings: Unsir) -> Study:
    return replace(study, settings={**study.settings, "unsir": settings})


def main() -> None:
    """Run what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("networks", nargs="*", default=list(REPAIR_EPOCHS), metavar="NETWORK")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--stop-after", type=float, default=float("inf"))
    arguments = parser.parse_args()
    if others := {*arguments.networks} - {*REPAIR_EPOCHS}:
        parser.error(f"{min(others)} is not one of {', '.join(REPAIR_EPOCHS)}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    resources = Resources(arguments.out, arguments.data, arguments.weights, device)
    studies = []
    for study in SUITES["paper"]:
        network = f"{study.set}/{study.architecture}"
        if network in arguments.networks:
            copy_retrained(study, arguments.out)
            studies.append(balanced(study, REPAIR_EPOCHS[network], resources))
    left = [p for p in pieces_left(studies, arguments.out, ["s0"]) if p.method in METHODS]
    left.sort(key=lambda p: (p.cell.set, p.cell.architecture, METHODS.index(p.method)))
    report_failures(run_pieces(left, resources, arguments.stop_after))


if __name__ == "__main__":
    main()
