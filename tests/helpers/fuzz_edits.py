"""Hypothesis strategies that edit valid bytes and valid JSON."""

import copy
from typing import Any

from hypothesis import strategies as st

SIZES = [-(2**63), -1, 0, 1, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**64 - 1]
NUMBERS = [*SIZES, -0.0, 1e-320, 0.5, 1e308, float("inf"), float("nan")]
TEXTS = [
    "",
    " ",
    "0",
    "2.0",
    "1e999",
    "nan",
    "\0",
    "\x1b[31m",
    "\u202e",
    "<b>",
    "a" * 300,
    "\ud800",
]
PIECES = st.binary(max_size=12) | st.sampled_from(
    [size.to_bytes(8, "little", signed=size < 0) for size in SIZES]
    + [b"[" * 12, b"{", b"}", b'"', b",", b"\n", b"\r", b"\\u0000", b"\xff\xfe", b"NaN", b"1e999"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.sampled_from(TEXTS)
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
)
ANY_JSON = st.recursive(
    SCALARS,
    lambda some: (
        st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3)
    ),
    max_leaves=4,
)


@st.composite
def edited_bytes(draw: st.DrawFn, content: bytes, most: int = 3) -> bytes:
    """Insert, replace, delete or double a few pieces of some bytes, or cut off the end."""
    edited = bytearray(content)
    for _ in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, len(edited)))
        stop = min(len(edited), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["replace", "double", "cut"])):
            case "replace":
                edited[start:stop] = draw(PIECES)
            case "double":
                edited[start:start] = edited[start:stop]
            case "cut":
                del edited[start:]
    return bytes(edited)


@st.composite
def edited_json(draw: st.DrawFn, value: Any, most: int = 2) -> Any:
    """Replace, move or drop a few nodes of a document."""
    edited = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, most))):
        places = list(_places(edited))
        if not places:
            return edited
        container, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "move", "drop"])):
            case "replace":
                container[key] = draw(ANY_JSON)
            case "move":
                other, at = draw(st.sampled_from(places))
                container[key] = copy.deepcopy(other[at])
            case "drop":
                del container[key]
    return edited


def _places(value: Any) -> Any:
    """Yield the container and key of every node of a document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
