"""What `dataclasses.replace` may change of a filter."""

from dataclasses import replace

import numpy as np
import pytest

import doors
from unlabel import UnlabelError


@pytest.fixture
def of_three(cifar10):
    logits, labels = cifar10
    return doors.fit(logits, labels, remove=[0, 4, 7], kind="logits")


def test_no_step_can_be_dropped_changed_or_moved(of_three):
    kept = [0, 2]  # without its middle step a filter would still look like one
    dropped = {
        "plan": (0, 7),
        "means": of_three.means[kept],
        "shares": of_three.shares[kept],
        "counts": tuple(of_three.counts[step] for step in kept),
    }
    half = of_three.shares / 2
    for changes in (dropped, {"shares": half}, {"means": of_three.means * (1 + 1e-9)}):
        with pytest.raises(UnlabelError, match="cannot be changed: fit a new filter that"):
            replace(of_three, **changes)


def test_labels_cannot_change_places(of_three):
    with pytest.raises(UnlabelError, match="cannot change places"):
        replace(of_three, classes_in=(0, 2, 1, *range(3, 10)))
    assert replace(of_three, classes_in=(0, "one", *range(2, 10))).classes[0] == "one"


def test_everything_but_the_steps_can_be_changed(of_three):
    warmer = replace(of_three, temperature=2.0, input="probabilities")
    names = tuple("abcdefghij")
    renamed = replace(warmer, classes_in=names, plan=("a", "e", "h"))
    assert renamed.classes == ("b", "c", "d", "f", "g", "i", "j")
    rows = np.full((1, 10), 0.1)
    np.testing.assert_array_equal(renamed.apply(rows), warmer.apply(rows))
