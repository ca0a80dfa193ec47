"""Where in a larger input something is wrong.

Rules raise with the path from where they stand; whoever called them from further out adds
the step that led there, and only when something went wrong.
"""

from __future__ import annotations

from difflib import get_close_matches
from types import TracebackType
from typing import Any, NoReturn

from headrace.errors import InvalidInput, InvalidKeyValues, InvalidQuery

LONGEST_SHOWN = 80


def refuse(error: type[InvalidInput], path: str, reason: str) -> NoReturn:
    """Raise an error that names the field and says what it may be."""
    raise error(_worded(path, reason), path=path, reason=reason)


def shown(value: object) -> str:
    """A value in a message, at a bearable length."""
    try:
        text = repr(value)
    except ValueError:
        # Python does not write numbers of thousands of digits.
        return f"a very long {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def unknown(error: type[InvalidInput], name: object, known: list[str], path: str = "") -> NoReturn:
    """Refuse a name that is none of those known, with the one that may have been meant."""
    close = get_close_matches(str(name).lower(), [word.lower() for word in known], 1)
    meant = [word for word in known if word.lower() in close]
    hint = f"did you mean {meant[0]!r}?" if meant else f"use {', '.join(known)}."
    refuse(error, joined(path, str(name)), f"this field is not known: {hint}")


def joined(outer: str, inner: str) -> str:
    """A path and what follows it."""
    divider = "." if outer and inner and not inner.startswith("[") else ""
    return outer + divider + inner


class step:  # noqa: N801  # reads as a word: with step("Selection"): ...
    """One step on the way to a field: ``with step("Or[0]"): ...``.

    Errors from inside get it into their path. With ``becomes`` they also become errors of that
    class: a wrong value in a query is a wrong query.
    """

    __slots__ = ("_becomes", "_name")

    def __init__(self, name: str, becomes: type[InvalidInput] | None = None) -> None:
        self._name = name
        self._becomes = becomes

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, (InvalidKeyValues, InvalidQuery)):
            details: dict[str, Any] = error.details
            path = joined(self._name, details["path"])
            becomes = self._becomes or type(error)
            raise becomes(
                _worded(path, details["reason"]), **{**details, "path": path}
            ) from error.__cause__


def _worded(path: str, reason: str) -> str:
    return f"{path}: {reason}" if path else reason
