"""The method written out plainly, independent of the code under test.

The projector comes from the published construction: Gauss-Jordan elimination for a basis
of the null space, Gram-Schmidt for an orthonormal one, and their product.
"""

import numpy as np


def null_space_by_gauss_jordan(mean):
    """Basis of the solutions of ``mean . v = 0``, a vector a row."""
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
    """Orthonormal rows with the same span; each row is cleaned twice."""
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
    """Steps that remove some columns in order, given the reference rows of each."""
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


def apply(rows, steps, remove=remove_label):
    return np.array([apply_row(np.asarray(x, float), steps, remove) for x in rows])
