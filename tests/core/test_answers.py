"""Allowed labels and unknown answers, as the golden file has them."""

import numpy as np
import pytest

import doors
from golden_answers import GOLDEN, LABELS, LISTS, UNKNOWN_ABOVE, golden_filter

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.mark.parametrize("scores", ["renormalised", "absolute"])
def test_allowed_labels_are_those_of_the_golden_file(scores):
    fitted, allow = golden_filter(), LISTS.rows(GOLDEN["lists"])
    assert fitted.classes_out == tuple(GOLDEN["results"])
    result = fitted.apply(GOLDEN["rows"], allow=allow, scores=scores)
    np.testing.assert_allclose(result, GOLDEN[scores], rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        doors.run(fitted, GOLDEN["rows"], allow=allow).not_allowed,
        GOLDEN["not_allowed"],
        rtol=0,
        atol=1e-12,
    )


def test_unknown_answers_are_those_of_the_golden_file():
    fitted = golden_filter()
    mass = doors.run(fitted, GOLDEN["rows"]).removed_mass
    np.testing.assert_allclose(mass, GOLDEN["removed_mass"], rtol=0, atol=1e-15)
    best = fitted.apply(GOLDEN["rows"], allow=LISTS.rows(GOLDEN["lists"])).argmax(axis=1)
    names = np.array([*fitted.classes_out, "unknown"])
    answers = names[np.where(mass > UNKNOWN_ABOVE, len(names) - 1, best)]
    np.testing.assert_array_equal(answers, GOLDEN["answers"])
    assert {"unknown", "insect", "emu"} <= {*answers.tolist()}
    assert len(LABELS) == GOLDEN["rows"].shape[1]
