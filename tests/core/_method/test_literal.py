"""The algorithm to the letter, without clipping: no probabilities."""

import numpy as np
import pytest
from scipy.special import softmax

import doors
import plain


@pytest.mark.parametrize("removed", [[0], [4, 0], [9, 7, 4, 0]])
def test_literal_agrees_with_plain_to_the_letter(cifar10, removed):
    logits, labels = cifar10
    rows = softmax(logits, axis=1)
    letter = plain.remove_label_to_the_letter
    steps = plain.fit([rows[labels == label] for label in removed], removed, 10, letter)
    ours = doors.fit(rows, labels, remove=removed, method="literal").apply(rows)
    np.testing.assert_allclose(ours, plain.apply(rows, steps, letter), rtol=1e-10, atol=1e-10)


def test_fact_2_results_are_divided_by_their_sum_not_by_b(cifar10):
    logits, labels = cifar10
    rows = softmax(logits, axis=1)
    letter = doors.fit(rows, labels, remove=[0], method="literal").apply(rows)
    assert letter.sum(axis=1).min() < 0.6
    assert letter.sum(axis=1).max() > 0.99


@pytest.mark.parametrize("removed", [[0], [0, 4, 7, 9]])
def test_fact_3_clipping_the_residual_keeps_probabilities(cifar10, removed):
    logits, labels = cifar10
    rows = softmax(logits, axis=1)
    letter = doors.fit(rows, labels, remove=removed, method="literal").apply(rows)
    assert (letter < 0).mean() > 0.4


def test_fact_3_unclipped_residuals_diverge_over_many_removals(cifar100):
    logits, labels = cifar100
    rows = softmax(logits, axis=1)
    letter = doors.fit(rows, labels, remove=range(40), method="literal").apply(rows)
    assert np.abs(letter).max() > 1e3
