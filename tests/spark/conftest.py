"""A real local Spark."""

import os
import shutil
import sys
import warnings

import pytest


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
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
