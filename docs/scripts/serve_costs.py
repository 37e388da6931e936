"""Writes the table of the page on model servers, from the committed results of benchmarks/serve.py.

python docs/scripts/serve_costs.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "benchmarks" / "results" / "serve.json"
TABLE = DOCS / "tables" / "serve.md"
NAMES = {"small": "a bare server", "MLServer": "MLServer"}


def table(results: dict[str, Any]) -> str:
    """Write what the filter adds to each upstream, in the median of the rounds."""
    return "\n".join([*_lines(results), ""])


def _lines(results: dict[str, Any]) -> Iterator[str]:
    yield "| upstream | direct, ms | added, ms | added at p99, ms | direct, per s | ratio |"
    yield "|---|---|---|---|---|---|"
    for each in results["results"]:
        direct = median(each["by_round"]["direct"]["median_ms"])
        per_second = median(each["requests_per_second_by_round"]["direct"])
        yield (
            f"| {NAMES[each['upstream']]}, {each['format']} | {direct:.2f} "
            f"| {each['added_median_ms']:.2f} | {each['added_p99_ms']:.2f} | {per_second:,.0f} "
            f"| {each['throughput_ratio']:.2f} |"
        )


if __name__ == "__main__":
    TABLE.write_text(table(json.loads(RESULTS.read_text())), encoding="utf-8")
