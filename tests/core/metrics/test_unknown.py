"""Unknown: the share of rows above a threshold, and the threshold for a share."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from unlabel import UnlabelError, metrics

# Few distinct masses make many ties; others are any numbers.
MASSES = st.lists(
    st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)), min_size=1, max_size=40
)


def smallest_threshold(masses, loss):
    """Try every mass, and 0, from below."""
    for threshold in sorted({0.0, *masses}):
        above = 0
        for mass in masses:
            above += mass > threshold
        if above / len(masses) <= loss:
            return threshold
    raise AssertionError("no mass is above the largest")


@given(MASSES, st.one_of(st.floats(0, 1), st.fractions(0, 1, max_denominator=40).map(float)))
def test_the_threshold_is_the_smallest_that_loses_no_more(masses, loss):
    threshold = metrics.unknown_threshold(masses, loss)
    assert threshold == smallest_threshold(masses, loss)
    assert metrics.unknown_share(masses, threshold) <= loss


@pytest.mark.parametrize("percent", range(101))
def test_a_share_of_a_hundred_rows_is_exact(percent):
    masses = [row / 128 for row in range(1, 101)]
    threshold = metrics.unknown_threshold(masses, percent / 100)
    assert Fraction(sum(mass > threshold for mass in masses), 100) == Fraction(percent, 100)


@given(MASSES, st.lists(st.floats(-0.5, 1.5), max_size=5))
def test_the_share_above_is_counted(masses, thresholds):
    thresholds = [*thresholds, *masses[:3]]
    expected = [sum(mass > above for mass in masses) / len(masses) for above in thresholds]
    assert metrics.unknown_share(masses, thresholds).tolist() == expected


def test_shares_of_no_rows_are_not_known():
    assert np.isnan(metrics.unknown_share([], [0, 0.5])).all()


def test_the_order_of_rows_and_their_type_do_not_matter():
    masses = np.random.default_rng(0).random(1000).astype(np.float32)
    masses.flags.writeable = False
    threshold = metrics.unknown_threshold(masses)
    assert threshold == metrics.unknown_threshold(np.sort(masses)[::-1].tolist())
    assert (masses > threshold).sum() == 10


def test_a_filter_gives_the_masses():
    rows = np.random.default_rng(1).dirichlet(np.ones(4), 500)
    mass = doors.run(doors.mask(range(4), [2, 3]), rows).removed_mass
    assert (mass > metrics.unknown_threshold(mass, 0.1)).sum() == 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "no rows of retained labels"),
        (([0.5], 1.5), "loss 1.5 is not a share"),
        (([0.5], float("nan")), "loss nan is not a share"),
        (([0.1, float("nan")],), "Row 1: the removed mass is nan"),
        (([0.1, 50.0],), "Row 1: the removed mass is 50"),
        (([[0.1]],), r"shape \(1, 1\): give one per row"),
        ((["a"],), "not an array of numbers"),
    ],
)
def test_mistakes_get_one_clear_sentence(arguments, words):
    with pytest.raises(UnlabelError, match=words) as error:
        metrics.unknown_threshold(*arguments)
    assert str(error.value).count(". ") == 0
