"""The letter of Algorithm 1 equals a plain transcription of its lines, on the shipped outputs."""

import numpy as np
import pytest
from scipy.special import softmax

import plain_letter
from research import letter
from research.registry import DATASETS
from unlabel.evaluation import load_cifar10


@pytest.fixture(scope="module")
def shipped():
    outputs = load_cifar10()
    numbers = {label: number for number, label in enumerate(outputs.classes)}
    truth = np.array([numbers[label] for label in outputs.labels.tolist()])
    return softmax(outputs.base.astype(np.float64), axis=1), truth


@pytest.mark.parametrize(("number", "largest"), [(1, "1"), (2, "2.18"), (3, "20.4"), (4, "1.18")])
def test_the_letter_is_that_of_the_paper(number, largest, shipped):
    rows, truth = shipped
    removed = DATASETS["cifar10"].forget[number - 1]
    found = letter.remove(rows, truth, removed)
    expected = plain_letter.remove_all(rows, [rows[truth == k] for k in removed], removed)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    assert f"{np.abs(found).max():.3g}" == largest
