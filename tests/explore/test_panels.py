"""The values that the panels show, read from the page as a person does."""

import json
import re
from collections import Counter

import numpy as np
import pytest

import doors
from explore_data import data_of, decoded
from unlabel.explore import render

NAMES = [f"label {column}" for column in range(30)]
REMOVED = NAMES[:14]  # more than a matrix and a list show at first
MATRIX = """[...document.querySelectorAll('#matrix tr')].map(row =>
  [...row.children].map(cell => cell.textContent))"""
PARTS = """[...document.querySelectorAll('.goes')].map(each => [
  each.querySelector('h3 .name').textContent,
  [...each.querySelectorAll('li')].map(part => part.textContent)])"""


@pytest.fixture(scope="module")
def answers(browser, tmp_path_factory):
    """Remove labels in a page of made rows, and give each row's true label and its answers."""
    random = np.random.default_rng(7)
    truth = np.tile(np.arange(len(NAMES)), 40)
    logits = random.normal(0, 1.2, (len(truth), len(NAMES)))
    logits[np.arange(len(truth)), truth] += 3
    labels = np.array(NAMES)[truth]
    html = render(logits, NAMES, labels, kind="logits")
    page = tmp_path_factory.mktemp("page") / "explore.html"
    page.write_text(html, encoding="utf-8")
    browser.open(page, 1280, "light")
    browser.value(f"page.send({json.dumps(REMOVED)}, null)")
    rows = np.array(decoded(data_of(html)))
    fitted = doors.fit(rows, labels, classes=NAMES, remove=REMOVED)
    new = [fitted.classes_out[column] for column in fitted.apply(rows).argmax(axis=1)]
    return [
        *zip(labels.tolist(), [NAMES[column] for column in rows.argmax(axis=1)], new, strict=True)
    ]


def test_the_matrix_has_the_largest_first_and_the_others_in_one(browser, answers):
    moves = Counter((old, new) for _, old, new in answers if old != new)
    head, *body = browser.value(MATRIX)
    assert (len(head), len(body)) == (13, 11)  # ten labels and the others; their names and sums
    for side, shown in ((0, [row[0] for row in body]), (1, head[1:-1])):
        sizes = Counter()
        for pair, count in moves.items():
            sizes[pair[side]] += count
        largest = sorted(sizes, key=lambda name: (-sizes[name], NAMES.index(name)))
        assert shown == [*largest[:10], f"{len(sizes) - 10} others"]
    for old, *cells, total in body:
        by_answer = Counter()
        for (from_, to), count in moves.items():
            if from_ == old or (old.endswith("others") and from_ not in [row[0] for row in body]):
                by_answer[to if to in head else head[-2]] += count
        assert [int(cell or 0) for cell in cells] == [by_answer[name] for name in head[1:-1]]
        assert int(total) == by_answer.total()


def test_inputs_of_removed_labels_go_to_the_most_common_answers(browser, answers):
    browser.click("#goes-all")
    shown = browser.value(PARTS)
    assert [label for label, _ in shown] == REMOVED
    for label, parts in shown:
        found = Counter(new for true, _, new in answers if true == label)
        sizes = [count for _, count in found.most_common()]
        expected = sizes[:4] + ([sum(sizes[4:])] if len(sizes) > 4 else [])
        percentages = [float(re.search(r"([\d.]+)%$", part)[1]) for part in parts]
        assert percentages == [round(100 * size / 40, 1) for size in expected]
        assert parts[-1].startswith("others ") == (len(sizes) > 4)


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        *((0, 0, "\N{EN DASH}"), (0, 9, "0%"), (9, 9, "100%"), (1, 2, "50.0%")),
        *((1, 9999, "<0.1%"), (9998, 9999, ">99.9%"), (1, 1000, "0.1%"), (999, 1000, "99.9%")),
    ],
)
def test_none_and_all_are_said_only_where_they_are(browser, answers, part, whole, text):
    assert browser.value(f"percent({part}, {whole})") == text
