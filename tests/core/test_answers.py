"""Allowed labels and unknown answers, as the golden file has them."""

import numpy as np
import pytest

from golden_answers import GOLDEN, LISTS, RULE, golden_filter

pytestmark = pytest.mark.usefixtures("both_ways")


def test_answers_are_those_of_the_golden_file():
    fitted, allow = golden_filter(), {"allow": LISTS, "allow_by": GOLDEN["lists"]}
    assert fitted.classes_out == tuple(GOLDEN["results"])
    found = fitted.run(GOLDEN["rows"], **allow)
    for name, values in {
        "renormalised": found.confidences,
        "not_allowed": found.not_allowed,
        "removed_mass": found.removed_mass,
    }.items():
        np.testing.assert_allclose(values, GOLDEN[name], rtol=0, atol=1e-12)
    answers = fitted.answer(GOLDEN["rows"], RULE, **allow)
    assert answers.tolist() == GOLDEN["answers"].tolist()
    assert {"unknown", "insect", "emu"} <= {*answers}
