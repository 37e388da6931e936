"""The values of stored cells by plain loops over their rows, independent of the code under test."""

import math
import random
from collections import defaultdict

import numpy as np

import bench_results
import plain_metrics as plain
from bench_results import EVERY, LABELS
from research.attack import attack_auc
from research.results.files import read_result

TRUTH = LABELS.tolist()


def softmax(logits):
    rows = []
    for row in np.asarray(logits, dtype=float).tolist():
        exponentials = [math.exp(value - max(row)) for value in row]
        rows.append([value / math.fsum(exponentials) for value in exponentials])
    return rows


def retrained(results, seed, forget):
    """Return the probabilities of a model that was retrained with a seed."""
    return softmax(read_result(results, bench_results.cell(seed, forget)).arrays["retrain"])


def outputs_of(results, forget, seed=0):
    """Return probabilities and columns of every method, and the retained and removed labels."""
    cell = bench_results.cell(seed, forget)
    stored, base = read_result(results, cell), read_result(results, cell.base)
    retained = [label for label in EVERY if label not in cell.removed]
    logits = base.arrays["base"].astype(float)
    found = {
        "base": (softmax(logits), EVERY),
        "retrain": (softmax(stored.arrays["retrain"]), retained),
        "mask": (softmax(logits[:, retained]), retained),
        "osr": (stored.filter.apply(logits).tolist(), retained),
        "unsir": (softmax(stored.arrays["unsir"]), EVERY),
        "nhle_cwm": (softmax(stored.arrays["nhle_cwm"]), EVERY),
    }
    for name, matrix in stored.arrays.items():
        if name.startswith("linear_filtration"):
            found[name] = (softmax(logits @ matrix.T.astype(float)), retained)
    # It adds one number to all of a row's logits, which softmax does not see.
    found["linear_filtration_normalization"] = found["mask"]
    return found, retained, list(cell.removed)


def mean_by_kind(values, removed):
    kinds = defaultdict(list)
    for value, label in zip(values, TRUTH, strict=True):
        kinds["F" if label in removed else "R"].append(value)
    return {kind: plain.mean(group) for kind, group in kinds.items()}


def alone(rows, columns, retained, removed):
    """Return the values of an output that need no other output."""
    judged, gone = (rows, TRUTH, columns), np.isin(LABELS, removed)
    worst, ties = plain.coverage(*judged, retained)
    return {
        "A_R": plain.mean(plain.label_accuracy(*judged, retained)),
        "A_F": plain.mean(plain.label_accuracy(*judged, removed)),
        "Cov_R": worst,
        "Cov_F": plain.coverage(*judged, removed)[0],
        "ties": ties,
        "log_loss": plain.log_loss(*judged, retained),
        "ECE": plain.expected_calibration_error(*judged, retained, 15),
        "attack_auc": attack_auc(np.array(rows)[gone], np.array(rows)[~gone]),
    }


def padded(rows, retained):
    """Return rows with 0 for labels that they lack, if they lack any."""
    if len(rows[0]) == len(EVERY):
        return rows
    at = [retained.index(label) if label in retained else None for label in EVERY]
    return [[0.0 if column is None else row[column] for column in at] for row in rows]


def mean_of(dictionaries):
    return {name: plain.mean([each[name] for each in dictionaries]) for name in dictionaries[0]}


def mean_over_labels(values, labels, removed):
    """Return the mean over retained labels of the mean over their rows."""
    by_label = defaultdict(list)
    for value, label in zip(values, labels, strict=True):
        if label not in removed:
            by_label[int(label)].append(float(value))
    return plain.mean([plain.mean(found) for found in by_label.values()])


def bootstrap(values, labels, removed, draws):
    """Return a 95% interval of that mean, with rows drawn anew within each label."""
    draw, means = random.Random(5), []
    rows = [[i for i, own in enumerate(labels) if own == label] for label in sorted(set(labels))]
    for _ in range(draws):
        drawn = [i for own in rows for i in draw.choices(own, k=len(own))]
        means.append(mean_over_labels(values[drawn], labels[drawn], removed))
    means.sort()
    return means[round(0.025 * draws)], means[round(0.975 * draws)]
