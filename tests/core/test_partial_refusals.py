"""Rows that cannot be partial, and filters that need whole rows."""

from dataclasses import replace

import numpy as np
import pytest

from plain_plan import OLD
from unlabel import OutputFilter, UnlabelError
from unlabel._partial import check_partial, filter_partial, require_partial
from unlabel.errors import RowError
from unlabel.fitting import fit_filter

NAN = np.nan
SCORES = "give probabilities from 0 to 1, not percentages, logits or log-probabilities."
REFUSED = {
    "nothing is named": ([NAN] * 6, False, " names no label: give the score of at least one."),
    "a negative score": (
        [0.5, -0.25, *[NAN] * 4],
        False,
        f" gives the label 'dog' the score -0.25: {SCORES}",
    ),
    "minus infinity": (
        [-np.inf, np.inf, *[NAN] * 4],
        False,
        f" gives the label 'cat' the score -inf: {SCORES}",
    ),
    "an infinite score": (
        [0.5, np.inf, *[NAN] * 4],
        False,
        f" gives the label 'dog' the score inf: {SCORES}",
    ),
    "percentages": (
        [NAN, NAN, 60.0, 20.0, NAN, NAN],
        False,
        f" gives the label 'fox' the score 60: {SCORES}",
    ),
    "too much": (
        [0.7, 0.5, *[NAN] * 4],
        False,
        " sums to 1.2, and the labels that it names cannot have more than 1: give probabilities "
        "of labels that exclude each other, as a softmax gives them.",
    ),
    "a whole row with too little": (
        [0.5, 0.3, 0, 0, 0, 0],
        False,
        " sums to 0.8 and names every label: divide it by its sum, or leave out unknown scores.",
    ),
    "no room for the rest": (
        [0.5, 0.3, 0.01, 0.01, 0.01, NAN],
        True,
        " sums to 0.83, and the labels that it does not name cannot have the rest if none has "
        "more than 0.01, the smallest score: name the labels with the largest scores, or leave "
        "out top_k (--top-k).",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("before", [0, 20_000])
def test_rows_that_cannot_be_partial_are_refused(case, dtype, before):
    row, largest, problem = REFUSED[case]
    rows = np.full((before + 2, 6), 0.125, dtype=dtype)
    rows[:, 2:] = NAN
    rows[:, 0] = 0.5
    rows[before] = row
    message = f"Row {before}{problem}"
    for refuse in (
        lambda: check_partial(rows, OLD, largest=largest),
        lambda: filter_partial(OutputFilter.mask(OLD, ["cat"]), rows, largest=largest),
    ):
        with pytest.raises(RowError) as caught:
            refuse()
        assert caught.value.row == before
        if dtype != np.float16:  # which has fewer digits
            assert str(caught.value) == message


@pytest.mark.parametrize(
    ("row", "largest"),
    [
        ([0.5005, 0.5, *[NAN] * 4], False),  # three decimals
        ([0.34, 0.34, 0.33, *[NAN] * 3], False),  # two
        ([0.2, 0.2, 0.2, 0.18, 0.18, NAN], True),
        ([0.2, 0.2, 0.2, 0.18, 0.0, NAN], False),
        ([0.17, 0.17, 0.17, 0.17, 0.15, NAN], True),  # 0.98 if 0.15 is hidden
        ([1.0000001, *[NAN] * 5], False),
        ([0.17, 0.17, 0.17, 0.17, 0.17, 0.17], False),  # whole
        ([0.0, *[NAN] * 5], False),
    ],
)
def test_rounded_rows_are_not_refused(row, largest):
    check_partial(np.array([row], dtype=np.float64), OLD, largest=largest)
    check_partial(np.array([row], dtype=np.float32), OLD, largest=largest)


def test_filters_that_need_whole_rows_are_refused():
    rows, labels = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]), ["cat", "dog"]
    options = {"classes": OLD[:3], "remove": ["cat"]}
    osr = fit_filter(rows, labels, **options)
    mask = osr.as_mask()
    require_partial(mask)
    cases = {
        "method='osr' needs whole rows, and partial rows name only some labels: fit the filter "
        "with method='mask' (--method mask).": osr,
        "method='literal' needs whole rows, and partial rows name only some labels: fit the filter "
        "with method='mask' (--method mask).": fit_filter(
            rows, labels, **options, method="literal"
        ),
        "A temperature needs whole rows, and partial rows name only some labels: fit the filter "
        "without calibrate=True (--calibrate).": replace(mask, temperature=1.5),
        "The filter takes logits, and those of only some labels do not tell their probabilities: "
        "give probabilities, and declare them with input='probabilities' (--input "
        "probabilities).": mask.taking("logits"),
    }
    for message, fitted in cases.items():
        for refuse in (require_partial, lambda fitted: filter_partial(fitted, rows)):
            with pytest.raises(UnlabelError) as caught:
                refuse(fitted)
            assert str(caught.value) == message
