"""The sample is drawn in proportion, at random, and the same way each time."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from explore_data import data_of
from unlabel import UnlabelError
from unlabel.explore import render
from unlabel.explore.sample import Draw, Sample, allocate

SIZES = st.lists(st.integers(0, 400), min_size=1, max_size=12)


def plain_allocation(sizes, total):
    """Shares by fractions: one row for those below one, the rest by largest remainders."""
    sizes, given = dict(enumerate(sizes)), {}
    total = min(total, sum(sizes.values()))
    sizes = {at: size for at, size in sizes.items() if size}
    if total < len(sizes):
        return Counter(sorted(sizes, key=lambda at: (-sizes[at], at))[:total])
    while True:
        left = total - len(given)
        quota = {at: Fraction(left * size, sum(sizes.values())) for at, size in sizes.items()}
        small = [at for at in sizes if quota[at] < 1]
        if not small:
            break
        for at in small:
            given[at] = 1
            del sizes[at]
    shares = {at: quota[at].__floor__() for at in sizes}
    for at in sorted(sizes, key=lambda at: (shares[at] - quota[at], at)):
        if sum(shares.values()) < left:
            shares[at] += 1
    return Counter(shares | given)


@given(SIZES, st.integers(1, 1500))
def test_rows_are_shared_out_in_proportion(sizes, total):
    assume(sum(sizes))
    found = allocate(sizes, total).tolist()
    assert found == [plain_allocation(sizes, total)[at] for at in range(len(sizes))]
    assert sum(found) == min(total, sum(sizes))
    assert all(share <= size for share, size in zip(found, sizes, strict=True))
    if total >= sum(size > 0 for size in sizes):
        assert all(share >= 1 for share, size in zip(found, sizes, strict=True) if size)
    quota = [total * size / sum(sizes) for size in sizes]
    if total <= sum(sizes) and all(each == 0 or each >= 1 for each in quota):
        assert all(abs(share - each) < 1 for share, each in zip(found, quota, strict=True))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=200),
    st.integers(1, 60),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_the_draw_is_the_same_in_any_parts(strata, total, cuts):
    strata = np.array(strata)
    allotted = allocate(np.bincount(strata, minlength=5), total)
    _, expected = Draw(allotted).add(strata)
    draw, drawn, first = Draw(allotted), np.empty(0, dtype=int), 0
    for part in np.split(strata, sorted(cuts)):
        stay, joining = draw.add(part)
        assert len(stay) == len(drawn) <= total
        drawn = np.concatenate([drawn[stay], first + joining])
        first += len(part)
    assert drawn.tolist() == expected.tolist() == sorted(expected.tolist())
    assert np.bincount(strata[drawn], minlength=5).tolist() == allotted.tolist()


def test_every_row_has_the_same_chance():
    strata = np.arange(40_000) % 2
    _, drawn = Draw([2000, 1000]).add(strata)
    for of_stratum, count in ((0, 2000), (1, 1000)):
        of_tenth = Counter(int(row) // 4000 for row in drawn if row % 2 == of_stratum)
        expected = count / 10
        assert sum((of_tenth[t] - expected) ** 2 / expected for t in range(10)) < 27.9  # 1 in 1000


def outputs(n, n_labels, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n_labels), size=n)


@given(
    st.integers(1, 300), st.integers(2, 5), st.integers(1, 80), st.sampled_from(["all", "some", 0])
)
def test_the_sample_of_a_page_is_stratified(n, n_labels, rows, truth):
    table, names = outputs(n, n_labels), [f"label {at}" for at in range(n_labels)]
    labels = [names[(at * at) % n_labels] for at in range(n)]
    if truth == "some":
        labels = [None if at % 3 == 1 else label for at, label in enumerate(labels)]
    data = data_of(render(table, names, labels if truth else None, rows=rows))
    assert data["of"] == n
    assert data["rows"] == min(rows, n) == len(data["numbers"])
    assert data["numbers"] == sorted(set(data["numbers"]))
    assert data["ids"] is None
    if truth:
        known = [-1 if label is None else names.index(label) for label in labels]
        assert data["truth"] == [known[number] for number in data["numbers"]]
    else:
        assert data["truth"] is None
    strata = [
        ("truth", label) if truth and label else ("answer", names[row.index(max(row))])
        for label, row in zip(labels, table.tolist(), strict=True)
    ]
    order = [(kind, name) for kind in ("truth", "answer") for name in names]
    sizes = Counter(strata)
    expected = plain_allocation([sizes[each] for each in order], rows)
    found = Counter(strata[number] for number in data["numbers"])
    assert found == Counter({each: expected[at] for at, each in enumerate(order)})


def test_a_thinner_sample_keeps_the_proportions():
    truth = np.repeat([0, 1, 2], [600, 390, 10])
    sample = Sample(outputs(1000, 3), truth, np.arange(1000), [str(at) for at in range(1000)])
    thinned = sample.thinned(100)
    assert Counter(thinned.truth.tolist()) == {0: 60, 1: 39, 2: 1}
    assert thinned.ids == [str(number) for number in thinned.numbers]
    assert (thinned.rows == sample.rows[thinned.numbers]).all()


def test_rows_of_other_labels_stay_without_truth():
    data = data_of(render(outputs(4, 2), ["cat", "dog"], ["cat", "cow", None, "dog"]))
    assert data["truth"] == [0, -1, -1, 1]
    assert data["aside"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["cow", "emu"]}, "The model has no label 'cow'"),
        ({"ids": [1, 2, 3]}, "2 rows have 3 ids: give one per row."),
        ({"labels": ["cat"]}, "2 rows have 1 true labels"),
        ({"rows": 0}, "0 rows are no sample.*rows="),
        ({"kind": "scores"}, "'scores' is not known"),
        ({"kind": "logits"}, "The rows are probabilities, not logits"),
        ({"confidences": np.empty((0, 2))}, "There are no rows: give at least one."),
        ({"confidences": [[0.5, 0.6]]}, "Row 0: it is not a probability vector"),
        ({"classes": [1, "1"]}, "The label 1 has the text of '1'"),
        ({"classes": ["cat"]}, r"not \(\.\.\., 1\)"),
        ({"classes": [], "confidences": np.empty((2, 0))}, "a column per label"),
    ],
)
def test_mistakes_are_named(arguments, message):
    given = {"confidences": outputs(2, 2), "classes": ["cat", "dog"]}
    with pytest.raises(UnlabelError, match=message):
        render(**given | arguments)
