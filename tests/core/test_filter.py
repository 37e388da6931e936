import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

import doors
from golden_integrations import DTYPES, KINDS, METHODS, TOLERANCE, golden_case, golden_filter
from unlabel import OutputFilter, UnlabelError
from worlds import COLDEST, HOTTEST

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_numpy_reproduces_the_golden_file(method, kind, dtype):
    rows, expected = golden_case(method, kind, dtype)
    result = golden_filter(method, kind).apply(rows)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE[dtype])


def made(**changes):
    given = {"classes_in": (0, 1, 2), "plan": (0,), "counts": (1,)}
    return OutputFilter(**given | {"means": [[0.5, 0.3, 0.2]], "shares": [[0, 0.3, 0.2]]} | changes)


def test_a_filter_keeps_labels_and_statistics_of_its_own(tmp_path):
    labels, removed, means = [np.int64(0), 1, 2], [np.int64(0)], np.array([[0.5, 0.3, 0.2]])
    fitted = made(classes_in=labels, plan=removed, counts=[np.int64(7)], means=means)
    before = fitted.apply([[0.5, 0.25, 0.25]])
    labels.reverse()
    removed.clear()
    means[:] = [[0.1, 0.8, 0.1]]
    assert (fitted.classes_in, fitted.removed, fitted.counts) == ((0, 1, 2), (0,), (7,))
    np.testing.assert_array_equal(fitted.apply([[0.5, 0.25, 0.25]]), before)
    fitted.save(tmp_path / "filter.safetensors")


def test_a_filter_and_its_copies_cannot_be_changed():
    fitted = made()
    with pytest.raises(AttributeError):
        fitted.temperature = 2.0
    for each in (fitted, copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert not each.means.flags.writeable
        assert not each.shares.flags.writeable
        np.testing.assert_array_equal(each.apply(np.eye(3)), fitted.apply(np.eye(3)))


BOUNDS = f"give a number from {COLDEST} to {HOTTEST}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": 0.0}, f"temperature is 0.0: {BOUNDS}"),
        ({"temperature": "1"}, "temperature is '1'"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 10**400}, BOUNDS),
        ({"temperature": 5e-324}, BOUNDS),
        ({"counts": (4, 5)}, "not one count"),
        ({"counts": (-1,)}, "not one count"),
        ({"counts": (1.5,)}, "not counts of rows"),
        ({"counts": None}, "not counts of rows"),
        ({"means": [[0.5, 0.5]]}, r"means have the shape \(1, 2\), not \(1, 3\)"),
        ({"means": [[1e-170] * 3]}, "the mean of the .* label 0"),
        ({"means": [[0.5, 0.3, 0.1]]}, "the mean of the .* label 0"),
        ({"means": [[0.5, np.nan, 0.5]]}, "the mean of the .* label 0"),
        ({"means": [[5.0, 2.5, 2.5]]}, "the mean of the .* label 0"),
        ({"shares": [[0, 0, 0]]}, "the share of the .* label 0"),
        ({"shares": [[0.3, 0.3, 0.3]]}, "the share of the .* label 0"),
        ({"shares": [[0.0, -0.3, 0.3]]}, "the share of the .* label 0"),
        ({"method": "mask"}, r"means have the shape \(1, 3\), not \(0, 3\)"),
        ({"plan": ("d",)}, "no label 'd'"),
        ({"plan": ()}, "not one count"),
    ],
)
def test_a_filter_that_no_rows_could_give_is_refused(changes, words):
    with pytest.raises(UnlabelError, match=words):
        made(**changes)


@pytest.fixture
def of_three(cifar10):
    logits, labels = cifar10
    return doors.fit(logits, labels, remove=[0, 4, 7], kind="logits")


def test_filters_are_equal_when_all_that_they_hold_is(of_three, tmp_path):
    of_three.save(tmp_path / "filter")
    first, second = (OutputFilter.load(tmp_path / "filter") for _ in range(2))
    assert first == second == of_three
    assert len({first, second, of_three}) == 1
    for changes in ({"temperature": 2.0}, {"kind": "probabilities"}):
        assert replace(of_three, **changes) != of_three
    assert made() == made(temperature=1)
    assert isinstance(made(temperature=1).temperature, float)  # files hold it
    assert made() != made(shares=[[0, 0.2, 0.3]])
    assert made() != "a filter"


def test_a_thousand_labels_are_not_all_shown():
    fitted = doors.mask(range(1000), range(900))
    assert repr(fitted) == (
        "<OutputFilter: 0, 1, 2, 3, 4, 5, 6, 7 and 892 more removed from 1000 labels, "
        "100 remain, method='mask', kind='probabilities', temperature=1>"
    )
    assert len(repr(doors.mask(["a" * 1000, "b"], ["a" * 1000]))) < 200
    assert repr(doors.mask([0, 1], [])).startswith("<OutputFilter: nothing removed from 2")
