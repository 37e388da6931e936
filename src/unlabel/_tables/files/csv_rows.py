"""Find the ends of rows in the bytes of a csv file, whose cells may hold line breaks in quotes."""

from __future__ import annotations

import re

import numpy as np

NEWLINE = re.compile(rb"\r\n?|\n")
QUOTE = b'"'
BYTES_PER_QUOTE = 8  # with more quotes than one in so many bytes, their positions take too much


class CsvRows:
    """Where rows end, given the separator of their cells.

    Quotes count only at the start of a cell, and two of them are one within it, as in Arrow.
    """

    def __init__(self, separator: str) -> None:
        before_a_cell = b"\r\n" + separator.encode()
        self._starts_a_cell = np.zeros(256, dtype=np.bool_)
        self._starts_a_cell[list(before_a_cell)] = True
        # The quote comes before its condition, so that it is searched for fast. A long cell takes
        # no memory without backtracking (*+). Quotes that are not closed match to the end.
        at_the_start = rb'(?<![^%s]")' % re.escape(before_a_cell)
        self._quoted = re.compile(rb'"%s[^"]*+(?:""[^"]*+)*+"?' % at_the_start)
        self._newline = b"\n"

    def end_of_first(self, block: bytes) -> int:
        """Find the end of the first row, or 0; the others end with the same character."""
        after, found = 0, None
        for cell in self._quoted.finditer(block):
            if found := NEWLINE.search(block, after, cell.start()):
                break
            after = cell.end()
        found = found or NEWLINE.search(block, after)
        if found is None:
            return 0
        self._newline = found[0][-1:]
        return found.end()

    def end_of_last(self, block: bytes) -> int:
        """Find the end of the last whole row of a block that starts with a row, or 0."""
        if QUOTE not in block:
            return block.rfind(self._newline) + 1
        end = self._end_by_counting(block)
        return self._end_by_reading(block) if end is None else end

    def _end_by_counting(self, block: bytes) -> int | None:
        """Find the last line break after an even number of quotes.

        That is the end of a row if every other quote opens a cell, or is the second of two.
        Otherwise, as in a cell such as 5" nails, return None.
        """
        if block.count(QUOTE) * BYTES_PER_QUOTE > len(block):
            return None
        letters = np.frombuffer(b"\n" + block, np.uint8)
        quotes = np.flatnonzero(letters == ord(QUOTE))  # each is one further on than in the block
        opening = quotes[::2]
        is_start = self._starts_a_cell[letters[opening - 1]]
        is_start[1:] |= opening[1:] == quotes[1:-1:2] + 1
        if not is_start.all():
            return None
        end = block.rfind(self._newline) + 1
        while end and (before := int(quotes.searchsorted(end))) % 2:
            end = block.rfind(self._newline, 0, int(quotes[before - 1]) - 1) + 1
        return end

    def _end_by_reading(self, block: bytes) -> int:
        """Find the last line break that is not in a quoted cell."""
        end = after = 0
        for quoted in self._quoted.finditer(block):
            end = block.rfind(self._newline, after, quoted.start()) + 1 or end
            after = quoted.end()
        return block.rfind(self._newline, after) + 1 or end
