"""`python -m unlabel.bench`: `unlabel bench run` without the command line's libraries.

For machines that have PyTorch and little else.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from unlabel.bench.suites import SUITES
from unlabel.errors import UnlabelError, needs_extra


def main() -> None:
    """Run a suite; exit with code 1 if any part of it failed."""
    parser = argparse.ArgumentParser(prog="python -m unlabel.bench", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="quick")
    parser.add_argument("--only", action="append", default=[], metavar="SET/ARCHITECTURE/F")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--stop-after", type=float, metavar="SECONDS")
    try:
        with needs_extra("bench"):
            from unlabel.bench.runner import report_failures, run_suite
        failures = run_suite(**vars(parser.parse_args()))
    except UnlabelError as error:
        parser.error(str(error))
    sys.exit(report_failures(failures))


if __name__ == "__main__":
    main()
