import pytest

from unlabel import UnlabelError
from unlabel.errors import MissingExtraError, needs_extra


def test_a_missing_extra_is_a_failed_import_and_a_mistake_of_the_user():
    for kind in (ModuleNotFoundError, UnlabelError):
        with pytest.raises(kind) as caught, needs_extra("onnx"):
            import no_such_module  # noqa: F401
        assert str(caught.value) == "no_such_module is not installed: pip install 'unlabel[onnx]'."
        assert caught.value.name == "no_such_module"


def test_the_innermost_extra_is_named():
    expected = pytest.raises(MissingExtraError, match=r"'unlabel\[torch\]'")
    with expected, needs_extra("bench"), needs_extra("torch"):
        import no_such_module  # noqa: F401


def test_other_errors_pass_unchanged():
    expected = pytest.raises(ImportError, match="cannot import name 'nothing'")
    with expected as caught, needs_extra("onnx"):
        from json import nothing  # noqa: F401
    assert not isinstance(caught.value, MissingExtraError)
