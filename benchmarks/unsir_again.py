"""UNSIR anew on 100 labels, with the settings of the best balance; retrained models are kept.

python benchmarks/unsir_again.py DATA OUT [--weights FILE] [--stop-after SECONDS] [NETWORK ...]

Only logits are committed, so the base models are trained again, and all methods that start from
them are run again, UNSIR first, with the settings that `unsir_balance.py` chose. OUT resumes where
it left off; its folders then replace those of the committed results, and the settings belong into
`unlabel.bench.suites`. It needs a GPU.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

import unsir_balance
from unlabel.bench.grid import BASE
from unlabel.bench.resources import Resources
from unlabel.bench.results.files import Facts, Result, read_result, stored_cells, write_result
from unlabel.bench.runner import pieces_left, report_failures, run_pieces
from unlabel.bench.suites import SUITES, Unsir

COMMITTED = Path(__file__).parent / "results" / "paper"
NETWORKS = ["cifar100/resnet18", "faces/resnet18", "cifar100/mobilenet_v2", "faces/vit_b_16"]
METHODS = ("base", "unsir", "osr", "mask", "linear_filtration", "nhle_cwm")


def copy_retrained(network: str, out: Path) -> None:
    """Copy the committed results of the retrained models, without those of other methods."""
    for cell in stored_cells(COMMITTED):
        if f"{cell.set}/{cell.architecture}" == network and cell.forget != BASE:
            result = read_result(COMMITTED, cell)
            if result is not None and not cell.file(out, ".json").exists():
                logits = {"retrain": result.arrays["retrain"]}
                write_result(out, Result(cell, _of_retrained(result.facts), logits))


def _of_retrained(facts: Facts) -> Facts:
    kept = {name: value for name, value in facts.items() if name != "condition"}
    for name in ("failed", "full_precision", "made", "seconds"):
        kept[name] = {key: value for key, value in facts[name].items() if key == "retrain"}
    return kept | {"methods": ["retrain"], "config": {"training": facts["config"]["training"]}}


def chosen() -> Unsir:
    """Read the settings with the best balance."""
    return Unsir(**json.loads(unsir_balance.RESULTS.read_text(encoding="utf-8"))["chosen"])


def main() -> None:
    """Run what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--stop-after", type=float, default=float("inf"))
    arguments = parser.parse_args()
    settings = chosen()
    studies = [
        replace(study, unsir=settings)
        for study in SUITES["paper"]
        if f"{study.set}/{study.architecture}" in arguments.networks
    ]
    for network in arguments.networks:
        copy_retrained(network, arguments.out)
    left = [p for p in pieces_left(studies, arguments.out, ["s0"]) if p.method in METHODS]
    left.sort(key=lambda p: (p.cell.set, p.cell.architecture, METHODS.index(p.method)))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    resources = Resources(arguments.out, arguments.data, arguments.weights, device)
    report_failures(run_pieces(left, resources, arguments.stop_after))


if __name__ == "__main__":
    main()
