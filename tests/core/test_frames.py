"""Frames: their columns may stand in another order than the labels, so the core refuses them."""

import pytest

from unlabel import OutputFilter, UnlabelError, metrics
from worlds import FEW as ROWS
from worlds import FEW_NAMES as NAMES
from worlds import FEW_TRUTH as TRUTH

MASK = OutputFilter.from_plan({"cat": None}, classes=NAMES)

FRAMES = {
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(ROWS, columns=NAMES),
    "series": lambda: pytest.importorskip("pandas").Series(ROWS[0], index=NAMES),
    "polars": lambda: pytest.importorskip("polars").DataFrame(ROWS, schema=NAMES),
    "arrow": lambda: pytest.importorskip("pyarrow").table(
        {name: ROWS[:, at] for at, name in enumerate(NAMES)}
    ),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]()


@pytest.mark.parametrize(
    "given_to",
    [
        MASK.run,
        MASK.apply,
        MASK.answer,
        lambda frame: OutputFilter.fit(frame, TRUTH, classes=NAMES, remove=["cat"]),
        lambda frame: metrics.mean_accuracy(frame, TRUTH, NAMES),
        lambda frame: metrics.kl_divergence(ROWS, frame),
    ],
)
def test_frames_are_refused(frame, given_to):
    with pytest.raises(UnlabelError, match=f"are a {type(frame).__name__}, .* give an array"):
        given_to(frame)


def test_true_labels_may_be_a_series():
    pandas = pytest.importorskip("pandas")
    fitted = OutputFilter.fit(
        ROWS, pandas.Series(TRUTH), classes=NAMES, remove=["cat"], method="mask"
    )
    assert fitted == OutputFilter.fit(ROWS, TRUTH, classes=NAMES, remove=["cat"], method="mask")
