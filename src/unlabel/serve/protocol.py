"""Messages of the Open Inference Protocol: JSON, with binary tensors behind it.

Only the parts of a message that are needed are decoded; the others keep their bytes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw

from unlabel.errors import UnlabelError
from unlabel.labels import listing

FLOATS = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
INTEGERS = {f"INT{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)} | {
    f"UINT{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)
}
NUMBERS = FLOATS | INTEGERS
BYTES = "BYTES"
BINARY_SIZE = "binary_data_size"
OPENING = re.compile(rb"[\s\[]*")  # of a list in lists, which shows how deep they go
MAX_DEPTH = 8
JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Array = npt.NDArray[Any]


class ProtocolError(UnlabelError):
    """A message that is not what the protocol says."""


def decode(text: bytes | Raw, type: Any, what: str) -> Any:
    """Decode JSON to a type, or say that `what` is malformed."""
    try:
        return _decoder(type).decode(text)
    except JSON_ERRORS as error:
        raise ProtocolError(f"{what} is not valid: {_reason(error)}.") from error


@lru_cache(maxsize=64)
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its JSON is nested too deeply"
    return str(error).rstrip(".")


@dataclass(frozen=True, eq=False)
class Message:
    """A request or an answer: the fields of its JSON object, and the bytes behind it."""

    fields: dict[str, Raw]
    binary: memoryview

    def field(self, name: str, type: Any, what: str) -> Any:
        """Decode a field, None if the message does not have it."""
        return decode(self.fields[name], type, what) if name in self.fields else None


def split_message(body: bytes, header_length: int | None, what: str) -> tuple[bytes, memoryview]:
    """Split a message where its JSON ends: after `header_length` bytes, by default at the end."""
    end = len(body) if header_length is None else header_length
    if not 0 <= end <= len(body):
        raise ProtocolError(
            f"{what} has {len(body)} bytes, and its Inference-Header-Content-Length is {end}."
        )
    text = body[:end]
    try:
        if not text.isascii():
            text.decode()  # parts that pass undecoded must not be read differently elsewhere
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what} is not valid: its JSON is not UTF-8.") from error
    return text, memoryview(body)[end:]


def read_message(body: bytes, header_length: int | None, what: str) -> Message:
    """Read a message, whose fields are not yet decoded."""
    text, binary = split_message(body, header_length, what)
    return Message(decode(text, dict[str, Raw], what), binary)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An output of an answer, its data in JSON, in binary or as plain Python values."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Mapping[str, Any]
    data: Raw | memoryview | bytes | list[Any] | Array
    source: Any = None  # its JSON object as it came, None if it has changed

    @property
    def is_binary(self) -> bool:
        """Whether its data stands behind the JSON of the message."""
        return isinstance(self.data, memoryview | bytes)

    def values(self) -> Array:
        """Return its data as an array of its shape: numbers, or strings as objects."""
        size = math.prod(self.shape)
        dtype = np.dtype(NUMBERS.get(self.datatype, object))
        values = self._of_binary(dtype, size) if self.is_binary else self._of_lists(dtype)
        is_nested = values.ndim > 1 and size > 0  # of lists of nothing, the depth says nothing
        if values.size != size or (is_nested and values.shape != self.shape):
            raise self._error(f"has the shape {[*self.shape]} and {_size(values)}")
        return values.reshape(self.shape)

    def _of_binary(self, dtype: np.dtype[Any], size: int) -> Array:
        data: Any = self.data
        if self.datatype in NUMBERS:
            if len(data) != size * dtype.itemsize:
                raise self._error(
                    f"has the shape {[*self.shape]} in {self.datatype} and {len(data)} bytes"
                )
            return np.frombuffer(data, dtype=dtype)
        texts = [*_texts(data)]
        if None in texts:
            raise self._error("is BYTES whose lengths do not fit its data")
        return np.array(texts, dtype=object)

    def _of_lists(self, dtype: np.dtype[Any]) -> Array:
        data: Any = self.data
        if isinstance(data, Raw):
            kind = {"f": float, "i": int, "u": int}.get(dtype.kind, str)
            data = decode(
                data, _nested(kind, _depth(data)), f"The data of the output {self.name!r}"
            )
        try:
            with np.errstate(over="ignore"):  # infinity is refused later
                values = np.array(data, dtype=dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._error(f"does not hold values of the type {self.datatype}") from error
        if self.datatype not in NUMBERS:  # texts of plain values may be bytes
            values = np.array([_text(text) for text in values.ravel()], dtype=object)
        return values

    def _error(self, problem: str) -> ProtocolError:
        return ProtocolError(f"The output {self.name!r} {problem}.")

    def changed(
        self,
        values: Array,
        datatype: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Return the tensor with other values, in the form it came in."""
        datatype = datatype or self.datatype
        data = _as_binary(values, datatype) if self.is_binary else values.ravel().tolist()
        parameters = self.parameters if parameters is None else parameters
        return Tensor(self.name, datatype, values.shape, parameters, data)

    def as_fields(self) -> Any:
        """Return its JSON object, which is what came if nothing changed."""
        if self.source is not None:
            return self.source
        fields: dict[str, Any] = {
            "name": self.name,
            "shape": [*self.shape],
            "datatype": self.datatype,
        }
        if isinstance(self.data, memoryview | bytes):
            fields["parameters"] = {**self.parameters, BINARY_SIZE: len(self.data)}
        else:
            if self.parameters:
                fields["parameters"] = self.parameters
            fields["data"] = self.data
        return fields


def _size(values: Array) -> str:
    return f"{values.size} values" if values.ndim == 1 else f"data of the shape {[*values.shape]}"


def _nested(kind: type, depth: int) -> Any:
    nested: Any = list[kind]  # type: ignore[valid-type]
    for _ in range(depth - 1):
        nested = list[nested]
    return nested


def _depth(data: Raw) -> int:
    opening = OPENING.match(memoryview(data)[: 16 * MAX_DEPTH])
    return min(max(1, opening[0].count(b"[")), MAX_DEPTH) if opening else 1


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _texts(data: bytes | memoryview) -> Iterator[str | None]:
    """Read texts, each behind its length; None is the last if the lengths do not fit."""
    at, end = 0, len(data)
    while at < end:
        start = at + 4
        at = start + struct.unpack_from("<I", data, at)[0] if start <= end else end + 1
        yield str(data[start:at], "utf-8", "replace") if at <= end else None


def _as_binary(values: Array, datatype: str) -> bytes:
    if datatype != BYTES:
        return np.ascontiguousarray(values, dtype=NUMBERS[datatype]).tobytes()
    texts = [text.encode() for text in values.ravel().tolist()]
    return b"".join(part for text in texts for part in (struct.pack("<I", len(text)), text))


NO_DATA = Raw(b"")


class _Fields(msgspec.Struct):
    """The fields of a tensor that are needed."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: Raw = NO_DATA


def read_outputs(answer: Message) -> list[Tensor]:
    """Read the outputs of an answer, with their parts of the binary data."""
    what = "The upstream's answer"
    objects = answer.field("outputs", list[Raw], what)
    if objects is None:
        raise ProtocolError(f"{what} has no outputs.")
    tensors, at = [], 0
    for source in objects:
        found: _Fields = decode(source, _Fields, what)
        parameters = found.parameters or {}
        data: Any = found.data
        if BINARY_SIZE in parameters:
            size = parameters[BINARY_SIZE]
            if type(size) is not int or not 0 <= size <= len(answer.binary) - at:
                raise ProtocolError(
                    f"The output {found.name!r} has a {BINARY_SIZE} of {size}, and "
                    f"{len(answer.binary) - at} bytes are left."
                )
            data = answer.binary[at : at + size]
            at += size
        elif data is NO_DATA:
            raise ProtocolError(f"The output {found.name!r} has no data.")
        tensors.append(_tensor(found.name, found.shape, found.datatype, parameters, data, source))
    if at < len(answer.binary):
        raise ProtocolError(f"{what} has {len(answer.binary) - at} bytes behind its outputs.")
    _refuse_duplicates([tensor.name for tensor in tensors])
    return tensors


def plain_outputs(objects: Sequence[Mapping[str, Any]]) -> list[Tensor]:
    """Read outputs given as plain Python objects."""
    tensors = []
    for fields in objects:
        try:
            name, shape, data = fields["name"], fields["shape"], fields["data"]
            datatype = getattr(fields["datatype"], "value", fields["datatype"])
        except (KeyError, TypeError) as error:
            raise ProtocolError("An output needs a name, shape, datatype and data.") from error
        data = getattr(data, "root", data)
        parameters = fields.get("parameters") or {}
        tensors.append(_tensor(name, shape, datatype, parameters, data, fields))
    _refuse_duplicates([tensor.name for tensor in tensors])
    return tensors


def _tensor(
    name: str,
    shape: Sequence[int],
    datatype: str,
    parameters: Mapping[str, Any],
    data: Any,
    source: Any,
) -> Tensor:
    if any(type(size) is not int or size < 0 for size in shape) or len(shape) > MAX_DEPTH:
        raise ProtocolError(f"The output {name!r} has the shape {listing([*shape])}.")
    return Tensor(name, datatype, tuple(shape), parameters, data, source)


def _refuse_duplicates(names: list[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ProtocolError(f"The answer has the output {name!r} twice.")
        seen.add(name)


def write_answer(answer: Message, outputs: Sequence[Tensor], **changed: Any) -> tuple[bytes, int]:
    """Write an answer with other outputs; return its body and the length of the JSON."""
    fields = {**answer.fields, **changed, "outputs": [each.as_fields() for each in outputs]}
    text = msgspec.json.encode(fields)
    binary = [each.data for each in outputs if isinstance(each.data, memoryview | bytes)]
    return b"".join([text, *binary]), len(text)
