from dataclasses import replace

import numpy as np
import pytest

from golden_faces import DTYPES, INPUTS, METHODS, TOLERANCE, golden_case, golden_filter
from unlabel import OutputFilter, UnlabelError
from unlabel.fitting import fit_filter

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("method", METHODS)
def test_numpy_reproduces_the_golden_file(method, input, dtype):
    rows, expected = golden_case(method, input, dtype)
    result = golden_filter(method, input).apply(rows)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE[dtype])


def test_destinations_have_the_temperature_of_results():
    fitted = fit_filter([[0.5, 0.4, 0.1], [0.7, 0.2, 0.1]], [0, 0], remove=[0])
    np.testing.assert_allclose(fitted.destinations(), [[0.75, 0.25]], rtol=1e-14)
    ours = replace(fitted, temperature=2.0).destinations()
    roots = np.sqrt([[0.75, 0.25]])
    np.testing.assert_allclose(ours, roots / roots.sum(), rtol=1e-14)


def made(**changes):
    given = {"classes_in": (0, 1, 2), "removed": (0,), "counts": (1,)}
    return OutputFilter(**given | {"means": [[0.5, 0.3, 0.2]], "shares": [[0, 0.3, 0.2]]} | changes)


def test_a_filter_keeps_labels_of_its_own(tmp_path):
    labels, removed = [np.int64(0), 1, 2], [np.int64(0)]
    fitted = made(classes_in=labels, removed=removed, counts=[np.int64(7)])
    labels.reverse()
    removed.clear()
    assert (fitted.classes_in, fitted.removed, fitted.counts) == ((0, 1, 2), (0,), (7,))
    fitted.save(tmp_path / "filter.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"means": [[1e-170] * 3]}, "The mean of the removed label 0 is not one that"),
        ({"means": [[0.5, 0.3, 0.1]]}, "The mean of the removed label 0 is not one that"),
        ({"shares": [[0, 0, 0]]}, "The share of the removed label 0 is not one that"),
        ({"counts": (1.5,)}, "are no counts of rows"),
        ({"counts": None}, "are no counts of rows"),
        ({"counts": (-1,)}, "is not one count of rows a removed label"),
    ],
)
def test_a_filter_that_no_rows_could_give_is_refused(changes, message):
    with pytest.raises(UnlabelError, match=message):
        made(**changes)
