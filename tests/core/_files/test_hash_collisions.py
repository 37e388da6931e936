"""Labels chosen so that their hashes collide do not make a filter slow."""

import time

import numpy as np
import pytest

import doors
from hostile_numbers import colliding_numbers
from unlabel.evaluation.trial import without
from unlabel.validation import true_columns


@pytest.mark.parametrize("labels", ["alike", "colliding", "floats", "ids"])
def test_numbers_cannot_be_chosen_so_that_a_filter_is_slow(tmp_path, labels):
    # The hash of a number is not a secret, and the first list has the same hash throughout.
    classes = {
        "alike": [k * (2**61 - 1) for k in range(1, 60_000)],
        "colliding": colliding_numbers(17, 60_000, 27_000),
        "floats": [k * 2.0**61 for k in range(1, 60_000)],
        "ids": (10**6 + np.random.default_rng(0).permutation(10**6)[:60_000]).tolist(),
    }[labels]
    start = time.process_time()
    fitted = doors.mask(classes, classes[-2:])
    fitted.save(tmp_path / "filter")
    loaded = doors.load(tmp_path / "filter")
    assert without(loaded.classes_in, loaded.removed) == tuple(classes[:-2])
    assert true_columns(classes[-1:], loaded.classes_in, 1) == len(classes) - 1
    assert time.process_time() - start < 5  # a dictionary of these numbers takes a minute or more
