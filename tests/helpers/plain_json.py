"""JSON lines of scores in every form, written with plain loops and the standard library."""

import json
import math

from unlabel._tables.predictions import Reading


def by_score(labels, row):
    return sorted(zip(labels, row, strict=True), key=lambda pair: -pair[1])


def as_entries(labels, row):
    return [{"label": name, "score": score} for name, score in zip(labels, row, strict=True)]


def as_sorted_entries(labels, row):
    return [{"label": name, "score": score} for name, score in by_score(labels, row)]


def as_object(labels, row):
    return dict(zip(labels, row, strict=True))


def as_sorted_object(labels, row):
    return dict(by_score(labels, row))


def as_two_lists(labels, row):
    return {"labels": [*labels], "scores": [*row]}


def as_sorted_lists(labels, row):
    pairs = by_score(labels, row)
    return {"labels": [name for name, _ in pairs], "scores": [score for _, score in pairs]}


def log(score):
    return math.log(score) if score > 0 else -9999.0


def as_logs(labels, row):
    """Write the top tokens of a language model's answer."""
    return [{"token": name, "logprob": log(score)} for name, score in by_score(labels, row)]


FORMS = {
    form.__name__.removeprefix("as_"): form
    for form in (
        as_entries,
        as_sorted_entries,
        as_object,
        as_sorted_object,
        as_two_lists,
        as_sorted_lists,
        as_logs,
    )
}


def at_top(number, scores):
    return scores


def among_fields(number, scores):
    return {"id": number, **scores, "note": {"scores": [1, 2]}}


def in_a_field(number, scores):
    return {"id": number, "text": f"text {number}", "predictions": scores, "note": [number, None]}


def deep(number, scores):
    return {"id": number, "a.b": [0, {"c": scores, "d": [1.5]}], "z": "é"}


# (where the scores are, how they are found)
PLACES = {
    at_top: Reading(),
    among_fields: Reading(),
    in_a_field: Reading(),
    deep: Reading(key="a.b.1.c"),
}


def layouts():
    """List all forms in all places that can hold them."""
    found = []
    for name, form in FORMS.items():
        for place, reading in PLACES.items():
            if place is among_fields and "object" not in name and "lists" not in name:
                continue
            if place in (at_top, among_fields) and name == "sorted_object":
                continue  # fields are not sorted
            found.append((form, place, reading))
    return found


def name_of(layout):
    return f"{layout[0].__name__} {layout[1].__name__}"


def write(path, values, end="\n"):
    """Write values as JSON lines."""
    path.write_bytes("".join(json.dumps(value) + end for value in values).encode())


def read(path):
    """Read JSON lines; a name twice in an object is a mistake."""

    def once(pairs):
        assert len({name for name, _ in pairs}) == len(pairs), pairs
        return dict(pairs)

    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    return [json.loads(line, object_pairs_hook=once) for line in lines]


def check_equal(found, expected):
    """Check that values are equal, in the order of names and but for the last digits of floats."""
    assert type(found) is type(expected) or {type(found), type(expected)} <= {int, float}
    if isinstance(expected, dict):
        assert [*found] == [*expected]
        for name in expected:
            check_equal(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_equal(one, other)
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12), (found, expected)
    else:
        assert found == expected
