import types
from importlib import metadata

import pytest

import doors
import unlabel
from processes import run_python

# NumPy, scikit-learn and safetensors are required; the others are requirements of scikit-learn
# (cloudpickle through joblib). scikit-learn also imports pandas if it is installed, so the list of
# imported modules proves nothing: hide all other libraries instead.
ALLOWED = [
    "unlabel",
    "numpy",
    "safetensors",
    "sklearn",
    "scipy",
    "joblib",
    "threadpoolctl",
    "narwhals",
    "cloudpickle",
]

USE_WITHOUT_OTHERS = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        known = name in {ALLOWED} or name in sys.stdlib_module_names or name.startswith("_")
        if path is None and not known:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
from unlabel import OutputFilter
from unlabel.fitting import fit_filter
rows = [[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]]
fitted = fit_filter(rows, [0, 0, 1], remove=[0])
fitted.save(sys.argv[1])
assert (OutputFilter.load(sys.argv[1]).apply(rows) == fitted.apply(rows)).all()
assert "pandas" not in sys.modules
"""


def test_the_public_names_are_exactly_those_of_all():
    public = {
        name
        for name in dir(unlabel)
        if not name.startswith("_") and not isinstance(getattr(unlabel, name), types.ModuleType)
    }
    assert public == set(unlabel.__all__)
    assert unlabel.__all__ == [
        "AllowLists",
        "LabelPlan",
        "LabelRemovalClassifier",
        "LabelRemover",
        "OutputFilter",
        "UnlabelError",
    ]


def test_unlabel_needs_numpy_scikit_learn_and_safetensors_alone(tmp_path):
    done = run_python(USE_WITHOUT_OTHERS, tmp_path / "filter")
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_unlabel_prints_and_warns_nothing():
    done = run_python("import unlabel", options=["-W", "error"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_public_name_has_a_docstring():
    assert all(getattr(unlabel, name).__doc__ for name in unlabel.__all__)


def test_loading_and_applying_a_filter_imports_neither_scikit_learn_nor_scipy(tmp_path):
    doors.mask(["cat", "dog", "fox"], ["cat"]).save(tmp_path / "filter")
    code = (
        "import sys; from unlabel import OutputFilter; retired = OutputFilter.load(sys.argv[1]);"
        "print(retired.apply([[.6, .3, .1]]).round(2));"
        "print(retired.taking('logits').apply([[1., 2, 2]]));"
        "print([name for name in ('sklearn', 'scipy') if name in sys.modules])"
    )
    done = run_python(code, tmp_path / "filter")
    assert done.stdout == "[[0.75 0.25]]\n[[0.5 0.5]]\n[]\n", done.stderr


def test_the_version_is_that_of_the_installation():
    assert unlabel.__version__ == metadata.version("unlabel")


def test_other_names_are_not_found():
    with pytest.raises(AttributeError, match="has no attribute 'LabelRemoved'"):
        unlabel.LabelRemoved  # noqa: B018
