"""The path to an invalid field of a larger input.

A check raises with the path from its own level; each caller further out prepends its own step,
and does so only when an error passes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import Any, NoReturn

from headrace.errors import InvalidInput, InvalidKeyValues, InvalidQuery

MAX_SHOWN_LENGTH = 80


def refuse(error: type[InvalidInput], path: str, reason: str) -> NoReturn:
    """Raise an error that names the field and says what it may be."""
    raise error(_worded(path, reason), path=path, reason=reason)


def shown(value: object) -> str:
    """A value for a message, shortened to ``MAX_SHOWN_LENGTH``."""
    try:
        text = repr(value)
    except Exception:
        # Numbers of thousands of digits, deeply nested lists, classes whose repr fails.
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= MAX_SHOWN_LENGTH else text[: MAX_SHOWN_LENGTH - 3] + "..."


def unknown(error: type[InvalidInput], name: object, known: list[str], path: str = "") -> NoReturn:
    """Refuse an unknown name, and suggest the known one that is closest."""
    hint = suggestion(name, known)
    refuse(error, joined(path, str(name)), f"this field is not known: {hint}")


def suggestion(name: object, known: Sequence[str]) -> str:
    """What may be meant by an unknown name: the known one that is closest, else all of them."""
    close = get_close_matches(str(name).lower(), [word.lower() for word in known], 1)
    meant = [word for word in known if word.lower() in close]
    return f"did you mean {meant[0]!r}?" if meant else f"use {', '.join(known)}."


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
