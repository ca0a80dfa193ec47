"""Commit requests: from entries to a ``CommitCall``, and from its outcome to record ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    CommitPart,
    Committed,
    KeyConflict,
    Promised,
)
from headrace.errors import InvalidBody, InvalidOption, KeyReused
from headrace.model.checks import each
from headrace.model.codec import encode_bodies, encode_body, encode_headers, encode_rows, pack
from headrace.model.fields import shown
from headrace.model.names import writable_topic
from headrace.model.topics.positions import record_id

Headers = Mapping[str, str]
Entry = tuple[str, Any] | tuple[str, Any, Headers | None]
"""One record to commit: (topic, body) or (topic, body, headers)."""

MAX_KEY_LENGTH = 500


class Prepared(msgspec.Struct, frozen=True):
    """A checked and encoded call, and the topic of each record in the user's order."""

    call: CommitCall
    topics: Sequence[str]

    def ids(self, outcome: CommitOutcome) -> list[str]:
        """The ids of the records, in the order in which they were given."""
        assert not isinstance(outcome, Promised), "numbers come at COMMIT"
        if isinstance(outcome, KeyConflict):
            raise KeyReused(
                f"key {shown(outcome.key)} was used before with other content: nothing was written; "
                "a key belongs to one commit, so choose another one.",
                key=outcome.key,
            )
        return ids_of(outcome, self.topics)


def ids_of(committed: Committed, topics: Sequence[str]) -> list[str]:
    """The ids of records whose topics are given in the order in which they were committed."""
    if len({span.topic for span in committed.spans}) == 1:
        return committed.ids()
    seqs: dict[str, list[int]] = {}
    for span in committed.spans:
        numbers = range(span.first_seq, span.first_seq + span.count)
        seqs.setdefault(span.topic, []).extend(numbers)
    upcoming = {topic: iter(numbers) for topic, numbers in seqs.items()}
    return [record_id(committed.ts, next(upcoming[topic])) for topic in topics]


def prepare(
    entries: Sequence[Entry],
    *,
    headers: Headers | None = None,
    key: str | None = None,
    max_body: int,
    with_digest: bool = False,
) -> Prepared:
    """Check and encode entries: all names before all bodies, and nothing written on error.

    ``headers`` go with every entry that has none of its own.
    """
    check_key(key)
    topics = each(entries, _topic)
    lines = encode_bodies([entry[1] for entry in entries], max_body=max_body)
    default = encode_headers(headers)
    beside = each(entries, lambda entry: _headers(entry, default))
    parts = tuple(_parts(topics, lines, beside))
    digest = digest_of(parts) if key is not None or with_digest else None
    return Prepared(CommitCall(parts=parts, key=key, digest=digest), topics)


def prepare_one(
    topic: object, body: Any, headers: Headers | None, key: str | None, *, max_body: int
) -> Prepared:
    """``prepare`` for a single record."""
    if key is not None:
        return prepare([(topic, body)], headers=headers, key=key, max_body=max_body)  # type: ignore[list-item]  # the topic is checked there
    name = writable_topic(topic)
    line = encode_body(body, max_body=max_body)
    part = CommitPart(name, 1, line, encode_headers(headers) if headers else None)
    return Prepared(CommitCall(parts=(part,)), (name,))


def prepare_many(
    topic: str, bodies: list[Any], headers: Headers | None, key: str | None, *, max_body: int
) -> Prepared:
    """``prepare`` for records of one topic, whose name is known to be good."""
    if headers:
        entries: list[Entry] = [(topic, body) for body in bodies]
        return prepare(entries, headers=headers, key=key, max_body=max_body)
    check_key(key)
    rows = encode_rows(bodies, max_body=max_body)
    parts = tuple([CommitPart(topic, *row) for row in rows])
    digest = digest_of(parts) if key is not None else None
    return Prepared(CommitCall(parts=parts, key=key, digest=digest), [topic] * len(bodies))


def _parts(
    topics: Sequence[str], lines: Sequence[str], beside: Sequence[str]
) -> Iterator[CommitPart]:
    for topic in dict.fromkeys(topics):
        mine = [index for index, name in enumerate(topics) if name == topic]
        is_alone = len(mine) == len(topics)
        rows = pack(
            lines if is_alone else [lines[index] for index in mine],
            beside if is_alone else [beside[index] for index in mine],
        )
        for count, body, headers in rows:
            yield CommitPart(topic, count, body, headers)


def _headers(entry: Entry, default: str) -> str:
    return encode_headers(entry[2]) if len(entry) == 3 and entry[2] is not None else default


def _topic(entry: object) -> str:
    if not isinstance(entry, tuple) or len(entry) not in (2, 3):
        raise InvalidBody(
            f"{shown(entry)} is not an entry: commit a list of (topic, body) or "
            "(topic, body, headers), or one topic and one body.",
            path="$",
        )
    return writable_topic(entry[0])


def check_key(key: object) -> None:
    if key is None:
        return
    is_text = isinstance(key, str) and key.isprintable() and 0 < len(key) <= MAX_KEY_LENGTH
    if not is_text:
        raise InvalidOption(
            f"key is {shown(key)}: use 1 to {MAX_KEY_LENGTH} printable characters.", option="key"
        )


def digest_of(parts: Sequence[CommitPart]) -> str:
    """The digest of a call's content."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        for text in (part.topic, part.body, part.headers or ""):
            digest.update(text.encode())
            digest.update(b"\0")
    return digest.hexdigest()
