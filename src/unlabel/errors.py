"""The exceptions: one for mistakes of a user, and two of its kind, for rows and missing extras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UnlabelError(ValueError):
    """A mistake of the user; the message names it in one sentence and says what to do."""


class RowError(UnlabelError):
    """A mistake in one row, whose number callers may translate into that of a line.

    Examples
    --------
    >>> print(RowError(3, " sums to 1.2."))
    Row 3 sums to 1.2.
    """

    def __init__(self, row: int, after: str, before: str = "") -> None:
        super().__init__(row, after, before)
        self.row, self.after, self.before = row, after, before

    def __str__(self) -> str:
        text = f"{self.before}row {self.row}{self.after}"
        return text[0].upper() + text[1:]


class MissingExtraError(ModuleNotFoundError, UnlabelError):
    """An import that failed because an extra of `unlabel` is not installed."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Say which extra to install if an import in the `with` block fails.

    Examples
    --------
    >>> with needs_extra("spark"):
    ...     import no_such_module
    Traceback (most recent call last):
    unlabel.errors.MissingExtraError: no_such_module is not installed: pip install 'unlabel[spark]'.
    """
    try:
        yield
    except MissingExtraError:  # of an extra that the block imports in turn
        raise
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed: pip install 'unlabel[{extra}]'."
        raise MissingExtraError(message, name=error.name) from None
