"""Computes values of the committed cells with plain code, the KL with several epsilons."""

from __future__ import annotations

import math

import numpy as np

import reproduced
from research.results.files import read_result, stored_cells

EPSILONS = (1e-12, 1e-8, 1e-6)


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def kl(rows, others, epsilon):
    """Return the mean KL over all entries, each at least epsilon in the logarithm."""
    logs = np.log(np.maximum(rows, epsilon) / np.maximum(others, epsilon))
    return (rows * logs).sum(axis=1).mean()


def distances(result, base, removed):
    """Return the KL of three methods to the retrained model, and of OSR to the base model."""
    logits, truth = base.arrays["base"].astype(np.float64), base.arrays["labels"]
    kept = np.delete(np.arange(logits.shape[1]), removed)
    retrained, osr = np.zeros(logits.shape), np.zeros(logits.shape)
    retrained[:, kept] = softmax(result.arrays["retrain"])
    osr[:, kept] = result.filter.apply(logits)
    outputs = {"osr": osr}
    for name in ("unsir", "nhle_cwm"):
        outputs[name] = softmax(result.arrays[name])
        outputs[f"{name} cut"] = np.zeros(logits.shape)
        outputs[f"{name} cut"][:, kept] = softmax(result.arrays[name][:, kept])
    of_removed = np.isin(truth, removed)
    found = {
        f"KL_retrained_{kind} {name} {epsilon}": kl(output[rows], retrained[rows], epsilon)
        for kind, rows in (("R", ~of_removed), ("F", of_removed))
        for name, output in outputs.items()
        for epsilon in EPSILONS
    }
    return found | {"KL_base_R osr": kl(osr[~of_removed], softmax(logits)[~of_removed], 1e-12)}


def values_by_cell(networks):
    """Compute our values by metric and method, network and set of labels: a list over seeds."""
    found = {}
    cells = stored_cells(reproduced.RESULTS)
    for cell in cells:
        if (cell.set, cell.architecture) not in networks:
            continue
        result = read_result(reproduced.RESULTS, cell)
        values = {
            f"{metric} {method}": value
            for method, of_method in result.facts["full_precision"].items()
            for metric, value in of_method.items()
        }
        for method, seconds in result.facts.get("seconds", {}).items():
            values[f"seconds {method}"] = seconds.get("total", math.fsum(seconds.values()))
        if cell.removed and cell.base in cells:
            base = read_result(reproduced.RESULTS, cell.base)
            values |= distances(result, base, list(cell.removed))
        for name, value in values.items():
            found.setdefault((name, cell.set, cell.architecture, cell.forget), []).append(value)
    return found
