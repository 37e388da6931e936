"""Random edits of a summary, careless or hostile, from a seed."""

import copy
import json

EXTREMES = [
    *(None, True, False, 0, 1, -1, 2, 1e-300, -1e-300, 5e-324, 0.5, -0.5, 1.5, 1e300, 1.7e308),
    *(2**53, 2**63, -(2**63), 10**30, 10**400, float("nan"), float("inf"), float("-inf")),
    *("", "0.5", "nan", "base model", "retrained", "OSR", "\x1b[2J", "\ud800", "x" * 10_000),
    *([], {}, [[]], [{}], {"retained": 1}, {"": {}}, [None], ["ant"]),
]


def places(value, path=()):
    """Yield the path of every node in nested dicts and lists."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        yield (*path, key)
        if isinstance(part, dict | list):
            yield from places(part, (*path, key))


def edited(summary, rng):
    """Return the JSON of a summary after one to three random edits."""
    summary = copy.deepcopy(summary)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        every = list(places(summary))
        if not every:
            break
        *way, key = rng.choice(every)
        parent = summary
        for step in way:
            parent = parent[step]
        _edit(parent, key, every, summary, rng)
    text = json.dumps(summary)
    if rng.random() < 0.02:
        text = text[: rng.randrange(len(text))]
    return text


def _edit(parent, key, every, summary, rng):
    match rng.choice(["drop", "extreme", "extreme", "wrap", "twice", "add", "move", "cut"]):
        case "drop":
            del parent[key]
        case "extreme":
            parent[key] = copy.deepcopy(rng.choice(EXTREMES))
        case "wrap":
            parent[key] = rng.choice([[parent[key]], {"retained": parent[key]}, str(parent[key])])
        case "twice" if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        case "add" if isinstance(parent, dict):
            parent[rng.choice(["", "extra", "OSR", "rows"])] = copy.deepcopy(parent[key])
        case "move":
            other = summary
            for step in rng.choice(every):
                other = other[step]
            parent[key] = copy.deepcopy(other)
        case "cut" if isinstance(parent[key], list | dict):
            while len(parent[key]) > rng.randrange(3):
                parent[key].pop() if isinstance(parent[key], list) else parent[key].popitem()
