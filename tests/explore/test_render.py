"""The page is one document below 3,000,000 bytes, whatever names and ids come in."""

import base64
import hashlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explore_data import HOSTILE, data_of, decoded, plain_probabilities
from unlabel import UnlabelError
from unlabel.explore import render

LIMIT = 3_000_000
# The page's own: all that it may contain beside its data.
PLAIN = render([[0.5, 0.5]], ["cat", "dog"], title="")


def logits(n, n_labels):
    return np.random.default_rng(0).normal(scale=4, size=(n, n_labels))


def around(html):
    """The page without its data."""
    return re.sub(r'(id="data">).*?(</script>)', r"\1\2", html, flags=re.DOTALL)


def test_hostile_names_and_ids_come_back_as_they_are_and_are_inert():
    n = len(HOSTILE)
    rows = logits(n, n)
    html = render(rows, HOSTILE, HOSTILE, HOSTILE[::-1], kind="logits", title="")
    data = data_of(html)
    assert data["classes"] == HOSTILE
    assert data["ids"] == HOSTILE[::-1]
    assert data["truth"] == data["numbers"] == [*range(n)]
    assert around(html) == around(PLAIN)
    html.encode()
    for title in HOSTILE:
        named = render(rows, HOSTILE, kind="logits", title=title)
        assert data_of(named)["title"] == title
        assert named.count("<") == PLAIN.count("<")


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_comes_back(name, identifier):
    html = render([[0.5, 0.5]], [name, name + "x"], ids=[identifier])
    data = data_of(html)
    assert data["classes"] == [name, name + "x"]
    assert data["ids"] == [identifier]
    assert html.encode().decode() == html


def test_ids_that_no_file_can_hold():
    ids = ["\ud800", None, 7, float("nan"), "x" * 1000, "x" * 1001]
    data = data_of(render(logits(6, 2), ["cat", "dog"], ids=ids, kind="logits", title="\udc80"))
    assert data["ids"] == ["\ufffd", "", "7", "", "x" * 1000, "x" * 999 + "…"]
    assert data["title"] == "\ufffd"


def test_the_page_runs_its_own_script_alone():
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', PLAIN)
    [script] = re.findall(r"<script>(.*?)</script>", PLAIN, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "\r" not in PLAIN  # a browser would hash line feeds in its place
    assert PLAIN.count("</script") == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_rows_are_decoded_to_what_they_were(dtype, kind):
    rows = logits(60, 5)
    if kind == "probabilities":
        rows = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
        rows[:, 2] = 0
        rows /= rows.sum(axis=1, keepdims=True)
    rows = rows.astype(dtype)
    data = data_of(render(rows, list("abcde"), kind=kind, rows=40))
    assert data["rows"] == 40
    errors = [
        abs(one - other)
        for number, found in zip(data["numbers"], decoded(data), strict=True)
        for one, other in zip(plain_probabilities(rows[number], kind), found, strict=True)
    ]
    assert max(errors) == pytest.approx(data["rounding"], rel=1e-6)
    assert 0 < data["rounding"] < 1e-3


@pytest.mark.parametrize(
    ("n", "n_labels", "rows", "bits", "fit"),
    [
        (1, 2, 5000, 16, True),
        (6000, 100, 5000, 16, True),
        (900, 1000, 5000, 16, True),  # all of them
        (5000, 1000, 900, 16, True),
        (2000, 1000, 5000, 8, True),
        (5000, 1000, 5000, 8, False),
        (40, 60_000, 5000, 8, False),
    ],
)
def test_as_many_rows_as_fit_with_as_many_bits(n, n_labels, rows, bits, fit):
    table = np.tile(logits(1, n_labels).astype(np.float32), (n, 1))
    html = render(table, [f"label {at}" for at in range(n_labels)], kind="logits", rows=rows)
    data = data_of(html)
    size = len(html.encode())
    assert size < LIMIT
    assert (data["bits"], data["of"]) == (bits, n)
    assert (data["rows"] == min(n, rows)) == fit
    if not fit:  # one more row would be too much, but for what is kept in reserve
        assert size + 8000 + 4 * n_labels // 3 > LIMIT


@pytest.mark.parametrize("letter", ["x", "<", "\x00", "😀"])
def test_long_ids_leave_room_for_fewer_rows(letter):
    n = 5000
    names = ["cat", "dog", letter * 100_000]
    truth = [names[0]] * (n - 2) + names[1:]
    ids = [f"{at}-{letter * 2000}" for at in range(n)]
    html = render(logits(n, 3), names, truth, ids, kind="logits", title=letter * 10**7)
    data = data_of(html)
    assert LIMIT / 2 < len(html.encode()) < LIMIT
    assert 300 < data["rows"] < 3000
    assert {0, 1, 2} == {*data["truth"]}
    assert data["ids"] == [(f"{at}-{letter * 2000}"[:999] + "…") for at in data["numbers"]]


def test_names_that_do_not_fit_are_refused():
    names = ["cat", "x" * 2_600_000]
    assert data_of(render(logits(9, 2), names, kind="logits"))["rows"] == 9
    with pytest.raises(UnlabelError, match="names of 2 labels take 3,100,003 bytes"):
        render(logits(9, 2), ["cat", "x" * 3_100_000], kind="logits")


def test_the_same_rows_give_the_same_page():
    table, names = logits(300, 4), list("abcd")
    pages = {render(table, names, kind="logits", rows=50) for _ in range(2)}
    assert len(pages) == 1


def test_without_javascript_the_page_says_what_it_needs():
    [sentence] = re.findall(r'<p[^>]*id="sentence"[^>]*>(.*?)</p>', PLAIN)
    assert sentence == "This page needs JavaScript, in a browser from 2023 or later."
