"""Errors that know the argument, the row and the file, and compose their text of them."""

import pickle

import pytest

from unlabel import UnlabelError
from unlabel.errors import MissingExtraError, located, needs_extra


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ({}, "It sums to 1.2: divide it by its sum."),
        ({"row": 3}, "Row 3: it sums to 1.2: divide it by its sum."),
        ({"row": "line 4"}, "Line 4: it sums to 1.2: divide it by its sum."),
        ({"path": "a.csv"}, "a.csv: it sums to 1.2: divide it by its sum."),
        ({"path": "a.csv", "row": 0}, "a.csv, row 0: it sums to 1.2: divide it by its sum."),
        ({"argument": "plan"}, "It sums to 1.2: divide it by its sum (plan=)."),
    ],
)
@pytest.mark.parametrize("period", ["", "."])
def test_the_text_is_composed_of_the_problem_and_its_places(places, text, period):
    error = UnlabelError(f"It sums to 1.2: divide it by its sum{period}", **places)
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert str(each) == text
        assert (each.argument, each.row, each.path) == tuple(
            map(places.get, ("argument", "row", "path"))
        )
    assert error.text(lambda name: f"--{name}") == text.replace("plan=", "--plan")


def test_words_that_are_not_the_start_of_a_sentence_keep_their_letters():
    assert str(UnlabelError("NaN is no number.", row=1)) == "Row 1: NaN is no number."
    assert str(UnlabelError("'a' is no number.", path="p.csv")) == "p.csv: 'a' is no number."


def test_places_are_added_on_the_way_out_and_a_file_hides_the_argument():
    with pytest.raises(UnlabelError) as caught, located("a.toml", row="line 2"):
        raise UnlabelError("It is empty.", argument="plan", row="line 7", path="b.toml")
    assert str(caught.value) == "b.toml, line 7: it is empty."
    with (
        pytest.raises(UnlabelError, match=r"^Line 2: it is empty \(plan=\)\.$"),
        located(row="line 2"),
    ):
        raise UnlabelError("It is empty.", argument="plan")


MISSING = "The module no_such_module is not installed: pip install 'unlabel[onnx]'."


def test_a_missing_extra_is_a_failed_import_and_a_mistake_of_the_user():
    for kind in (ModuleNotFoundError, UnlabelError):
        with pytest.raises(kind) as caught, needs_extra("onnx"):
            import no_such_module  # noqa: F401
        assert str(caught.value) == MISSING
        assert caught.value.name == "no_such_module"


def test_the_innermost_extra_is_named():
    expected = pytest.raises(MissingExtraError, match=r"'unlabel\[torch\]'")
    with expected, needs_extra("serve"), needs_extra("torch"):
        import no_such_module  # noqa: F401


def test_other_errors_pass_unchanged():
    expected = pytest.raises(ImportError, match="cannot import name 'nothing'")
    with expected as caught, needs_extra("onnx"):
        from json import nothing  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)
