"""The exceptions: one for mistakes of a user, one of its kind for extras that are not installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UnlabelError(ValueError):
    """The error for a mistake of the user: a sentence, and where the mistake is.

    Whoever catches it may set what it knows better, such as the file that a row is from.

    Attributes
    ----------
    problem : str
        What is wrong and what to do about it, a sentence.
    argument : str, optional
        The argument to change.
    row : int or str, optional
        The number of the row, or another name of a place, such as "line 4".
    path : path, optional
        The file.

    Examples
    --------
    >>> error = UnlabelError("It sums to 1.2: divide it by its sum.", row=3, argument="normalize")
    >>> print(error)
    Row 3: it sums to 1.2: divide it by its sum (normalize=).
    >>> error.path = "table.csv"
    >>> print(error.text(lambda argument: f"--{argument}"))
    table.csv, row 3: it sums to 1.2: divide it by its sum (--normalize).
    """

    problem: str
    argument: str | None = None
    row: int | str | None = None
    path: str | os.PathLike[str] | None = None

    def __init__(
        self,
        problem: str,
        *,
        argument: str | None = None,
        row: int | str | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem, self.argument, self.row, self.path = problem, argument, row, path

    def __str__(self) -> str:
        return self.text(lambda argument: f"{argument}=")

    def text(self, spelled: Callable[[str], str]) -> str:
        """Return the message, with `spelled` to write the argument, such as an option's name."""
        message = self.problem
        row = f"row {self.row}" if isinstance(self.row, int) else self.row
        place = ", ".join(str(each) for each in (self.path, row) if each is not None)
        first = message.partition(" ")[0]
        if place and first.istitle():  # "The" and "It", not "NaN" and "JSON"
            message = message[0].lower() + message[1:]
        if place:
            message = f"{place}: {message}"
        argument = "" if self.argument is None else f" ({spelled(self.argument)})"
        message = f"{message.removesuffix('.')}{argument}."
        is_name = {*first.rstrip(".,:")} & {*"./"}  # of a file
        return message if self.path or is_name else message[:1].upper() + message[1:]


@contextmanager
def located(
    path: str | os.PathLike[str] | None = None, row: int | str | None = None
) -> Iterator[None]:
    """Add the file or the row to errors about its content, which no argument is to blame for."""
    try:
        yield
    except UnlabelError as error:
        error.path = path if error.path is None else error.path
        error.row = row if error.row is None else error.row
        error.argument = None if path is not None else error.argument
        raise


class MissingExtraError(ModuleNotFoundError, UnlabelError):  # type: ignore[misc]
    """An import that failed because an extra of `unlabel` is not installed."""

    def __init__(self, problem: str, *, name: str | None = None) -> None:
        ModuleNotFoundError.__init__(self, problem, name=name)
        self.problem = problem


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Raise an error that names the extra if an import in the `with` block fails.

    Examples
    --------
    >>> with needs_extra("onnx"):
    ...     import none
    Traceback (most recent call last):
    unlabel.errors.MissingExtraError: The module none is not installed: pip install 'unlabel[onnx]'.
    """
    try:
        yield
    except MissingExtraError:  # of an extra that the block imports in turn
        raise
    except ModuleNotFoundError as error:
        message = f"The module {error.name} is not installed: pip install 'unlabel[{extra}]'."
        raise MissingExtraError(message, name=error.name) from None
