"""Records as streams send them: encoded once, for all readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.contract.values import StoredPage
from headrace.errors import MalformedRecord
from headrace.model.topics.positions import record_id
from headrace.model.topics.records import StoredBatch

PIECE_BYTES = 32 * 1024
"""How much a stream sends at a time, if no single record is longer."""


class EncodedRecord(NamedTuple):
    """A record as the JSON of the API; ``id`` and ``json`` are UTF-8."""

    seq: int
    id: bytes
    json: bytes

    @property
    def event(self) -> bytes:
        """The record as an event of a stream of events."""
        return b"id: %b\ndata: %b\n\n" % (self.id, self.json)


class Piece(NamedTuple):
    """Events to be sent in one go, as the message for the server. ``next_seq`` comes behind them."""

    next_seq: int
    message: Mapping[str, Any]


def encoded_records(page: StoredPage) -> Iterator[EncodedRecord]:
    """The records of a page, in order."""
    for batch in page.batches:
        lines, beside = _lines(page.topic, batch)
        low = max(page.first - batch.base_seq, 0)
        for index in range(low, min(page.last - batch.base_seq + 1, batch.count)):
            seq = batch.base_seq + index
            id = record_id(batch.ts, seq).encode()
            headers = b"{}" if beside is None or beside[index] == b"null" else beside[index]
            json = b'{"id":"%b","body":%b,"headers":%b}' % (id, lines[index], headers)
            yield EncodedRecord(seq, id, json)


def _lines(topic: str, batch: StoredBatch) -> tuple[list[bytes], list[bytes] | None]:
    """The JSON of bodies and of headers. It is sent as it is stored, so only its form is checked."""
    lines = batch.body.split(b"\n")
    beside = None if batch.headers is None else batch.headers.split(b"\n")
    counts = {len(lines), len(lines if beside is None else beside)}
    if counts != {batch.count} or b"\r" in batch.body or b"\r" in (batch.headers or b""):
        raise MalformedRecord(
            f"the stored records {batch.base_seq} to {batch.last_seq} of topic {topic!r} are not "
            "what was committed: something else has changed the table, or the file is damaged.",
            topic=topic,
            seq=batch.base_seq,
        )
    return lines, beside


def pieces_of(records: Sequence[EncodedRecord]) -> list[Piece]:
    """Records as pieces of a stream of events."""
    return [
        Piece(
            part[-1].seq + 1,
            body_message(b"".join([record.event for record in part])),
        )
        for part in _parts(records)
    ]


def _parts(records: Iterable[EncodedRecord]) -> Iterator[list[EncodedRecord]]:
    part: list[EncodedRecord] = []
    size = 0
    for record in records:
        if part and size + len(record.json) > PIECE_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record.json)
    if part:
        yield part


def body_message(body: bytes) -> Mapping[str, Any]:
    """More of a response's body, for the server."""
    return {"type": "http.response.body", "body": body, "more_body": True}
