"""Fuzz one target for as long as libFuzzer is told to, guided by the lines that it reaches.

python tests/fuzz csv -max_total_time=60            (with tests/helpers on PYTHONPATH)
python tests/fuzz csv fuzz-failures/csv-crash-...   the same input again
"""

import importlib
import os
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris
from hypothesis import settings

MODULES = {name: name for name in ("filters", "plans", "summaries")} | dict.fromkeys(
    ("csv", "csv_gz", "feather", "jsonl", "npy", "npz", "parquet"), "tables"
)


CORPUS_FILES, CORPUS_BYTES = 50, 1500


def main() -> None:
    target = sys.argv[1]
    settings.register_profile("fuzz", deadline=None, database=None)
    settings.load_profile("fuzz")
    sys.modules["numba"] = None  # type: ignore[assignment]  # it cannot compile what is traced
    with atheris.instrument_imports(include=["unlabel"]):
        bounded = importlib.import_module("fuzz_bounded")
        module = importlib.import_module(f"test_fuzz_{MODULES[target]}")
    bounded.FAILURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as corpus:
        for number in range(CORPUS_FILES):
            # Grown from nothing, inputs would for long be too short to make a file of.
            Path(corpus, str(number)).write_bytes(random.Random(number).randbytes(CORPUS_BYTES))
        options = [
            f"-artifact_prefix={bounded.FAILURES}/{target}-",
            f"-timeout={bounded.HANGS_AFTER}",
            "-rss_limit_mb=4096",
        ]
        arguments = (
            sys.argv[2:] if any(map(os.path.isfile, sys.argv[2:])) else [*sys.argv[2:], corpus]
        )
        run = getattr(module, f"test_{target}").hypothesis.fuzz_one_input
        atheris.Setup([sys.argv[0], *options, *arguments], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
