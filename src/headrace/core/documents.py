"""Documents as users write them, checked and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from headrace.core.commits import Headers
from headrace.core.times import Duration, Moment, duration_ms, is_duration, moment_ms
from headrace.errors import InvalidBody, InvalidOption
from headrace.model.codec import encode_bodies, encode_bytes, encode_headers, encode_value
from headrace.model.items import BYTES, JSON, Document, Overrides
from headrace.model.keyvalues import KeyValues
from headrace.model.queues import NO_LIMIT, RetryPosition, WhileActive

LONGEST_SUBJECT = 500
HIGHEST_PRIORITY = 2**31 - 1

Mode = Literal["push", "upsert"]
Channel = Mapping[str, Any]


class Fields(TypedDict, total=False):
    """What can be said of a document beside its payload."""

    subject: str | None
    priority: int
    at: Moment | None
    delay: Duration | None
    headers: Headers | None
    max_attempts: int | None
    retry_position: RetryPosition | None
    updateable: bool | None
    timeout: Duration | None
    channel: Channel | None


class SharedFields(TypedDict, total=False):
    """What can be said of many documents at once: all but the subject."""

    priority: int
    at: Moment | None
    delay: Duration | None
    headers: Headers | None
    max_attempts: int | None
    retry_position: RetryPosition | None
    updateable: bool | None
    timeout: Duration | None
    channel: Channel | None


class _Described(msgspec.Struct, frozen=True, kw_only=True):
    subject: str | None = None
    priority: int = 0
    at: Moment | None = None
    delay: Duration | None = None
    headers: Mapping[str, str] | None = None
    max_attempts: int | None = None
    retry_position: RetryPosition | None = None
    updateable: bool | None = None
    timeout: Duration | None = None
    channel: Channel | None = None


class Doc(_Described, frozen=True):
    """A document for ``push_many`` and ``upsert_many``: a payload, and what is said of it.

    >>> hr.push_many("mail", [Doc({"to": "ann"}, subject="ann"), Doc({"to": "bob"}, priority=5)])
    """

    payload: Any

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Doc:
        """A document in FetchQ's form: ``{"subject", "payload", "priority", "nextExecution"}``.

        ``nextExecution`` (or ``next_execution``) is a moment, or a wait like ``"+5m"``. The
        other fields have the names they have here. Anything else is refused.
        """
        if not isinstance(document, Mapping):
            raise InvalidBody(f"{document!r:.80} is not a document in FetchQ's form.", path="$")
        fields = {_NAMES.get(name, name): value for name, value in document.items()}
        for name in document:
            if _NAMES.get(name, name) not in _KNOWN:
                raise InvalidBody(
                    f"a document has no field {name!r}: it has {', '.join(sorted(_KNOWN))}.",
                    path=f"$.{name}",
                )
        when = fields.pop("nextExecution", None)
        if when is not None:
            fields["delay" if is_duration(when) else "at"] = when
        return cls(**{"payload": {}, **fields})


_NAMES = {
    "next_execution": "nextExecution",
    "maxAttempts": "max_attempts",
    "retryPosition": "retry_position",
}
_KNOWN = {*Doc.__struct_fields__, "nextExecution"}


class _Pushing(_Described, frozen=True, kw_only=True):
    mode: Mode = "push"
    while_active: WhileActive | None = None


class Push(_Pushing, frozen=True):
    """A document that is pushed together with the outcome of an item: see ``then``."""

    queue: str
    payload: Any


class Commit(msgspec.Struct, frozen=True):
    """A record that is committed together with the outcome of an item: see ``then``."""

    topic: str
    body: Any
    headers: Mapping[str, str] | None = None


def encoded(documents: object, fields: SharedFields, *, max_body: int) -> tuple[Document, ...]:
    """Check and encode many documents; ``fields`` go with those that are mere payloads."""
    if isinstance(documents, (Mapping, str, bytes, Doc)) or not isinstance(documents, Iterable):
        raise InvalidBody("this takes a list of documents; for one use push or upsert.", path="$")
    given = list(documents)
    like = document(Doc(None, **fields), max_body=max_body)
    if all(type(one) is dict for one in given):
        lines = encode_bodies(given, max_body=max_body)
        if not fields:
            return tuple([Document(payload=line) for line in lines])
        return tuple([msgspec.structs.replace(like, payload=line) for line in lines])
    found = []
    for index, one in enumerate(given):
        path = f"$[{index}]"
        if isinstance(one, Doc):
            found.append(document(one, path, max_body=max_body))
        else:
            text, form = payload_text(one, path, max_body=max_body)
            found.append(msgspec.structs.replace(like, payload=text, format=form))
    return tuple(found)


def document(doc: Doc | Push, path: str = "$", *, max_body: int) -> Document:
    """Check and encode one document."""
    text, form = payload_text(doc.payload, path, max_body=max_body)
    if doc.at is not None and doc.delay is not None:
        raise InvalidOption(
            f"{path} has both at and delay: an item becomes due once, so give one.", option="at"
        )
    headers = encode_headers(doc.headers) if doc.headers else None
    return Document(
        payload=text,
        format=form,
        subject=None if doc.subject is None else check_subject(doc.subject, path),
        priority=check_priority(doc.priority),
        due=None if doc.at is None else moment_ms("at", doc.at),
        delay=None if doc.delay is None else duration_ms("delay", doc.delay),
        headers=headers,
        overrides=_overrides(doc),
        key_values=None if doc.channel is None else KeyValues.of(doc.channel, "channel").form,
    )


def payload_text(payload: Any, path: str = "$", *, max_body: int) -> tuple[str, int]:
    """A payload as it is stored: the text, and which form it has."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return encode_bytes(bytes(payload), path, max_body=max_body), BYTES
    return encode_value(payload, path, max_body=max_body), JSON


def check_subject(subject: object, path: str = "$") -> str:
    """A subject is short text without control characters: databases compare it as it is."""
    is_short = isinstance(subject, str) and 0 < len(subject) <= LONGEST_SUBJECT
    if is_short and isinstance(subject, str) and min(subject) >= " " and _is_unicode(subject):
        return subject
    raise InvalidBody(
        f"{subject!r:.80} cannot be a subject: use 1 to {LONGEST_SUBJECT} characters, none of "
        "them below U+0020.",
        path=f"{path}.subject",
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_priority(priority: object) -> int:
    """A whole number of 32 bits."""
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if (
        is_whole
        and isinstance(priority, int)
        and -HIGHEST_PRIORITY - 1 <= priority <= HIGHEST_PRIORITY
    ):
        return priority
    raise InvalidOption(
        f"priority is {priority!r}: use a whole number of 32 bits.", option="priority"
    )


def _overrides(doc: Doc | Push) -> str | None:
    most, where, updateable = doc.max_attempts, doc.retry_position, doc.updateable
    timeout = None if doc.timeout is None else duration_ms("timeout", doc.timeout, least=1)
    if most is None and where is None and updateable is None and timeout is None:
        return None
    if most is not None and (type(most) is not int or (most < 1 and most != NO_LIMIT)):
        raise InvalidOption(
            f"max_attempts is {most!r}: use 1 or more, or -1 for no limit.", option="max_attempts"
        )
    if where not in (None, "back", "front"):
        raise InvalidOption(
            f"retry_position is {where!r}: use back or front.", option="retry_position"
        )
    if updateable is not None and not isinstance(updateable, bool):
        raise InvalidOption(
            f"updateable is {updateable!r}: use True or False.", option="updateable"
        )
    overrides = Overrides(
        max_attempts=most,
        retry_position=where,
        updateable=updateable,
        timeout=None if timeout is None else timeout / 1000,
    )
    return msgspec.json.encode(overrides).decode()
