"""The method written out plainly, independent of the code under test.

The projector comes from the published construction: Gauss-Jordan elimination for a basis
of the null space, Gram-Schmidt for an orthonormal one, and their product.

Results that must hold to the last digit are computed again with decimal numbers, which do
not underflow and lose nothing in a subtraction. There the projector is the closed form, which
the tests compare with the construction.
"""

import math
from decimal import Decimal, localcontext

import numpy as np

# More digits than any subtraction in the tests can lose.
DIGITS = 400


def softmax(logits):
    powers = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def null_space_by_gauss_jordan(mean):
    """Find a basis of the solutions of ``mean . v = 0``, one vector per row."""
    n = len(mean)
    matrix = [[float(value) for value in mean]]
    pivot = max(range(n), key=lambda j: abs(matrix[0][j]))
    lead = matrix[0][pivot]
    matrix[0] = [value / lead for value in matrix[0]]
    basis = []
    for free in range(n):
        if free != pivot:
            vector = [0.0] * n
            vector[free] = 1.0
            vector[pivot] = -matrix[0][free]
            basis.append(vector)
    return np.array(basis).reshape(n - 1, n)


def gram_schmidt(basis):
    """Orthonormalise the rows, each of them twice."""
    orthonormal = np.zeros_like(basis)
    for i, vector in enumerate(basis):
        for _ in range(2):
            for q in orthonormal[:i]:
                vector = vector - (q @ vector) * q
        orthonormal[i] = vector / np.sqrt(vector @ vector)
    return orthonormal


def projector(mean):
    q = gram_schmidt(null_space_by_gauss_jordan(mean))
    return q.T @ q


def fit_label(rows, i):
    mean = sum(rows) / len(rows)
    project = projector(mean)
    directions = []
    for y in rows:
        z = np.abs(project @ y)
        if z.sum() > 1e-13:
            directions.append(np.delete(z / z.sum(), i))
    if directions:
        share = sum(directions) / len(directions)
    else:
        share = np.delete(mean, i)
        share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
    return project, share


def remove_label(x, i, project, share):
    rho = min(max((project @ x)[i], 0.0), 1.0)
    rest = np.delete(x, i)
    spread = rest / rest.sum() if rest.sum() > 0 else share
    result = (1 - rho) * spread + rho * share
    return result / result.sum()


def remove_label_to_the_letter(x, i, project, share):
    rho = (project @ x)[i]
    rest = np.delete(x, i)
    return (rho * share + (1 - rho) / rest.sum() * rest) / (x[i] + 1 - rho)


def fit(references, removed, n, remove=remove_label):
    """Fit the steps that remove columns in order, on the reference rows of each."""
    there, steps = list(range(n)), []
    for rows, column in zip(references, removed, strict=True):
        rows = [apply_row(np.asarray(y, float), steps, remove) for y in rows]
        i = there.index(column)
        steps.append((i, *fit_label(rows, i)))
        there.remove(column)
    return steps


def apply_row(x, steps, remove=remove_label):
    for i, project, share in steps:
        x = remove(x, i, project, share)
    return x


def at_temperature(x, temperature):
    """Calibrate a row; what counts as none stays none at any temperature."""
    powers = [entry ** (1 / temperature) if entry > 1e-290 else 0.0 for entry in x]
    return np.array(powers) / math.fsum(powers)


def apply(rows, steps, remove=remove_label):
    return np.array([apply_row(np.asarray(x, float), steps, remove) for x in rows])


def exactly(values):
    """Convert floats to decimal numbers, exactly."""
    return [Decimal(float(value)) for value in values]


def normalised_exactly(values):
    """Convert floats to decimal numbers, and divide them by their sum."""
    numbers = exactly(values)
    with localcontext(prec=DIGITS):
        return [number / sum(numbers) for number in numbers]


def softmax_exactly(logits):
    with localcontext(prec=DIGITS):
        powers = [Decimal(0) if z == -np.inf else Decimal(float(z)).exp() for z in logits]
        return [power / sum(powers) for power in powers]


def fit_exactly(references, removed, n):
    """Fit with decimal numbers, on rows that are not all equal."""
    there, steps = list(range(n)), []
    with localcontext(prec=DIGITS):
        for rows, column in zip(references, removed, strict=True):
            rows = [apply_exactly(y, steps) for y in rows]
            i = there.index(column)
            mean = [sum(entries) / len(rows) for entries in zip(*rows, strict=True)]
            directions = []
            for y in rows:
                z = [abs(entry) for entry in _project(mean, y)]
                directions.append([entry / sum(z) for entry in z])
            share = [sum(entries) / len(rows) for entries in zip(*directions, strict=True)]
            steps.append((i, mean, share[:i] + share[i + 1 :]))
            there.remove(column)
    return steps


def apply_exactly(x, steps):
    with localcontext(prec=DIGITS):
        for i, mean, share in steps:
            rho = min(max(_project(mean, x)[i], Decimal(0)), Decimal(1))
            rest = x[:i] + x[i + 1 :]
            spread = [entry / sum(rest) for entry in rest] if sum(rest) > 0 else share
            mixed = [(1 - rho) * m + rho * s for m, s in zip(spread, share, strict=True)]
            x = [entry / sum(mixed) for entry in mixed]
    return x


def _project(mean, x):
    along = sum(c * entry for c, entry in zip(mean, x, strict=True)) / sum(c * c for c in mean)
    return [entry - along * c for c, entry in zip(mean, x, strict=True)]


def log_loss(rows, truth, temperature=1.0):
    """Average -log of the true label's probability, at a temperature."""
    losses = []
    for row, true in zip(rows, truth, strict=True):
        logs = [math.log(p) / temperature if p > 0 else -math.inf for p in row]
        top = max(logs)
        losses.append(top + math.log(sum(math.exp(v - top) for v in logs)) - logs[true])
    return sum(losses) / len(losses)


def best_temperature(rows, truth):
    """Find the temperature of the lowest log-loss: a grid, then a golden-section search."""
    grid = [math.log(0.01) + step * math.log(1e4) / 60 for step in range(61)]
    at = min(range(61), key=lambda step: log_loss(rows, truth, math.exp(grid[step])))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, 60)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(45):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if log_loss(rows, truth, math.exp(left)) < log_loss(rows, truth, math.exp(right)):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)
