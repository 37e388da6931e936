"""The page: its data, cut down to what fits, in its template."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from unlabel._typing import Columns, Kind, Label
from unlabel.errors import UnlabelError, needs_extra
from unlabel.explore.packing import Bits, Packed, pack
from unlabel.explore.sample import Draw, Sample, allocate
from unlabel.labels import SURROGATES, is_missing

with needs_extra("cli"):
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

SIZE_LIMIT = 3_000_000  # bytes of a page, never reached
# The JavaScript in page/, in this order; a vendor's module becomes the constant of its name.
SCRIPTS = (
    *("sample.js", "recipe.js", "plan.js", "judge.js", "state.js"),
    *("elements.js", "sentences.js", "panels.js", "drag.js", "labels.js", "app.js"),
)
VENDORED = {"TOML": "smol-toml-1.9.1.cjs"}
LONGEST_ID = 1000  # characters
ONE_ROW = 6 * LONGEST_ID + 100  # bytes at most beside its confidences, with 6 per character
OTHER_NUMBERS = 500  # bytes at most for the numbers of rows, the step and the rounding
# What ends a script in HTML, or a line in JavaScript.
UNSAFE = "<>&\u2028\u2029"


@dataclass(frozen=True)
class Page:
    """A page, and what it holds."""

    html: str
    rows: int
    of: int
    bits: Bits
    rounding: float


def as_text(value: object) -> str:
    """Write a name or an id; one that is missing is empty, a very long one is cut."""
    if is_missing(value):
        return ""
    text = SURROGATES.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return text if len(text) <= LONGEST_ID else f"{text[: LONGEST_ID - 1]}\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True)
class BlankPage:
    """A page without rows."""

    classes: Sequence[Label]
    title: str

    def __post_init__(self) -> None:
        """Raise an error for names that leave no room for rows."""
        if not self.classes:
            raise UnlabelError("There are no labels: give at least one.")
        if self.most_rows < 1:
            names = sum(len(str(label).encode()) for label in self.classes)
            raise UnlabelError(
                f"The names of {len(self.classes):,} labels take {names:,} bytes and a page has "
                f"less than {SIZE_LIMIT:,}: give shorter names, or fewer labels."
            )

    @cached_property
    def room(self) -> int:
        """The bytes that are left for rows."""
        nothing = Sample(np.empty((0, len(self.classes))), None, np.empty(0, np.intp), None)
        empty = self._html(nothing, Packed("", 16, 0.0, 0.0), of=0, aside=0)
        return SIZE_LIMIT - OTHER_NUMBERS - len(empty.encode())

    @property
    def most_rows(self) -> int:
        """The number of rows whose confidences fit, with 8 bits each."""
        return (self.room - ONE_ROW) * 3 // (4 * len(self.classes))

    def draw(self, sizes: Columns, rows: int) -> Draw:
        """Start to draw rows from strata of these sizes, no more than can fit."""
        if rows < 1:
            raise UnlabelError(f"{rows} rows are no sample: give at least 1.", argument="rows")
        if not sizes.sum():
            raise UnlabelError("There are no rows: give at least one.")
        return Draw(allocate(sizes, min(rows, self.most_rows)))

    def filled(self, sample: Sample, kind: Kind, *, of: int, aside: int) -> Page:
        """Fill in a sample: with 16 bits if all of its rows fit, else with 8 and what fits."""
        bits: Bits = 16 if _bytes(sample, 16) <= self.room else 8
        while (size := _bytes(sample, bits)) > self.room:
            fewer = min(len(sample) - 1, len(sample) * self.room // size)
            sample = sample.thinned(max(1, fewer))
        packed = pack(sample.rows, kind, bits)
        html = self._html(sample, packed, of=of, aside=aside)
        return Page(html, len(sample), of, bits, packed.rounding)

    def _html(self, sample: Sample, packed: Packed, *, of: int, aside: int) -> str:
        data = {
            "title": self.title,
            "classes": [str(label) for label in self.classes],
            "rows": len(sample),
            "of": of,
            "bits": packed.bits,
            "step": packed.step,
            "codes": packed.codes,
            "truth": None if sample.truth is None else sample.truth.tolist(),
            "ids": sample.ids,
            "numbers": sample.numbers.tolist(),
            "rounding": packed.rounding,
            "aside": aside,
            "version": version("unlabel"),
        }
        template = environment().get_template("page.html.j2")
        script = script_text()
        html: str = template.render(
            title=self.title,
            version=data["version"],
            data=Markup(_json(data)),  # noqa: S704
            style=Markup(style_text()),  # noqa: S704
            script=Markup(script),  # noqa: S704
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
        return html


def _bytes(sample: Sample, bits: Bits) -> int:
    beside = [sample.numbers.tolist(), sample.ids]
    beside += [] if sample.truth is None else [sample.truth.tolist()]
    codes = -(-sample.rows.size * bits // 8 // 3) * 4
    return codes + len(_json(beside).encode())


def _json(data: Any) -> str:
    """Write JSON that HTML reads as nothing else."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in UNSAFE:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@cache
def script_text() -> str:
    """Join the page's JavaScript."""
    vendored = [
        f"const {name} = (() => {{\nconst module = {{ exports: {{}} }};\n"
        f"((module, exports) => {{\n{_file(f'vendor/{file}')}\n}})(module, module.exports);\n"
        "return module.exports;\n})();\n"
        for name, file in VENDORED.items()
    ]
    return "".join(['"use strict";\n', *vendored, *map(_file, SCRIPTS)])


@cache
def style_text() -> str:
    """Join the report's style and what the page adds to it."""
    shared = files("unlabel.report") / "templates" / "style.css"
    return shared.read_text(encoding="utf-8") + _file("style.css")


def _file(name: str) -> str:
    return (files("unlabel.explore") / "page" / name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Set up Jinja with the page's template."""
    return Environment(
        loader=PackageLoader("unlabel.explore", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
