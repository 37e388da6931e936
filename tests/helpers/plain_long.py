"""Long tables written out plainly: loops over rows that are dicts."""

import numpy as np

import plain_plan as plain


def groups(rows, key="id"):
    """List the ids in their order, each with its rows."""
    found = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def descends(own):
    """Tell whether the rows of an id come with the largest score first."""
    scores = [float(row["score"]) for row in own]
    return scores == sorted(scores, reverse=True)


def changed(rows, changes, labels, *, steps=None):
    """Change a long table of the columns id, label, score and others, id by id."""
    names, result = plain.result_labels(changes, labels), []
    for own in groups(rows).values():
        score_of = {row["label"]: float(row["score"]) for row in own}
        [scores] = plain.changed_rows(changes, labels, [[score_of[x] for x in labels]], steps)
        new = []
        for name, score in zip(names, scores.tolist(), strict=True):
            sources = [label for label in labels if name in dict(plain.parts_of(changes, label))]
            source = name if name in sources else sources[0]
            place = [row["label"] for row in own].index(source)
            new.append((place, own[place] | {"label": name, "score": score}))
        if descends(own):
            new.sort(key=lambda item: -item[1]["score"])
        else:
            new.sort(key=lambda item: item[0])
        result += [row for _, row in new]
    return result


def answers(rows):
    """Find the top label of each id."""
    return {
        key: own[int(np.argmax([float(row["score"]) for row in own]))]["label"]
        for key, own in groups(rows).items()
    }
