"""Labels that look like other labels, found without comparing all pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from unicodedata import normalize

from unlabel.labels import nearest
from unlabel._typing import Label

# In shorter texts another letter is often another word, and another sign too: C, C++, C#.
LEAST_LETTERS = 4
# The variants of a text take memory by the square of its length.
MOST_LETTERS = 64
# So many labels of a model may share a variant; without a limit, all pairs could be compared.
MOST_SHARING = 8
# A comparison of two texts takes up to 100 microseconds.
MOST_COMPARISONS = 20_000


class Lookalikes:
    """An index of labels by their letters, and by their letters but for one."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self.labels = labels
        self._sharing: dict[str, list[Label]] = {}
        for label in labels:
            for variant in _variants(_letters(label)):
                sharing = self._sharing.setdefault(variant, [])
                if len(sharing) < MOST_SHARING:
                    sharing.append(label)

    def of(self, label: Label) -> Iterator[Label]:
        """Find labels that are the same but for case, blanks, punctuation, or for one edit.

        An edit is a letter too many, too few, wrong, or in the place of its neighbour. Digits
        have to be the same: they number things.
        """
        letters = _letters(label)
        for variant in _variants(letters):
            for other in self._sharing.get(variant, ()):
                if _is_one_edit(letters, _letters(other)):
                    yield other

    def nearest_of(self, labels: Sequence[Label]) -> Iterator[tuple[Label, Label | None]]:
        """Pair labels with the nearest in the index, as far as there is time to compare them."""
        comparisons = 0
        for label in labels:
            near = next(self.of(label), None)
            if near is None and comparisons < MOST_COMPARISONS:
                comparisons += len(self.labels)
                near = nearest(label, self.labels)
            yield label, near


def _letters(label: Label) -> str:
    # Before and after: folding the case may take characters apart.
    text = normalize("NFKC", normalize("NFKC", str(label)).casefold())
    text = "".join(text.split())
    return "".join(filter(str.isalnum, text)) if _is_long(text) else text


def _is_long(text: str) -> bool:
    return sum(map(str.isalpha, text)) >= LEAST_LETTERS


def _variants(letters: str) -> Iterable[str]:
    """Give a text, and the text without each of its letters: texts one edit apart share one."""
    if not _is_long(letters) or len(letters) > MOST_LETTERS:
        return (letters,)
    without = [letters[:i] + letters[i + 1 :] for i, c in enumerate(letters) if c.isalpha()]
    return dict.fromkeys([letters, *without])


def _is_one_edit(one: str, other: str) -> bool:
    """Tell whether texts that share a variant are the same but for at most one edit."""
    if one == other:
        return True
    if not (_is_long(one) and _is_long(other)):
        return False
    if len(one) != len(other):
        return True  # the shorter one is the variant that they share
    differing = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    if not all(c.isalpha() for pair in differing for c in pair):
        return False
    return len(differing) == 1 or (len(differing) == 2 and differing[0] == differing[1][::-1])
