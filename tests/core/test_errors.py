import pickle

import pytest

from unlabel import UnlabelError
from unlabel.errors import MissingExtraError, RowError, needs_extra


def test_an_error_of_a_row_knows_its_number():
    error = RowError(3, " sums to 1.2.", "in the batch, ")
    assert isinstance(error, UnlabelError)
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert (each.row, each.before, each.after) == (3, "in the batch, ", " sums to 1.2.")
        assert str(each) == "In the batch, row 3 sums to 1.2."
    assert str(RowError(0, " is empty.")) == "Row 0 is empty."


def test_a_missing_extra_is_a_failed_import_and_a_mistake_of_the_user():
    for kind in (ModuleNotFoundError, UnlabelError):
        with pytest.raises(kind) as caught, needs_extra("onnx"):
            import no_such_module  # noqa: F401
        assert str(caught.value) == "no_such_module is not installed: pip install 'unlabel[onnx]'."
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
