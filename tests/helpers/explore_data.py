"""The data of a page to explore, decoded by plain loops."""

import base64
import json
import math
import re
import struct

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "__proto__",
    "constructor",
    '"><img src="https://evil.invalid/x" onerror="alert(1)">',
    "قطة صغيرة \u202e نعم",
    "x" * 300,
    'it\'s "quoted" & `ticked` \\ ${1}',
    "line\u2028break\u2029here\r\n\x00\x7f",
    "🦊👩‍👩‍👧",
    "{{ 7 * 7 }}{% raw %}",
    "a = false\n[changes]",
    "12",
    " ",
]


def data_of(html):
    [text] = DATA.findall(html)
    assert not set(text) & {"<", ">", "&", "\u2028", "\u2029"}
    return json.loads(text)


def codes_of(data):
    """The codes of each row."""
    width = {8: "B", 16: "H"}[data["bits"]]
    codes = base64.b64decode(data["codes"], validate=True)
    n = len(data["classes"])
    rows = [*struct.iter_unpack(f"<{n}{width}", codes)]
    assert len(rows) == data["rows"]
    return rows


def decoded(data):
    """The probabilities of each row."""
    none = 2 ** data["bits"] - 1
    weights = [
        [0.0 if code == none else math.exp(-code * data["step"]) for code in row]
        for row in codes_of(data)
    ]
    return [[weight / math.fsum(row) for weight in row] for row in weights]


def plain_probabilities(row, input):
    """The probabilities that a row of a model's outputs stands for."""
    row = [float(value) for value in row]
    if input == "logits":
        row = [math.exp(value - max(row)) for value in row]
    return [value / math.fsum(row) for value in row]


def largest_move(data):
    """The most that rounding can move a confidence, of a mask's result too.

    Logits that are off by up to e change a softmax by at most tanh(e / 2).
    """
    return math.tanh(data["step"] / 2)
