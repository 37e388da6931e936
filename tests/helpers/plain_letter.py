"""Algorithm 1 of the paper, line by line, independent of the code under test.

Several labels are removed one after another, each by the algorithm on what the ones before left.
"""

import numpy as np

from plain import gram_schmidt, null_space_by_gauss_jordan


def remove(outputs, i):
    """Return the function that removes entry i, from the outputs of inputs of that label."""
    c_bar = np.zeros(len(outputs[0]))  # 1
    for y in outputs:  # 2, 3
        c_bar = c_bar + y  # 4
    c_bar = c_bar / len(outputs)  # 5
    basis = null_space_by_gauss_jordan(c_bar)  # 6
    columns = gram_schmidt(basis).T  # 7
    p = columns @ columns.T  # 8
    shares = []
    for y in outputs:  # 9
        y_p = p @ y  # 10
        z = np.abs(y_p)  # 11
        z = z / z.sum()
        shares.append(np.delete(z, i))  # 12
    c_bar_r = sum(shares) / len(outputs)  # 13

    def removed(c_x):
        c_u, c_r = c_x[i], np.delete(c_x, i)  # 14
        c_p = (p @ c_x)[i]  # 15
        c_1 = c_p * c_bar_r  # 16
        c_2, b = (1 - c_p) / (1 - c_u) * c_r, c_u + 1 - c_p  # 17
        return (c_1 + c_2) / b  # 18

    return removed


def remove_all(rows, references, labels):
    """Remove labels in order from rows, given the outputs on inputs of each."""
    steps, left = [], list(range(rows.shape[1]))

    def after(row):
        for step in steps:
            row = step(row)
        return row

    for outputs, label in zip(references, labels, strict=True):
        steps.append(remove([after(y) for y in outputs], left.index(label)))
        left.remove(label)
    return np.array([after(row) for row in rows])
