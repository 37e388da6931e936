"""`unlabel apply --engine spark`: a table in, a folder of files out, both as Spark has them."""

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
from pyspark.sql import DataFrame, Observation, SparkSession, functions

from unlabel._files.atomic import (
    behind_links,
    cannot_read,
    folder_beside,
    refuse_existing,
    require_file,
)
from unlabel._tables.csv_input import not_utf_8
from unlabel._tables.streaming import Rewriting, target_columns
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.spark import row_errors
from unlabel.spark.batches import find_columns, rewritten

FORMATS = (".parquet", ".csv")
# Quotes are doubled, cells may hold line breaks and blanks, and a short line is an error, as is
# a file of a folder whose header is not the first one's: Spark would go by the first one alone.
CSV: dict[str, Any] = {
    "header": True,
    "enforceSchema": False,
    "escape": '"',
    "multiLine": True,
    "mode": "FAILFAST",
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
# What Spark leaves in a folder that it has written to the end.
COMPLETE = "_SUCCESS"
BLOCK_BYTES = 1 << 20


def apply_with_spark(
    fitted: OutputFilter,
    path: Path,
    out: Path,
    *,
    top_label: bool,
    removed_mass: bool,
    only_changed: bool,
    list_column: str | None,
    overwrite: bool,
) -> int:
    """Write a table with the filter applied to its confidences, and count its rows."""
    for table in (path, out):
        if table.suffix not in FORMATS:
            raise UnlabelError(
                f"{table} has no ending that is known to Spark here: name it .parquet or .csv."
            )
    if not path.is_dir():
        require_file(path)
    if path.suffix == ".csv":
        _require_utf_8(path)
    with whole_folder(out, overwrite=overwrite) as part, _session() as spark, _told(path):
        df = _read(spark, path)
        source = find_columns(df.schema, list_column, fitted.classes_in)
        target = target_columns(source, out)
        rewriting = Rewriting(fitted, source, target, top_label, removed_mass, only_changed)
        counted = Observation()
        kept = rewritten(df, rewriting).observe(
            counted, functions.count(functions.lit(1)).alias("rows")
        )
        _write(kept, part, out.suffix)
        return int(counted.get["rows"])


@contextmanager
def whole_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path beside `path` to write a folder to, and rename it once it is complete."""
    refuse_existing(path, overwrite=overwrite)
    if path.is_dir() and not (path / COMPLETE).exists():
        raise UnlabelError(
            f"{path} is a folder that Spark did not write, and is not overwritten: choose another "
            "name."
        )
    real = behind_links(path)
    with folder_beside(real) as folder:
        yield folder / "new"
        _put_in_place(folder / "new", real, folder / "old")


def _put_in_place(new: Path, path: Path, old: Path) -> None:
    """Rename a folder, and what is in its place before; put that back where it fails."""
    if not path.exists():
        new.rename(path)
        return
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if not path.exists():
            old.rename(path)
        raise


@contextmanager
def _session() -> Iterator[SparkSession]:
    """The session that is there, or one of the settings in force, quiet and ended at the end."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    # Without an activated environment the workers would be another Python than this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("unlabel apply").config("spark.log.level", "OFF")
    builder = builder.config("spark.sql.caseSensitive", "true")  # a and A are two labels
    started = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Name the table in what is said of its rows, and say in a line what Spark says in many."""
    try:
        with row_errors():
            yield
    except UnlabelError as error:
        raise UnlabelError(f"{path}: {error}") from None
    except (PySparkException, Py4JJavaError) as error:
        causes = re.findall(r"^Caused by: [\w.$]+: (.+)", str(error), re.MULTILINE)
        why = (causes or str(error).splitlines())[-1 if causes else 0].rstrip(".")
        raise UnlabelError(f"{path} could not be filtered by Spark: {why}.") from None


def _read(spark: SparkSession, path: Path) -> DataFrame:
    # Escaped: a file's name is no pattern here.
    location = re.sub(r"([{}\[\]*?\\])", r"\\\1", _location(path))
    if path.suffix == ".csv":
        return spark.read.csv(location, **CSV)
    return spark.read.parquet(location)


def _require_utf_8(path: Path) -> None:
    """Refuse csv files in another encoding, whose letters Spark would replace without a word."""
    for file in filter(Path.is_file, path.rglob("*.csv")) if path.is_dir() else [path]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            with file.open("rb") as content:
                for block in iter(partial(content.read, BLOCK_BYTES), b""):
                    decoder.decode(block)
                decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise not_utf_8(file) from error
        except OSError as error:
            raise cannot_read(file, error) from error


def _write(df: DataFrame, path: Path, suffix: str) -> None:
    if suffix == ".csv":
        df.write.options(**CSV).csv(_location(path))
    else:
        df.write.parquet(_location(path))


def _location(path: Path) -> str:
    """A file of this machine, whatever file system Spark takes for its own."""
    return f"file://{path.absolute()}"
