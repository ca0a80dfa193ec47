"""Failures of items, and the fingerprint that groups similar ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import traceback
from pathlib import Path
from types import TracebackType

import msgspec

MAX_TEXT_LENGTH = 10_000
MAX_TITLE_LENGTH = 200

# What differs between two occurrences of one error: ids, addresses, numbers, quoted values.
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|0x[0-9a-f]+|\b[0-9a-f]{16,}\b|'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?",
    re.IGNORECASE,
)

# What runs a handler, and says nothing about its error.
_OURS = (
    str(Path(__file__).parents[1]) + os.sep,
    str(Path(contextlib.__file__).with_name("asyncio")) + os.sep,
    contextlib.__file__,
)

_CONTROL = re.compile(r"[\x00-\x1f]")


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored error: its type, its message and its traceback."""

    type: str = "Rejected"
    message: str = ""
    traceback: str = ""
    details: str | None = None

    @property
    def title(self) -> str:
        """The message without what differs from one occurrence to the next."""
        line = self.message.strip().partition("\n")[0]
        words = f"{self.type}: {_VARYING.sub('…', line)}" if line else self.type
        return _CONTROL.sub(" ", words)[:MAX_TITLE_LENGTH]

    @property
    def summary(self) -> str:
        """The type and the first line of the message."""
        line = self.message.strip().partition("\n")[0][:MAX_TITLE_LENGTH]
        return f"{self.type}: {line}" if line else self.type

    @property
    def fingerprint(self) -> str:
        """Equal for failures that are alike."""
        return hashlib.blake2b(self.title.encode(), digest_size=6).hexdigest()


def encode_failure(failure: Failure) -> str:
    """A failure as it is stored."""
    return msgspec.json.encode(failure).decode()


def failure_of(error: BaseException | str) -> Failure:
    """A failure from a handler's exception, or from a text."""
    # By its type: an exception may raise whenever one of its attributes is read.
    if issubclass(type(error), str):
        return Failure(message=storable(str(error)))
    return Failure(type=type_of(error), message=text_of(error), traceback=_traceback(error))


def type_of(error: object) -> str:
    """The name of an exception's type, whatever its metaclass does."""
    try:
        return storable(type(error).__qualname__)
    except BaseException:
        return "Exception"


def text_of(error: object) -> str:
    """The text of an exception, also of one whose own ``__str__`` raises."""
    try:
        return storable(str(error))
    except BaseException as mistake:
        return f"(its text is unknown: __str__ raised {type_of(mistake)})"


def words_of(error: object) -> str:
    """The type and the text of an exception, on one line of a log."""
    return f"{type_of(error).rpartition('.')[2]}: {text_of(error)}"


def _traceback(error: BaseException | str) -> str:
    try:
        lines = traceback.format_exception(type(error), error, own_traceback(error))  # type: ignore[arg-type]  # never a text: see failure_of
        return storable("".join(lines), keep="end")
    except BaseException as mistake:
        # A chain that is too deep, or an exception whose traceback cannot be read.
        return f"(its traceback is unknown: {type_of(mistake)})"


def own_traceback(error: BaseException) -> TracebackType | None:
    """The traceback from the user's first frame on; all of it if no frame is the user's."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_OURS):
        found = found.tb_next
    return found or error.__traceback__


def storable(text: str, *, keep: str = "start") -> str:
    """Any text in a form that databases can store, shortened to ``MAX_TEXT_LENGTH``."""
    text = text.encode(errors="replace").decode().replace("\0", "\ufffd")
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return text[:MAX_TEXT_LENGTH] if keep == "start" else text[-MAX_TEXT_LENGTH:]
