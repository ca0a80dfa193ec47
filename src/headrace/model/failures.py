"""What went wrong with an item, and which failures are alike."""

from __future__ import annotations

import hashlib
import re
import traceback

import msgspec

LONGEST_TEXT = 10_000
LONGEST_TITLE = 200

# What differs between two occurrences of one error: ids, addresses, numbers, quoted values.
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|0x[0-9a-f]+|\b[0-9a-f]{16,}\b|'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?",
    re.IGNORECASE,
)

_CONTROL = re.compile(r"[\x00-\x1f]")


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as it is kept: its type, its message, and where it came from."""

    type: str = "Rejected"
    message: str = ""
    traceback: str = ""
    details: str | None = None

    @property
    def title(self) -> str:
        """The message without what differs from one occurrence to the next."""
        line = self.message.strip().partition("\n")[0]
        words = f"{self.type}: {_VARYING.sub('…', line)}" if line else self.type
        return _CONTROL.sub(" ", words)[:LONGEST_TITLE]

    @property
    def fingerprint(self) -> str:
        """Equal for failures that are alike."""
        return hashlib.blake2b(self.title.encode(), digest_size=6).hexdigest()


def encode_failure(failure: Failure) -> str:
    """A failure as it is stored."""
    return msgspec.json.encode(failure).decode()


def failure_of(error: BaseException | str) -> Failure:
    """A failure from what a handler raised, or from words."""
    if isinstance(error, str):
        return Failure(message=storable(error))
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return Failure(
        type=type(error).__qualname__,
        message=storable(str(error)),
        traceback=storable("".join(lines), keep="end"),
    )


def storable(text: str, *, keep: str = "start") -> str:
    """Any text at all, as databases can hold it, and not too long."""
    text = text.encode(errors="replace").decode().replace("\0", "\ufffd")
    if len(text) <= LONGEST_TEXT:
        return text
    return text[:LONGEST_TEXT] if keep == "start" else text[-LONGEST_TEXT:]
