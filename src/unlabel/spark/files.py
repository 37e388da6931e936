"""Files for the command `apply`: read a table and write a folder of them, as Spark does."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, import-not-found, unused-ignore]
from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession, functions

from unlabel._files.atomic import behind_links, folder_beside, refuse_existing, require_file
from unlabel._tables.columns.output import ColumnOutput, target_columns
from unlabel._tables.files.csv_input import NOT_UTF_8
from unlabel._tables.files.formats import by_ending, errors_naming, format_of
from unlabel._tables.rewriting import ApplyOptions, Rewriting
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.spark.batches import find_confidences, rewritten, row_errors

# Quotes are doubled, cells may hold line breaks and blanks, and a short line is an error. So is
# another header within a folder: Spark would go by the first file's alone.
CSV: dict[str, Any] = {
    "header": True,
    "enforceSchema": False,
    "escape": '"',
    "multiLine": True,
    "mode": "FAILFAST",
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
FORMATS: dict[str, dict[str, Any]] = {".parquet": {}, ".csv": CSV}
COMPLETE = "_SUCCESS"  # the file by which Spark marks a folder that is complete
BLOCK_BYTES = 1 << 20


def apply_with_spark(fitted: OutputFilter, path: Path, out: Path, options: ApplyOptions) -> int:
    """Write a table with the filter applied to its confidences, and count its rows."""
    read_options, write_options = (by_ending(table, FORMATS) for table in (path, out))
    if not path.is_dir():
        require_file(path)
    if path.suffix == ".csv":
        _require_utf_8(path)
    with (
        whole_folder(out, overwrite=options.overwrite) as part,
        _session() as spark,
        errors_naming(path, "filtered by Spark", PySparkException, Py4JJavaError),
        row_errors(),
    ):
        # Escaped, as Spark reads a path as a pattern.
        location = re.sub(r"([{}\[\]*?\\])", r"\\\1", _location(path))
        df = spark.read.load(location, path.suffix[1:], **read_options)
        source = find_confidences(df.schema, options.reading.list_column, fitted.classes_in)
        target = target_columns(fitted, source, format_of(out))
        output = ColumnOutput(Rewriting(fitted, options), source, target)
        counted = Observation()
        count = functions.count(functions.lit(1)).alias("rows")
        kept = rewritten(df, output).observe(counted, count)
        kept.write.options(**write_options).save(_location(part), out.suffix[1:])
        return int(counted.get["rows"])


@contextmanager
def whole_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a path beside `path` to write a folder to, and rename it once it is complete."""
    refuse_existing(path, force=overwrite)
    if path.is_dir() and not (path / COMPLETE).exists():
        problem = "It is a folder that Spark did not write: choose another name."
        raise UnlabelError(problem, path=path)
    real = behind_links(path)
    with folder_beside(real) as folder:
        new, old = folder / "new", folder / "old"
        yield new
        try:
            if real.exists():
                real.rename(old)
            new.rename(real)
        except BaseException:
            if old.exists() and not real.exists():
                old.rename(real)
            raise


@contextmanager
def _session() -> Iterator[SparkSession]:
    """Use the running session, or start a quiet one with Spark's own settings and stop it."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    # Without an activated environment the workers would run another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("unlabel apply").config("spark.log.level", "OFF")
    builder = builder.config("spark.sql.caseSensitive", "true")  # a and A are two labels
    started = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        yield started
    finally:
        started.stop()


def _require_utf_8(path: Path) -> None:
    """Refuse csv files in another encoding: Spark would silently replace their letters."""
    for file in filter(Path.is_file, path.rglob("*.csv")) if path.is_dir() else [path]:
        with errors_naming(file, "read", OSError), file.open("rb") as content:
            try:
                for _ in codecs.iterdecode(iter(partial(content.read, BLOCK_BYTES), b""), "utf-8"):
                    pass
            except UnicodeDecodeError as error:
                raise UnlabelError(NOT_UTF_8) from error


def _location(path: Path) -> str:
    """Name a file of this machine, whichever file system is Spark's default."""
    return f"file://{path.absolute()}"
