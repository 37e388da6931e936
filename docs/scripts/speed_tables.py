"""Writes the tables of the page on speed, from the committed results of benchmarks/speed.py.

python docs/scripts/speed_tables.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "benchmarks" / "results"
Rows = Sequence[dict[str, Any]]


def shown(value: Any) -> str:
    """Write a cell: three digits of a number, blank if there is none."""
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}" if value < 0.1 else f"{value:.3g}"


def table(columns: dict[str, str], rows: Rows) -> Iterator[str]:
    """Write a Markdown table; the rows have the keys of the columns."""
    yield "| " + " | ".join(columns.values()) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(shown(row.get(key)) for key in columns) + " |"
    yield ""


def bars(rows: Rows) -> Iterator[str]:
    """Write the values that must be reached beside those that were."""
    verdicts = [row | {"met": "met" if row["met"] else "**not met**"} for row in rows]
    return table({"work": "work", "bar": "target", "found": "found", "met": ""}, verdicts)


def page(cpu: dict[str, Any], gpu: dict[str, Any]) -> Iterator[str]:
    """Write all tables under their headings."""
    machine = cpu["machine"]
    yield (
        f"{machine['processor']}, {machine['cores']} cores, NumPy {machine['versions']['numpy']}, "
        f"SciPy {machine['versions']['scipy']}; at least {cpu['repeats']} repeats, of which the "
        f"best counts. Load at the start: {machine['load_at_start']}.\n"
    )
    yield (
        "### Apply\n\nThe filter's time over that of the plain line, for n labels, k of them "
        "removed. *Spread* is the filter's median time over its best; *NumPy alone* is without the "
        "compiled loops.\n"
    )
    yield from across(cpu["apply"], ("rows", "labels", "removed"))
    yield "The outputs of a real network, ResNet18 on CIFAR-10, repeated to 200,000 rows:\n"
    yield from across(cpu["real"], ("labels", "removed", "set"))
    yield (
        "Merges: the filter's time over that of `P @ M` with a dense M, or of `softmax(z) @ M` for "
        "logits.\n"
    )
    sizes = {"rows": "rows", "labels": "n", "merged": "merged", "into": "into"}
    paths = {name: name for name in cpu["merge"][0] if name not in sizes}
    yield from table(sizes | paths, cpu["merge"])
    found = cpu["lists"]
    yield (
        f"Lists of allowed labels: {found['rows']:,} rows of {found['labels']} labels take "
        f"{shown(found['one list'])} times as long with one list for all rows as a mask alone, and "
        f"{shown(found['lists'])} times with {found['number of lists']:,} lists, one per row.\n"
    )
    version = gpu["machine"]["versions"]["torch"].split("+")[0]
    yield (
        f"On an {gpu['machine']['gpu']} with PyTorch {version}, the filter's time over that of "
        "copying its input, and over that of PyTorch's `softmax(z[:, keep])`:\n"
    )
    columns = {"shape": "shape", "dtype": "dtype", "removed": "k", "input": "input"}
    ratios = {"copies": "over a copy", "softmax": "over softmax"}
    yield from table(columns | ratios | {"error": "error"}, gpu["apply"])
    yield (
        "### Fit\n\nThe filter's time over that of the paper's procedure, as written and in "
        "products, and the same ratio for applying it.\n"
    )
    sizes = {"labels": "n", "removed": "k", "rows each": "rows per label"}
    literally = {"literal": "as written", "in products": "in products"}
    yield from table(sizes | literally | {"literal apply": "apply", "spread": "spread"}, cpu["fit"])
    yield "### Growth\n\nThe exponent of time between the two largest sizes: 1 is linear.\n"
    yield from table({"of": "with", "work": "work", "exponent": "exponent"}, cpu["growth"])
    yield "### Targets\n"
    yield from bars([*cpu["bars"], *gpu["bars"]])


def across(rows: Rows, keys: Sequence[str]) -> Iterator[str]:
    """Write a table with one column per size and one row per path."""
    names = {"labels": "n", "removed": "k"}
    heads = [" ".join(f"{names[key]}={row[key]}" for key in names) for row in rows]
    yield "| path | " + " | ".join(heads) + " |"
    yield "|" + "---|" * (len(heads) + 1)
    for path in [key for key in rows[0] if key not in keys]:
        yield f"| {path} | " + " | ".join(shown(row[path]) for row in rows) + " |"
    yield ""


def main() -> None:
    """Write the tables beside the page that includes them."""
    cpu, gpu = (json.loads((RESULTS / f"speed-{d}.json").read_text()) for d in ("cpu", "gpu"))
    (DOCS / "tables" / "speed.md").write_text("\n".join(page(cpu, gpu)).rstrip() + "\n")


if __name__ == "__main__":
    main()
