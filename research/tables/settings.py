"""All settings of each network and method, from the facts of its cells, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from research.grid import BASE
from research.tables import names
from research.tables.aggregate import Gathered
from research.tables.layout import Section, Table
from research.tables.names import Network
from research.tables.published import paper_settings
from research.tables.writing import NOTHING, written

ABOUT = (
    "As the cells store them; in parentheses are those that the paper states, or the works whose "
    "parameters it takes over, and ours are bold where they differ. Where the cells of a network "
    "differ, their values stand in order, the base model's first. "
    f"{NOTHING} is a setting that the cells do not name. The side is the one to which images are "
    "resized. UNSIR's noise penalty adds up all pixels, so the paper has a smaller one at 224."
)
# The seed is part of a cell's name, and the others came of the training.
NOT_SETTINGS = ("seed", "seconds", "accuracy")

Settings = dict[tuple[str, str], list[Any]]


def settings_section(gathered: Gathered) -> Section:
    """Lay out one table: a row for each setting, a column for each network."""
    ours: dict[Network, Settings] = {}
    for cell, facts in sorted(gathered.facts.items(), key=lambda pair: pair[0].forget != BASE):
        settings = ours.setdefault((cell.set, cell.architecture), {})
        for part, config in facts["config"].items():
            for name, value in _flat(config):
                values = settings.setdefault((part, name), [])
                if value not in values:
                    values.append(value)
    networks = names.in_order({(key.set, key.architecture) for key in gathered.spreads})
    every = {at for network in networks for at in ours[network]}
    groups: dict[str, list[list[str]]] = {}
    for part, name in sorted(every, key=lambda at: (names.method_order(at[0]), at[1])):
        cells = [_cell(ours[network], network[0], part, name) for network in networks]
        groups.setdefault(names.method(part), []).append([name.replace("_", " "), *cells])
    titles = [names.network(*network) for network in networks]
    return Section("settings", "Settings", ABOUT, [Table("All networks", [], titles, groups)])


def _flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}: ")
        elif name not in NOT_SETTINGS:
            yield prefix + name, value


def _cell(settings: Settings, set: str, part: str, name: str) -> str:
    texts = [_text(value) for value in settings.get((part, name), [])]
    stated = paper_settings().get((set, part, name))
    ours = " / ".join(texts) or NOTHING
    if stated is None or not any(key[0] == part for key in settings):
        return ours
    paper = _text(float(stated) if stated.replace(".", "").isdecimal() else stated)
    return written(ours, paper=paper, best=bool(texts) and texts != [paper])


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int | float):
        return f"{value:,.10g}".removeprefix("0") if value else "0"
    return str(value)
