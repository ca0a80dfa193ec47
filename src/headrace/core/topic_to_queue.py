"""Copying a topic's records to a queue: options, documents, names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.contract.items import PushCall
from headrace.core.documents import Doc, document
from headrace.core.pushes import push_call
from headrace.errors import InvalidOption
from headrace.model.failures import text_of
from headrace.model.fields import shown
from headrace.model.names import check_proc, check_topic, proc_name, writable_proc, writable_queue
from headrace.model.topics.positions import parse_end
from headrace.model.topics.records import Record

Subject = str | Callable[[Record], str | None] | None
Payload = Callable[[Record], Any] | None

TOPIC_HEADER = "headrace-topic"
RECORD_HEADER = "headrace-record"


class FailedRecord(Exception):
    """A record that cannot be turned into a document."""

    def __init__(self, record: Record, error: Exception) -> None:
        super().__init__(f"record {record.id} of topic {shown(record.topic)}: {text_of(error)}")
        self.record = record
        self.error = error


class Follow(msgspec.Struct, frozen=True, kw_only=True):
    """From a topic to a queue: under which name, and how a record becomes a document.

    ``subject`` is the name of a field of the body, or a function of the record.
    """

    name: str
    topic: str
    queue: str
    subject: Any = None
    payload: Any = None
    priority: int = 0
    max_body: int

    def call(self, records: Sequence[Record]) -> PushCall:
        """The push of some records; ``FailedRecord`` names one that cannot be pushed."""
        return push_call(self.queue, tuple(self._document(record) for record in records))

    def _document(self, record: Record) -> Any:
        origin = {TOPIC_HEADER: record.topic, RECORD_HEADER: record.id}
        try:
            doc = Doc(
                record.body if self.payload is None else self.payload(record),
                subject=self._subject_of(record),
                priority=self.priority,
                headers={**record.headers, **origin},
            )
            return document(doc, max_body=self.max_body)
        except Exception as error:
            raise FailedRecord(record, error) from error

    def _subject_of(self, record: Record) -> str | None:
        if self.subject is None:
            return None
        if callable(self.subject):
            found = self.subject(record)
        else:
            found = record.body[self.subject]
        return found if found is None else str(found)


def follow(
    topic: str,
    queue: str,
    *,
    name: str | None,
    subject: Subject,
    payload: Payload,
    priority: int,
    max_body: int,
) -> Follow:
    """Check the options of a follower."""
    check_topic(topic)
    writable_queue(queue)
    if subject is not None and not isinstance(subject, str) and not callable(subject):
        raise InvalidOption(
            f"subject is {shown(subject)}: name a field of the body, or give a function of the record.",
            option="subject",
        )
    return Follow(
        name=writable_proc(proc_name(topic, "to", queue) if name is None else name),
        topic=topic,
        queue=queue,
        subject=subject,
        payload=payload,
        priority=priority,
        max_body=max_body,
    )


def replay_name(topic: str, queue: str, ends: tuple[str | None, str | None]) -> str:
    """A name for a replay that has none: the same for the same topic, queue and range."""
    for end in ends:
        if end is not None:
            parse_end(end)
    identity = msgspec.json.encode((topic, queue, ends))
    return proc_name(topic, queue, hashlib.blake2b(identity, digest_size=4).hexdigest())


def replay_proc(name: str, low: int, high: int) -> str:
    """The proc of a replay; its name says which records are its own."""
    return check_proc(f"replay-{name}-{low}-{high}")


def replay_range(proc: str, name: str) -> tuple[int, int] | None:
    """The first and last record of a replay, if the proc is its own."""
    found = re.fullmatch(rf"replay-{re.escape(name)}-(\d+)-(\d+)", proc)
    return (int(found[1]), int(found[2])) if found else None
