"""The data of pages to explore, read without the code that wrote it."""

import base64
import json
import math
import re
import struct


def data_of(html):
    """Read the JSON of a page."""
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def rows_of(data):
    """Decode a page's confidences, row by row."""
    n = len(data["classes"])
    size = data["bits"] // 8
    raw = base64.b64decode(data["codes"])
    codes = struct.unpack(f"<{len(raw) // size}{'H' if size == 2 else 'B'}", raw)
    last = 2 ** data["bits"] - 1
    rows = []
    for start in range(0, len(codes), n):
        weights = [
            0.0 if code == last else math.exp(-code * data["step"])
            for code in codes[start : start + n]
        ]
        rows.append([weight / math.fsum(weights) for weight in weights])
    return rows


def largest_move(data):
    """The most that rounding to a step can move a confidence, of a mask's result too.

    Logits that are off by up to e change a softmax by at most tanh(e / 2).
    """
    return math.tanh(data["step"] / 2)
