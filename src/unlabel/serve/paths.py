"""The paths that are served, and those that go upstream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from unlabel.errors import UnlabelError
from unlabel.serve.http_messages import HttpError

PLAIN = re.compile(rb"/[!-~]*")
QUERY = re.compile(rb"[!$&-;=?-Z_a-z~%]*")
# A server may take these, decoded, for the end of a name, or decode once more.
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f/\\%;?#]|\A\.{0,2}\Z")
MAX_TARGET = 8192  # bytes


@dataclass(frozen=True)
class Path:
    """A request's path, taken apart: its parts decoded, and the form that goes upstream."""

    parts: tuple[str, ...]
    target: bytes

    @property
    def model(self) -> str | None:
        """The name of the model that it is about."""
        is_model = self.parts[:2] == ("v2", "models") and len(self.parts) > 2
        return self.parts[2] if is_model else None

    @property
    def of_model(self) -> tuple[str, ...]:
        """What it asks of the model, whichever version: ``()``, ``("ready",)``, ``("infer",)``."""
        rest = self.parts[3:]
        return rest[2:] if rest[:1] == ("versions",) and len(rest) > 1 else rest


@lru_cache(maxsize=256)
def read_path(target: bytes) -> Path:
    """Take a request's target apart, and write it anew for the upstream.

    Two servers may read one unusual path as two different ones, so those are refused.

    Examples
    --------
    >>> read_path(b"/v2/models/my%20model/versions/3/infer")
    Path(parts=('v2', 'models', 'my model', 'versions', '3', 'infer'), \
target=b'/v2/models/my%20model/versions/3/infer')
    """
    if len(target) > MAX_TARGET:
        raise HttpError(414, f"The request's target has more than {MAX_TARGET} bytes.")
    path, mark, query = target.partition(b"?")
    if not PLAIN.fullmatch(path) or path.startswith(b"//") or not QUERY.fullmatch(query):
        raise HttpError(400, "The request's target is not a path.")
    try:
        parts = tuple(unquote_to_bytes(part).decode() for part in path[1:].split(b"/"))
    except UnicodeDecodeError as error:
        raise HttpError(400, "The request's path is not UTF-8.") from error
    if any(map(FORBIDDEN.search, parts)):
        raise HttpError(404, "The request's path is not served.")
    written = "/".join(["", *(quote(part, safe="!$&'()*+,:=@") for part in parts)])
    return Path(parts, written.encode() + mark + query)


def require_model_name(name: str) -> None:
    """Refuse a name that no path can have: its model would pass without a filter."""
    if FORBIDDEN.search(name):
        raise UnlabelError(
            f"{name!r} cannot be the name of a model: leave out slashes and the characters "
            "% ; ? #.",
            argument="model",
        )
