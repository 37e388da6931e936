"""The exceptions: one for mistakes of a user, one of its kind for extras that are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UnlabelError(ValueError):
    """The error for a mistake of the user; its message names the mistake and says what to do."""


class RowError(UnlabelError):
    """A mistake in one row; whoever read the row may know a better name for its place.

    Examples
    --------
    >>> error = RowError(3, " sums to 1.2: divide it by its sum.")
    >>> str(error), error.at("line 4")
    ('Row 3 sums to 1.2: divide it by its sum.', 'Line 4 sums to 1.2: divide it by its sum.')
    """

    def __init__(self, row: int, after: str, before: str = "") -> None:
        super().__init__(row, after, before)
        self.row, self.after, self.before = row, after, before

    def __str__(self) -> str:
        return self.at(f"row {self.row}")

    def at(self, place: str) -> str:
        """Give the message with another name for the place of the row."""
        message = f"{self.before}{place}{self.after}"
        return message[0].upper() + message[1:]


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
