"""The commands of the experiments, `run` and `tables`, with the standard library's options alone.

So machines that have PyTorch and little else can run them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.plugins import load_plugin
from unlabel import UnlabelError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a suite or print its tables; exit with code 1 if any part of a run failed."""
    parser = argparse.ArgumentParser(
        prog="python -m research",
        description="Run the paper's experiments and print its tables beside ours.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="train, retrain and run every method, one cell at a time",
        description="Finished work is not repeated: a stopped run resumes where it left off.",
    )
    several: dict[str, Any] = {"action": "append", "default": []}  # the option may be repeated
    add = run.add_argument
    choice = run.add_mutually_exclusive_group().add_argument
    choice("--suite", default="quick", metavar="paper|quick", help="quick: a minute on a laptop")
    choice("--study", **several, metavar="SET/MODEL", help="what to run in place of a suite")
    add("--forget", **several, metavar="LABELS", help="F1, F2, ... in place of the set's: 0,4")
    add("--seeds", metavar="SEEDS", help="in place of the suite's: 0,1")
    add("--only", **several, metavar="SET/MODEL/F", help="cells to run: cifar10/resnet18/F2")
    add("--device", default="auto", help="auto, cpu, cuda, or a GPU such as cuda:1")
    add("--data", type=Path, help="the folder of image sets; quick needs none")
    add("--weights", type=Path, help="torchvision's ImageNet weights: the file or its folder")
    add("--out", type=Path, default=Path("results"), help="the folder for the results")
    tables = commands.add_parser(
        "tables", help="print every table beside the paper's; write Markdown and CSV"
    )
    tables.add_argument("results", type=Path, help="the folder that run --out wrote")
    tables.add_argument("--out", type=Path, help="the folder for the tables; default: RESULTS")
    for each in (run, tables):
        of_files = {"type": Path, "metavar": "FILE.py", "help": "registers methods, sets, models"}
        each.add_argument("--plugin", **several | of_files)
    options = vars(parser.parse_args(arguments))
    command = _run if options.pop("command") == "run" else _tables
    try:
        for file in options.pop("plugin"):
            load_plugin(file)
        sys.exit(command(options))
    except ModuleNotFoundError as error:
        trouble = f"{error.name} is not installed: pip install -e '.[research]'."
    except UnlabelError as error:
        trouble = error.problem  # which may begin with a path
    print(f"Error: {trouble}", file=sys.stderr)
    sys.exit(2)


def _run(options: dict[str, Any]) -> int:
    from research.runner import report_failures, run_studies
    from research.suites import chosen

    studies = chosen(*(options.pop(name) for name in ("suite", "study", "forget", "seeds")))
    return report_failures(run_studies(studies, **options))


def _tables(options: dict[str, Any]) -> int:
    from research.tables.write import write_tables

    print(write_tables(options["results"], options["out"] or options["results"]))
    return 0


if __name__ == "__main__":
    main()
