import importlib.util
import os
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from unlabel._method import compiled

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"

# Not by a path for imports: beside it lie the folders of tests of torch, onnx and sklearn.
_spec = importlib.util.spec_from_file_location("doors", HERE / "doors.py")
sys.modules["doors"] = doors = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(doors)

# Random cases: the usual number, a few for other versions of libraries, and many, others each time.
USUAL = settings(max_examples=50, deadline=None, derandomize=True)
settings.register_profile("usual", USUAL)
settings.register_profile("few", USUAL, max_examples=15)
settings.register_profile("many", USUAL, max_examples=500, derandomize=False)
settings.load_profile("usual")


@pytest.fixture(autouse=True)
def compiled_anew():
    """Keep PyTorch's compiler, which limits how often it compiles a function, from counting on."""
    yield
    if "torch._dynamo" in sys.modules:
        with warnings.catch_warnings(action="ignore"):  # of what a reset imports
            sys.modules["torch._dynamo"].reset()


def real_network(name):
    with np.load(GOLDEN / "real_confidences.npz", allow_pickle=False) as stored:
        return stored[f"{name}_logits"].astype(np.float64), stored[f"{name}_labels"]


@pytest.fixture(scope="session")
def cifar10():
    """Logits and true labels of a real network, 40 rows of each of 10 labels."""
    return real_network("cifar10")


@pytest.fixture(scope="session")
def cifar100():
    """Logits and true labels of a real network, 6 rows of each of 100 labels."""
    return real_network("cifar100")


WAYS = ["compiled", "plain"] if compiled.is_available() else ["plain"]


@pytest.fixture(scope="module", params=WAYS)
def both_ways(request):
    """Run a module's tests with the compiled loops, where they were built, and in plain NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(compiled, "is_available", lambda: False)
        yield request.param


@pytest.fixture(scope="module")
def one_thread():
    from research import training  # the core's tests run without PyTorch

    with training.one_thread():
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless browser, which tests of pages share."""
    from browser import PROGRAM, Browser

    if PROGRAM is None:
        pytest.skip("no chromium, chromium-browser or google-chrome is installed")
    started = Browser(tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A real local Spark."""
    sql = pytest.importorskip("pyspark.sql")
    if not (shutil.which("java") or "JAVA_HOME" in os.environ):
        pytest.skip("there is no Java")
    with pytest.MonkeyPatch.context() as environment, warnings.catch_warnings():
        # Sockets to the JVM are closed when it ends, after Python has looked.
        warnings.simplefilter("ignore", ResourceWarning)
        for role in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            environment.setenv(role, sys.executable)
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "OFF")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.default.parallelism", "3")  # the partitions of a table made here
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "Europe/Berlin")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        yield session
        session.stop()
