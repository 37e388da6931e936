"""Nested types that can hold confidences, and their values as dicts of scores by label."""

import pyarrow as pa

TEXT = pa.string()


def entry(score="score", label="label", kind=TEXT, number=None):
    return pa.struct([(score, number or pa.float64()), (label, kind)])


def struct_of(names, number=None):
    return pa.struct([(name, number or pa.float64()) for name in names])


def map_of(kind, number=None):
    return pa.map_(kind, number or pa.float64())


KINDS = {
    "struct": struct_of,
    "map": lambda names, number=None: map_of(TEXT, number),
    "large map": lambda names, number=None: map_of(pa.large_string(), number),
    "list": lambda names, number=None: pa.list_(entry(number=number)),
    "large list": lambda names, number=None: pa.large_list(
        entry("probability", "class", pa.large_string(), number)
    ),
    "list of dictionary": lambda names, number=None: pa.list_(
        entry("confidence", "token", pa.dictionary(pa.int8(), TEXT), number)
    ),
}


def cell(named, kind):
    """Turn a dict of scores into a value of a nested type."""
    if pa.types.is_struct(kind):
        return named
    if pa.types.is_map(kind):
        return [*named.items()]
    score, label = kind.value_type.names[:2]
    return [{score: value, label: name} for name, value in named.items()]


def named(value, kind):
    """Turn a value of a nested type into a dict of scores."""
    if pa.types.is_struct(kind):
        return value
    if pa.types.is_map(kind):
        assert len(dict(value)) == len(value)
        return dict(value)
    score, label = kind.value_type.names[:2]
    return {each[label]: each[score] for each in value}


def column(dicts, kind):
    return pa.array([cell(each, kind) for each in dicts], kind)
