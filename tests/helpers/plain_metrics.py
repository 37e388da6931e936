"""The metrics written out plainly, row by row, independent of the code under test."""

from math import fsum, inf, log, nan

EPSILON = 1e-12


def mean(values):
    values = [value for value in values if value == value]
    return fsum(values) / len(values) if values else nan


def normalised(row):
    row = [float(value) for value in row]
    total = fsum(row)
    return [value / total for value in row]


def top(row):
    best = 0
    for column in range(1, len(row)):
        if row[column] > row[best]:
            best = column
    return best


def rows_of(label, rows, labels):
    return [row for row, true in zip(rows, labels, strict=True) if true == label]


def judged(rows, labels, over):
    return [(row, true) for row, true in zip(rows, labels, strict=True) if true in over]


def label_accuracy(rows, labels, classes, over):
    return [
        mean([float(classes[top(row)] == label) for row in rows_of(label, rows, labels)])
        for label in over
    ]


def coverage(rows, labels, classes, over):
    worst = []
    for label in over:
        ranks = []
        for row in rows_of(label, rows, labels):
            if label in classes:
                own = row[classes.index(label)]
                ranks.append(1 + sum(1 for value in row if value > own))
            else:
                ranks.append(inf)
        worst.append((max(ranks) - 1) / len(classes) if ranks else nan)
    ties = []
    for row, true in judged(rows, labels, over):
        tied = False
        for column, value in enumerate(row):
            if true in classes and column != classes.index(true):
                tied = tied or value == row[classes.index(true)]
        ties.append(float(tied))
    return mean(worst), mean(ties)


def log_loss(rows, labels, classes, over):
    losses = []
    for row, true in judged(rows, labels, over):
        own = normalised(row)[classes.index(true)] if true in classes else 0.0
        losses.append(-log(max(own, EPSILON)))
    return mean(losses)


def reliability_bins(rows, labels, classes, over, bins):
    members = [[] for _ in range(bins)]
    for row, true in judged(rows, labels, over):
        confidence = max(normalised(row))
        at = 0
        while at < bins - 1 and confidence > (at + 1) / bins:
            at += 1
        members[at].append((confidence, float(classes[top(row)] == true)))
    return (
        [mean([confidence for confidence, _ in rows]) for rows in members],
        [mean([right for _, right in rows]) for rows in members],
        [len(rows) for rows in members],
    )


def expected_calibration_error(rows, labels, classes, over, bins):
    parts = zip(*reliability_bins(rows, labels, classes, over, bins), strict=True)
    gaps = [(abs(confidence - right), n) for confidence, right, n in parts if n]
    n_rows = sum(n for _, n in gaps)
    return fsum(gap * n / n_rows for gap, n in gaps) if n_rows else nan


def destination_matrix(rows, labels, classes, removed):
    matrix = []
    for label in removed:
        outputs = [normalised(row) for row in rows_of(label, rows, labels)]
        matrix.append([mean([row[column] for row in outputs]) for column in range(len(classes))])
    return matrix


def kl_divergence(outputs, reference, epsilon=EPSILON):
    result = []
    for p, q in zip(outputs, reference, strict=True):
        p, q = normalised(p), normalised(q)
        terms = (
            a * (log(max(a, epsilon)) - log(max(b, epsilon))) for a, b in zip(p, q, strict=True)
        )
        result.append(max(fsum(terms), 0.0))
    return result


def jensen_shannon(outputs, reference):
    """Subtract the mean entropy from the entropy of the average row."""

    def entropy(row):
        return -fsum(value * log(value) for value in row if value > 0)

    result = []
    for p, q in zip(outputs, reference, strict=True):
        p, q = normalised(p), normalised(q)
        middle = [a / 2 + b / 2 for a, b in zip(p, q, strict=True)]
        result.append(max(entropy(middle) - (entropy(p) + entropy(q)) / 2, 0.0))
    return result


def on_retained(rows, classes, retained):
    result = []
    for row in rows:
        kept = [float(row[classes.index(label)]) for label in retained]
        result.append(normalised(kept) if any(kept) else [1 / len(kept)] * len(kept))
    return result


def removed_mass(rows, classes, removed):
    return [fsum(normalised(row)[classes.index(label)] for label in removed) for row in rows]


def top_label_changed(before, classes_before, after, classes_after):
    return [
        classes_before[top(a)] != classes_after[top(b)] for a, b in zip(before, after, strict=True)
    ]
