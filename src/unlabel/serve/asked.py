"""What a request asks of a filter, and the request that goes upstream in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from msgspec import Raw

from unlabel.errors import UnlabelError
from unlabel.serve.protocol import Message, ProtocolError, decode, split_message

ALLOW_LIST = "allow_list"
CLASSIFICATION = "classification"
SHARED_MEMORY = "shared_memory_region"
WHAT = "The request"
MAX_FIELD = 1 << 18  # bytes of its outputs and parameters, which are decoded


class RequestError(UnlabelError):
    """A mistake of the client in a request."""


@dataclass(frozen=True)
class Asked:
    """What a request asks of a filter."""

    allow_list: str | None = None
    classified: Mapping[str, int] = field(
        default_factory=dict
    )  # the best of an output, and how many
    outputs: tuple[str, ...] | None = None  # the outputs that the client gets, if not all


NOT_THERE = Raw(b"")


class _Fields(msgspec.Struct):
    """The fields of a request; others are not kept, however many a hostile one has."""

    id: Raw = NOT_THERE
    parameters: Raw = NOT_THERE
    inputs: Raw = NOT_THERE
    outputs: Raw = NOT_THERE


def read_request(body: bytes, header_length: int | None) -> Message:
    """Read a request, as far as it is needed."""
    try:
        text, binary = split_message(body, header_length, WHAT)
        found = decode(text, _Fields, WHAT)
    except ProtocolError as error:
        raise RequestError(str(error)) from error
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    fields = {name: value for name, value in fields.items() if value is not NOT_THERE}
    for name in ("outputs", "parameters"):
        if len(memoryview(fields.get(name, NOT_THERE))) > MAX_FIELD:
            raise RequestError(f"{WHAT}'s {name} have more than {MAX_FIELD} bytes.")
    return Message(fields, binary)


def read_asked(
    parameters: Mapping[str, Any] | None, outputs: Sequence[Mapping[str, Any]] | None
) -> Asked:
    """Read what a request asks from its parameters and the outputs that it names."""
    if not isinstance(parameters, Mapping | None):
        raise RequestError(f"{WHAT} has parameters that are not an object.")
    allow_list = (parameters or {}).get(ALLOW_LIST)
    if not isinstance(allow_list, str | None):
        raise RequestError(f"{WHAT}'s {ALLOW_LIST} is {allow_list!r}: give the name of a list.")
    if not isinstance(outputs, Sequence | None):
        raise RequestError(f"{WHAT} has outputs that are not a list.")
    classified = {}
    for output in outputs or ():
        if not isinstance(output, Mapping):
            raise RequestError(f"{WHAT} names an output that is not an object.")
        name, options = output.get("name"), output.get("parameters") or {}
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise RequestError(f"{WHAT} names an output without a name: give its name as a text.")
        if SHARED_MEMORY in options:
            raise RequestError(
                f"{WHAT} wants the output {name!r} in shared memory, where it cannot be filtered: "
                "ask for it in the answer."
            )
        number = options.get(CLASSIFICATION)
        if number is not None:
            if type(number) is not int or number < 1:
                raise RequestError(
                    f"{WHAT} wants {number!r} classes of the output {name!r}: ask for 1 or more."
                )
            classified[name] = number
    return Asked(allow_list, classified)


def prepare(request: Message, output: str | None) -> tuple[Asked, dict[str, Any]]:
    """Read what a request asks; return it and the fields that are written anew for the upstream.

    Outputs that are to be classified are asked for as raw tensors. The output with the
    confidences, if its name is known, is asked for where others are. The rest is written as it was
    read: of a key that comes twice the last counts here, and the upstream might take the first.
    """
    try:
        named = request.field("outputs", list[dict[str, Any]] | None, WHAT)
        asked = read_asked(request.field("parameters", dict[str, Any] | None, WHAT), named)
    except ProtocolError as error:
        raise RequestError(str(error)) from error
    if not named:
        return asked, {}
    names = [each["name"] for each in named]
    upstream = [_raw(each) for each in named]
    if output is not None and output not in names:
        upstream.append({"name": output})
        asked = replace(asked, outputs=tuple(names))
    return asked, {"outputs": upstream}


def _raw(output: dict[str, Any]) -> dict[str, Any]:
    options = {k: v for k, v in (output.get("parameters") or {}).items() if k != CLASSIFICATION}
    return {**output, "parameters": options} if "parameters" in output else output


def ask_again(asked: Asked, given: Sequence[str], output: str) -> tuple[Asked, dict[str, Any]]:
    """Ask for the confidences beside the outputs that a server gave on its own account."""
    outputs = [{"name": name} for name in (*given, output)]
    return replace(asked, outputs=tuple(given)), {"outputs": outputs}
