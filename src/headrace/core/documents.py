"""Documents as users write them, checked and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict

import msgspec

from headrace.core.commits import Headers
from headrace.errors import InvalidBody, InvalidOption
from headrace.model.checks import each
from headrace.model.codec import encode_bodies, encode_bytes, encode_headers, encode_value
from headrace.model.fields import shown, suggestion
from headrace.model.query.key_values import KeyValues
from headrace.model.queues.items import BYTES, JSON, Document, Overrides
from headrace.model.queues.settings import NO_LIMIT, RetryPosition, WhileActive
from headrace.model.times import Duration, Moment, delay_ms, duration_ms, moment_ms

MAX_SUBJECT_LENGTH = 500
MAX_PRIORITY = 2**31 - 1

Mode = Literal["push", "upsert"]
Channel = Mapping[str, Any]


class ItemOptions(TypedDict, total=False):
    """Options of a document."""

    subject: str | None
    priority: int
    at: Moment | None
    delay: Duration | None
    headers: Headers | None
    max_attempts: int | None
    retry_position: RetryPosition | None
    updateable: bool | None
    lease: Duration | None
    channel: Channel | None


class SharedItemOptions(TypedDict, total=False):
    """Options for all documents of one call: all but the subject."""

    priority: int
    at: Moment | None
    delay: Duration | None
    headers: Headers | None
    max_attempts: int | None
    retry_position: RetryPosition | None
    updateable: bool | None
    lease: Duration | None
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
    lease: Duration | None = None
    channel: Channel | None = None


OPTIONS = _Described.__struct_fields__


class Doc(_Described, frozen=True):
    """A document for ``push_many`` and ``upsert_many``: a payload and its options.

    >>> hr.push_many("mail", [Doc({"to": "ann"}, subject="ann"), Doc({"to": "bob"}, priority=5)])
    """

    payload: Any


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


def encoded(documents: object, fields: SharedItemOptions, *, max_body: int) -> tuple[Document, ...]:
    """Check and encode many documents; ``fields`` apply to those that are plain payloads."""
    if isinstance(documents, (Mapping, str, bytes, Doc)) or not isinstance(documents, Iterable):
        raise InvalidBody("this takes a list of documents; for one use push or upsert.", path="$")
    given = list(documents)
    like = document(with_options(None, fields), max_body=max_body)
    if all(type(one) is dict for one in given):
        lines = encode_bodies(given, max_body=max_body)
        if not fields:
            return tuple([Document(payload=line) for line in lines])
        return tuple([msgspec.structs.replace(like, payload=line) for line in lines])

    def read(one: Any) -> Document:
        if isinstance(one, Doc):
            return document(one, max_body=max_body)
        text, form = payload_text(one, "$", max_body=max_body)
        return msgspec.structs.replace(like, payload=text, format=form)

    return tuple(each(given, read))


def with_options(payload: Any, fields: ItemOptions | SharedItemOptions) -> Doc:
    """A document with options; ``TypeError`` for an option that there is not."""
    try:
        return Doc(payload, **fields)
    except TypeError:
        for name in fields:
            if name not in OPTIONS:
                hint = suggestion(name, OPTIONS)
                raise TypeError(f"an item has no option {shown(name)}: {hint}") from None
        raise


def doc_of(fields: object) -> Doc:
    """A document from a mapping of its fields; without a payload it has an empty one."""
    if not isinstance(fields, Mapping):
        raise InvalidBody(f"{shown(fields)} is not a document.", path="$")
    for name in fields:
        if name not in Doc.__struct_fields__:
            known = ", ".join(sorted(Doc.__struct_fields__))
            raise InvalidBody(
                f"a document has no field {shown(name)}: it has {known}.", path=f"$.{name}"
            )
    return Doc(**{"payload": {}, **fields})


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
        delay=None if doc.delay is None else delay_ms("delay", doc.delay),
        headers=headers,
        overrides=_overrides(doc),
        key_values=None if doc.channel is None else KeyValues.of(doc.channel, "channel").form,
    )


def payload_text(payload: Any, path: str = "$", *, max_body: int) -> tuple[str, int]:
    """A payload as it is stored: its text and its format."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return encode_bytes(bytes(payload), path, max_body=max_body), BYTES
    return encode_value(payload, path, max_body=max_body), JSON


def check_subject(subject: object, path: str = "$") -> str:
    """A subject is short text without control characters; databases compare it unchanged."""
    is_short = isinstance(subject, str) and 0 < len(subject) <= MAX_SUBJECT_LENGTH
    if is_short and isinstance(subject, str) and min(subject) >= " " and _is_unicode(subject):
        return subject
    raise InvalidBody(
        f"{shown(subject)} cannot be a subject: use 1 to {MAX_SUBJECT_LENGTH} characters, none of "
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
    if is_whole and isinstance(priority, int) and -MAX_PRIORITY - 1 <= priority <= MAX_PRIORITY:
        return priority
    raise InvalidOption(
        f"priority is {shown(priority)}: use a whole number of 32 bits.", option="priority"
    )


def _overrides(doc: Doc | Push) -> str | None:
    limit, where, updateable = doc.max_attempts, doc.retry_position, doc.updateable
    lease = None if doc.lease is None else duration_ms("lease", doc.lease, least=1)
    if limit is None and where is None and updateable is None and lease is None:
        return None
    if limit is not None and (type(limit) is not int or (limit < 1 and limit != NO_LIMIT)):
        raise InvalidOption(
            f"max_attempts is {shown(limit)}: use 1 or more, or -1 for no limit.",
            option="max_attempts",
        )
    if where not in (None, "back", "front"):
        raise InvalidOption(
            f"retry_position is {shown(where)}: use back or front.", option="retry_position"
        )
    if updateable is not None and not isinstance(updateable, bool):
        raise InvalidOption(
            f"updateable is {shown(updateable)}: use True or False.", option="updateable"
        )
    overrides = Overrides(
        max_attempts=limit,
        retry_position=where,
        updateable=updateable,
        lease=None if lease is None else lease / 1000,
    )
    return msgspec.json.encode(overrides).decode()
