"""Read plans from TOML, JSON, tables of pairs and lists of labels, and write them as TOML."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel._files.atomic import cannot_read, require_file, whole_file
from unlabel._files.filter_file import no_constant
from unlabel._files.pair_table import DELIMITERS, read_pairs
from unlabel.labels import SHORT, label_key
from unlabel.errors import UnlabelError

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

MAX_BYTES = 16 << 20
ENDINGS = (".toml", ".json", *DELIMITERS, ".txt")
FIELDS = ("title", "note", "unlisted", "changes")
# tomllib takes time by the square of the number of a key's parts.
MAX_KEY_PARTS = 16
TOML_TEXTS = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
MAX_WHOLE_NUMBER = 1 << 63


def read(
    path: str | os.PathLike[str], from_column: str | None, to_column: str | None
) -> dict[str, Any]:
    """Read a plan's file into the arguments of `LabelPlan.of_pairs`."""
    path = require_file(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise UnlabelError(f"{path} is not named as a plan: give a file that ends in {known}.")
    text = read_text(path)
    with naming(path):
        if ending in DELIMITERS:
            return read_pairs(text, path, from_column, to_column)
        if from_column is not None or to_column is not None:
            raise UnlabelError("It has no columns that could be named: leave out --from and --to.")
        if ending == ".txt":
            return {"pairs": [(label, None) for label in _listed(text)]}
        return _arguments(*(_toml(text) if ending == ".toml" else _json(text)))


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except UnlabelError as error:
        raise UnlabelError(f"{path}: {error}") from error


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Read a small file of text; spreadsheets and Notepad put a byte order mark first."""
    try:
        if path.stat().st_size > max_bytes:
            raise UnlabelError(f"{path} is larger than {max_bytes >> 20} MiB: give a smaller file.")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        raise UnlabelError(f"{path} is not text in UTF-8: save it in that encoding.") from error


def _listed(text: str) -> list[str]:
    labels = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if labels == [""]:
        raise UnlabelError("It is empty: write one label to retire on each line.")
    if "" in labels:
        raise UnlabelError(f"Line {labels.index('') + 1} is empty: write one label on each line.")
    return labels


def _toml(text: str) -> tuple[dict[str, Any], bool]:
    without_texts = TOML_TEXTS.sub("_", text)
    most = max(piece.count(".") for piece in re.split(r"[\n=,{}\[\]]", without_texts))
    if most >= MAX_KEY_PARTS:
        raise UnlabelError(f"It has a key of {most + 1} parts: write labels with dots in quotes.")
    try:
        return tomllib.loads(text), True
    except RecursionError as error:
        raise UnlabelError("It is nested too deeply: give each label one destination.") from error
    except ValueError as error:
        raise UnlabelError(f"It is not TOML: {error}.") from error


def _json(text: str) -> tuple[dict[str, Any], bool]:
    content = read_json(text, "give each label one destination")
    if not isinstance(content, dict):
        raise UnlabelError("It is not an object: write the labels and their destinations as one.")
    if isinstance(content.get("changes"), dict):
        return content, False
    for field in FIELDS[:-1]:
        if field in content:
            raise UnlabelError(
                f"It has the key {field!r} and not an object 'changes': put the changes into one."
            )
    return {"changes": content}, False


def read_json(text: str, advice: str) -> Any:
    """Read JSON without repeated keys; `advice` is for content that is nested too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=no_constant)
    except UnlabelError:
        raise
    except RecursionError as error:
        raise UnlabelError(f"It is nested too deeply: {advice}.") from error
    except ValueError as error:
        raise UnlabelError(f"It is not JSON: {error}.") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON's pairs, and refuse a key that appears twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UnlabelError(f"The key {SHORT.repr(key)} appears twice: give it once.")
        found[key] = value
    return found


def _arguments(content: dict[str, Any], is_toml: bool) -> dict[str, Any]:
    for key in content:
        if key not in FIELDS:
            known = ", ".join(FIELDS)
            raise UnlabelError(
                f"It has the key {SHORT.repr(key)}: the known ones are {known}, and labels are "
                "listed under 'changes'."
            )
    changes = content.pop("changes", None)
    if not isinstance(changes, dict):
        raise UnlabelError("It has no table [changes]: list the labels and destinations in one.")
    destination = _toml_destination if is_toml else _destination
    pairs = [(label, destination(label, value)) for label, value in changes.items()]
    return {"pairs": pairs} | content


def _toml_destination(label: str, value: Any) -> Any:
    """Refuse a table that a label with dots makes where it was written without quotes."""
    if isinstance(value, dict) and value:
        odd = [key for key, inner in value.items() if isinstance(inner, bool | str | dict)]
        if odd or len(value) == 1:
            key, *_ = odd or value
            name, inner = f"{label}.{key}", value[key]
            while isinstance(inner, dict) and inner:
                key, inner = next(iter(inner.items()))
                name += f".{key}"
            other = "" if odd else f"; if all of it goes to {SHORT.repr(key)}, write that label"
            raise UnlabelError(
                f"{SHORT.repr(label)} goes to a table that is not weights: if the label is "
                f"{SHORT.repr(name)}, write it in double quotes{other}."
            )
    return _destination(label, value)


def _destination(label: str, value: Any) -> Any:
    name = SHORT.repr(label)
    if value is None or value is False:
        return None
    if value is True:
        raise UnlabelError(f"{name} goes to true: write false to retire it, or a label in quotes.")
    if value in ("", [], {}):
        raise UnlabelError(f"{name} goes nowhere: write false to retire it, or a label.")
    if isinstance(value, list):
        return [_label(name, each) for each in value]
    if isinstance(value, dict):
        return [(to, _weight(name, to, weight)) for to, weight in value.items()]
    return _label(name, value)


def _label(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int and abs(value) < MAX_WHOLE_NUMBER:
        return str(value)
    raise UnlabelError(
        f"{name} goes to something that is not a text or a whole number: write the label in quotes."
    )


def _weight(name: str, to: str, value: Any) -> float:
    if type(value) is float or (type(value) is int and abs(value) < MAX_WHOLE_NUMBER):
        return value
    raise UnlabelError(f"The weight of {SHORT.repr(to)} in {name} is not a number: give one.")


def write(plan: LabelPlan, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a plan as TOML, in its order."""
    if not os.fspath(path).lower().endswith(".toml"):
        raise UnlabelError(f"{path} does not end in .toml: plans are written as TOML, name it so.")
    _refuse_ambiguous_texts(plan)
    texts = {"title": plan.title, "note": plan.note}
    if plan.unlisted != "keep":
        texts["unlisted"] = plan.unlisted
    lines = [f"{name} = {_quoted(text)}" for name, text in texts.items() if text]
    lines += ["", "[changes]"] if lines else ["[changes]"]
    lines += [f"{_quoted(label)} = {_written(parts)}" for label, parts in plan.parts]
    content = "\n".join([*lines, ""]).encode()
    if len(content) > MAX_BYTES:
        raise UnlabelError(f"The plan takes more than {MAX_BYTES >> 20} MiB: shorten its labels.")
    with whole_file(path, overwrite=overwrite) as part:
        part.write_bytes(content)


def _written(parts: Any) -> str:
    if not parts:
        return "false"
    labels = [_quoted(to) for to, _ in parts]
    if any(weight is None for _, weight in parts):
        return f"[{', '.join(labels)}]"
    if len(parts) > 1:
        weights = ", ".join(f"{to} = {w!r}" for to, (_, w) in zip(labels, parts, strict=True))
        return f"{{ {weights} }}"
    # An empty text alone is refused: people may mean that the label is retired.
    return labels[0] if labels[0] != '""' else '[""]'


def _quoted(value: object) -> str:
    # JSON's strings are TOML's, but for the character DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _refuse_ambiguous_texts(plan: LabelPlan) -> None:
    keys: dict[str, str] = {}
    for label, parts in plan.parts:
        for each in (label, *(to for to, _ in parts)):
            if keys.setdefault(str(each), label_key(each)) != label_key(each):
                raise UnlabelError(
                    f"The plan has different labels with the text {str(each)!r}: a file cannot "
                    "tell them apart, so rename one."
                )
