"""Items as handlers see them: the one place that turns what is stored into what is given.

And the other way round: what handlers and tasks say, as the store holds it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY, encode_body, encode_headers
from headrace.model.failures import Failure
from headrace.model.items import BYTES, JSON, Document, ItemState, Overrides
from headrace.model.letters import failure_in

Wait = timedelta | float
LONGEST = 10**9

_decode = msgspec.json.Decoder().decode
_NO_HEADERS: Mapping[str, str] = {}


class Item:
    """An item that this worker has claimed.

    ``payload`` is decoded when it is first looked at. ``attempts`` counts this time, ``crashes``
    how often a worker died over it, ``iterations`` how often it was settled.
    """

    __slots__ = ("_payload", "_state")

    def __init__(self, state: ItemState) -> None:
        self._state = state

    @property
    def payload(self) -> Any:
        """What was pushed: a JSON value, or bytes."""
        try:
            return self._payload
        except AttributeError:
            self._payload: Any = decoded(self._state.payload, self._state.format)
            return self._payload

    @property
    def id(self) -> int:
        return self._state.id

    @property
    def queue(self) -> str:
        return self._state.queue

    @property
    def subject(self) -> str | None:
        return self._state.subject

    @property
    def priority(self) -> int:
        return self._state.priority

    @property
    def headers(self) -> Mapping[str, str]:
        text = self._state.headers
        return _NO_HEADERS if text is None else _decode(text) or _NO_HEADERS

    @property
    def attempts(self) -> int:
        return self._state.attempts

    @property
    def crashes(self) -> int:
        return self._state.crashes

    @property
    def iterations(self) -> int:
        return self._state.iterations

    @property
    def token(self) -> str:
        return self._state.token or ""

    @property
    def deadline(self) -> datetime | None:
        """When the claim ends unless it is extended, as its worker does."""
        until = self._state.lease_until
        return None if until is None else datetime.fromtimestamp(until / 1000, UTC)

    @property
    def created(self) -> datetime:
        return datetime.fromtimestamp(self._state.created_at / 1000, UTC)

    @property
    def last_error(self) -> Failure | None:
        """Why it failed the last time."""
        return failure_in(self._state)

    def __repr__(self) -> str:
        subject = f" {self.subject!r}" if self.subject is not None else ""
        return f"<Item {self.id}{subject} of {self.queue!r}, attempt {self.attempts}>"


item_of = Item


def decoded(payload: str, format: int) -> Any:
    """A payload as it was pushed."""
    return base64.b64decode(payload) if format == BYTES else _decode(payload)


def encoded(payload: Any, *, max_body: int = DEFAULT_MAX_BODY) -> tuple[str, int]:
    """A payload as it is stored: JSON that comes back as it was, or bytes."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return base64.b64encode(payload).decode(), BYTES
    if isinstance(payload, dict | list):
        return encode_body(payload, max_body=max_body), JSON
    # The codec takes objects and lists; any other value is the only element of one.
    return encode_body([payload], max_body=max_body + 2)[1:-1], JSON


def document(
    payload: Any,
    *,
    subject: str | None = None,
    priority: int = 0,
    at: datetime | None = None,
    delay: Wait | None = None,
    headers: Mapping[str, str] | None = None,
    overrides: Overrides | None = None,
    max_body: int = DEFAULT_MAX_BODY,
) -> Document:
    """What somebody pushes, checked and encoded."""
    text, format = encoded(payload, max_body=max_body)
    due, wait = when(at, delay)
    return Document(
        payload=text,
        format=format,
        subject=subject,
        priority=priority,
        due=due,
        delay=wait,
        headers=encode_headers(headers) if headers else None,
        overrides=msgspec.json.encode(overrides).decode() if overrides else None,
    )


def when(at: datetime | None, delay: Wait | None) -> tuple[int | None, int | None]:
    """A time, or a wait from now, in milliseconds."""
    if at is not None and delay is not None:
        raise InvalidOption("at and delay exclude each other: give one of them.", option="at")
    if at is not None:
        if not isinstance(at, datetime) or at.tzinfo is None:
            raise InvalidOption(
                f"at is {at!r}: use a datetime with a time zone, as datetime.now(UTC) has.",
                option="at",
            )
        return round(at.timestamp() * 1000), None
    return None, None if delay is None else wait_ms("delay", delay)


def wait_ms(option: str, wait: object) -> int:
    """A wait (a timedelta, or seconds), zero included, in milliseconds."""
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and 0 <= cast(float, seconds) <= LONGEST:
        return round(cast(float, seconds) * 1000)
    raise InvalidOption(
        f"{option} is {wait!r}: use a timedelta or seconds from 0 on.", option=option
    )
