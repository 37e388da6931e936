"""`unlabel apply` on JSON lines of 5 labels: memory, and lines per second beside `json` alone.

Makes lines as pipelines print them in a temporary folder (10 million take 4 GB, and as much for
each of the two results). The standard library's `json` alone reads each line and writes it again.

    python benchmarks/json_lines.py [--lines LINES] [--forms FORM ...] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from unlabel import OutputFilter
from workload import confidences, machine, run_measured

LABELS = ["joy", "anger", "fear", "sadness", "surprise"]
TEXTS = ["I did not see that coming, and I am glad it did.", "the delivery was late again"]
PART = 100_000
REPEATS = 3
READ_AND_WRITE = """
import json
with open("large.jsonl") as lines, open("copy.jsonl", "w") as copy:
    for line in lines:
        copy.write(json.dumps(json.loads(line)) + "\\n")
"""


def in_an_object(number: int, names: list[str], scores: list[float]) -> Any:
    return {"id": number, "scores": dict(zip(names, scores, strict=True))}


def in_two_lists(number: int, names: list[str], scores: list[float]) -> Any:
    """Write the output of a zero-shot pipeline."""
    return {"sequence": TEXTS[number % 2], "labels": names, "scores": scores}


def in_entries(number: int, names: list[str], scores: list[float]) -> Any:
    """Write the output of a text-classification pipeline beside its input."""
    entries = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    return {"id": number, "text": TEXTS[number % 2], "predictions": entries}


FORMS: dict[str, Callable[[int, list[str], list[float]], Any]] = {
    "object": in_an_object,
    "two lists": in_two_lists,
    "entries": in_entries,
}


def make(path: Path, form: str, lines: int) -> None:
    """Write lines whose labels stand in descending order of their scores."""
    rng, write = np.random.default_rng(0), FORMS[form]
    with path.open("w") as file:
        for first in range(0, lines, PART):
            rows, _ = confidences(rng, min(PART, lines - first), len(LABELS), lead=3)
            order = np.argsort(-rows, axis=1)
            sorted_rows = np.take_along_axis(rows, order, axis=1).tolist()
            for number, (at, scores) in enumerate(zip(order.tolist(), sorted_rows, strict=True)):
                line = write(first + number, [LABELS[i] for i in at], scores)
                file.write(json.dumps(line) + "\n")


def measure(form: str, lines: int, repeats: int) -> dict[str, Any]:
    """Alternate between `json` alone and `unlabel apply`, each time in a new process."""
    apply = ["apply", "large.jsonl", "f.safetensors", "--out", "kept.jsonl", "--force"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        OutputFilter.from_plan({"fear": None}, classes=LABELS).save(folder / "f.safetensors")
        make(folder / "large.jsonl", form, lines)
        size = (folder / "large.jsonl").stat().st_size
        commands: dict[str, Callable[[], tuple[float, float]]] = {
            "json": lambda: run_measured(folder, code=READ_AND_WRITE),
            "unlabel": lambda: run_measured(folder, *apply),
        }
        runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
        for _ in range(repeats):
            for command, run in commands.items():
                os.sync()  # what was written before costs nothing from here on
                before = processor_seconds()
                seconds, peak = run()
                runs[command].append((seconds, processor_seconds() - before, peak))
        with (folder / "kept.jsonl").open("rb") as kept:
            assert sum(1 for _ in kept) == lines
    return {"form": form, "lines": lines, "bytes": size, "seconds_processor_peak_mib": runs}


def processor_seconds() -> float:
    """Give the time that the processes run so far took on all cores, whatever else they did."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(run: dict[str, Any]) -> None:
    taken, lines = run["seconds_processor_peak_mib"], run["lines"]
    best = {name: [min(each) for each in zip(*times, strict=True)] for name, times in taken.items()}
    for name, times in taken.items():
        seconds, processor, _ = best[name]
        print(
            f"{run['form']:10} {lines:11,} {name:8} {lines / seconds:12,.0f} "
            f"{lines / processor:16,.0f} {max(peak for *_, peak in times):9,.0f}"
        )
    ratios = [theirs / ours for theirs, ours in zip(best["json"], best["unlabel"], strict=True)]
    print(
        f"{run['form']:10} unlabel is {ratios[0]:.1f} times as fast, and {ratios[1]:.1f} times by "
        "the time on the processor",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=[*FORMS])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, help="a file to which the results are added")
    options = parser.parse_args()
    system = f"{machine()}, msgspec {msgspec.__version__}"
    print(system)
    print(f"{'form':10} {'lines':>11} {'':8} {'lines per s':>12} {'per processor s':>16} peak, MiB")
    runs = []
    for form in options.forms:
        before = os.getloadavg()[0]
        run = measure(form, options.lines, options.repeats)
        run["load_average_before_and_after"] = [before, os.getloadavg()[0]]
        runs.append(run)
        show(run)
    if options.out is not None:
        if options.out.exists():
            runs = [*json.loads(options.out.read_text())["runs"], *runs]
        options.out.write_text(json.dumps({"machine": system, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
