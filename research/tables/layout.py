"""The tables as data: sections, tables and rows, to be written as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from research.grid import BASE
from research.tables import captions, names
from research.tables.aggregate import FULL_PRECISION, Gathered
from research.tables.intervals import Spread
from research.tables.judge import REVERSED
from research.tables.kinds import KINDS, Kind, Metric
from research.tables.names import FLOOR, Network
from research.tables.published import Key, as_in_paper, paper_values
from research.tables.remarks import remarks
from research.tables.writing import NOTHING, score, written
from unlabel import metrics

# Values this close to the best count as equal to it: seeds differ by more.
BEST_MARGIN = 0.0005
BADNESS: dict[str, Callable[[float], float]] = {
    "low": lambda value: value,
    "high": lambda value: -value,
    "half": lambda value: abs(value - 0.5),
}

Line = tuple[str, str]  # a method and a component


class Table(NamedTuple):
    """The table of one network: notes above it, and rows of a name and cells, by heading."""

    title: str
    notes: list[str]
    columns: list[str]
    groups: dict[str, list[list[str]]]


class Section(NamedTuple):
    """The tables of one kind, network by network."""

    name: str
    title: str
    about: str
    tables: list[Table]


def legend(gathered: Gathered) -> str:
    """Explain how to read the tables in Markdown."""
    text = (
        "Our value, ± half the range if there are several seeds, and the paper's in parentheses. "
        "F1, F2 and so on are the sets of removed labels. A_R, A_F and Cov_R are those of all test "
        "images, before logits were rounded for storage, where a cell has them; all other values "
        "are computed from the stored rows, and each table says how many these are. Our best value "
        f"is bold, as are those within {score(BEST_MARGIN)} of it, unless all are; the base model "
        "and the seed floor do not compete, nor does the retrained model in distances and attacks. "
        f"Logarithms are natural, and probabilities in them count as at least {metrics.EPSILON:g}."
    )
    if gathered.rounding:
        most = [f"{name} by {score(gathered.rounding[name])}" for name in sorted(gathered.rounding)]
        text += (
            " Where all test images are stored, rounding the logits for storage changed "
            f"{', '.join(most)} at most; Cov_R, a worst case, can depend on a single image."
        )
    return text


def build_sections(gathered: Gathered) -> list[Section]:
    """Lay out all tables, leaving out empty ones."""
    tasks = (cell for cell in gathered.facts if cell.forget != BASE)
    networks = names.in_order({(cell.set, cell.architecture) for cell in tasks})
    found = []
    for kind in KINDS:
        tables = [_table(gathered, kind, network) for network in networks]
        about = " ".join([kind.about, *remarks(kind.name, gathered.spreads)])
        found.append(Section(kind.name, kind.title, about, [t for t in tables if t.groups]))
    return [section for section in found if section.tables]


def _table(gathered: Gathered, kind: Kind, network: Network) -> Table:
    cells = {
        cell: facts
        for cell, facts in gathered.facts.items()
        if (cell.set, cell.architecture) == network
    }
    tasks = {cell for cell in cells if cell.forget != BASE}
    unlike = {cell.forget for cell in tasks if not as_in_paper(cell)}
    paper = {
        key: text
        for key, text in paper_values().items()
        if (key.set, key.architecture) == network and key.forget not in unlike
    }
    ours = {k: v for k, v in gathered.spreads.items() if (k.set, k.architecture) == network}
    forget = {cell.forget for cell in tasks} | {key.forget for key in paper}
    columns = sorted(forget, key=lambda name: int(name[1:]))
    groups = {
        metric.text: rows
        for metric in kind.metrics
        if (rows := _rows(metric, columns, ours, paper))
    }
    rows_of = next(iter(cells.values()))["rows"]
    for metric in kind.metrics:
        if metric.name in FULL_PRECISION and rows_of["judged"] < rows_of["test"]:
            for row in groups.get(metric.text, []):
                # A base model's values are not kept for the labels of each cell.
                row[0] += ", stored rows" if row[0] == names.method("base") else ""
    notes = [*gathered.notes[network][kind.name], *captions.training(network[0], cells)]
    if kind.name == "time":
        notes += [captions.seeds(cells), *captions.about_seconds(cells.values())]
    else:
        stored = [metric.name for metric in kind.metrics if metric.name not in FULL_PRECISION]
        precise = len(stored) < len(kind.metrics)
        rest_on = captions.rows(cells, ["stored rows", *stored] if precise else None)
        notes += [rest_on, captions.seeds(cells)]
    if kind.name == "accuracy":
        notes += captions.condition(cells.values())
    return Table(names.network(*network), notes, columns, groups)


def _rows(
    metric: Metric, columns: list[str], ours: dict[Key, Spread], paper: dict[Key, str]
) -> list[list[str]]:
    """Make a row per method and component with a value, ours or the paper's; none without ours."""
    mine = {key: spread for key, spread in ours.items() if key.metric == metric.name}
    if not mine:
        return []
    theirs = (key for key in paper if key.metric == metric.name)
    first, rows = next(iter(mine)), []
    lines = _lines({(key.method, key.component) for key in (*mine, *theirs)})
    keys = [[Key(*first[:2], *line, metric.name, name) for name in columns] for line in lines]
    best = {
        key
        for column in zip(*keys, strict=True)
        for key in _best(metric, {key: mine[key] for key in column if key in mine})
    }
    for (method, component), row in zip(lines, keys, strict=True):
        name = names.method(method) + (f": {component}" if component else "")
        cells = [_cell(metric, mine.get(k), _as_ours(paper.get(k, "")), k in best) for k in row]
        rows.append([name, *cells])
    return rows


def _cell(metric: Metric, spread: Spread | None, paper: str, best: bool) -> str:
    if spread is None:
        return written(NOTHING, paper=paper)
    text = metric.write(spread.mean)
    if spread.interval:
        text += " [{}, {}]".format(*map(metric.write, spread.interval))
    half = metric.write((spread.high - spread.low) / 2).lstrip("+")
    apart = f"±{half}" if spread.low < spread.high else ""
    return written(text, apart, paper, best or spread.excludes_0)


def _lines(lines: Iterable[Line]) -> list[Line]:
    """Sort methods and components, the components in the order of the work, the total last."""
    work = [*dict.fromkeys(key.component for key in paper_values() if key.component != "total")]

    def place(line: Line) -> tuple[object, ...]:
        method, component = line
        at = work.index(component) if component in work else len(work)
        return names.method_order(method), component == "total", at, component

    return sorted(lines, key=place)


def _best(metric: Metric, spreads: dict[Key, Spread]) -> set[Key]:
    """Find the keys whose mean is within `BEST_MARGIN` of the best; none if that is all of them.

    The base model does not compete, as it still has the labels, nor does the floor, nor a
    retrained model in distances and attacks, which are measured against it.
    """
    if metric.best == "none":
        return set()
    excluded = {"base", FLOOR} | (set() if metric.retrained_competes else {"retrain"})
    badness = {
        key: BADNESS[metric.best](spread.mean)
        for key, spread in spreads.items()
        if key.method not in excluded
        and key.component != REVERSED
        and (metric.name != "seconds" or key.component == "total")
    }
    least = min(badness.values(), default=0.0)
    best = {key for key, value in badness.items() if value == least or value < least + BEST_MARGIN}
    return best if len(best) < len(badness) else set()


def _as_ours(printed: str) -> str:
    """Rewrite a value of the paper in our style, without the zero before the point."""
    if printed == "0.0":
        return "0"
    return "∞" if printed == "inf" else re.sub(r"^(<?)0\.", r"\1.", printed)
