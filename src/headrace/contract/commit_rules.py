"""Rules about contract values that every driver follows."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from typing import TypeVar

import msgspec

from headrace.contract.items import PushCall
from headrace.contract.values import (
    AckAnswer,
    CommitCall,
    CommitPart,
    Committed,
    Page,
    Promised,
    RangeQuery,
    SeqSpan,
    StoredPage,
)
from headrace.model.codec import ROW_BYTES
from headrace.model.error_messages import claim_lost, unknown_proc, unknown_seq
from headrace.model.topics.positions import Position
from headrace.model.topics.procs import OutstandingClaim, ProcState
from headrace.model.topics.records import Batch, StoredBatch, TopicInfo

Call = TypeVar("Call", CommitCall, PushCall)


def page(
    topic: TopicInfo, low: int, high: int, batches: Sequence[Batch], query: RangeQuery
) -> Page:
    """Narrow ``low..high`` to what exists, to the limit, and to what the batches hold.

    ``batches`` are those a driver found for the range, in reading order, perhaps fewer.
    """
    ends = (query.end, query.start) if query.descending else (query.start, query.end)
    for end in ends:
        _check_exists(topic, end)
    low, high = max(low, topic.first_seq), min(high, topic.next_seq - 1)
    if high < low or not batches:
        return Page(topic, low, low - 1, low, low - 1, ())
    if query.descending:
        first = max(low, high - query.limit + 1, batches[-1].base_seq)
        return Page(topic, low, high, first, high, tuple(batches))
    last = min(high, low + query.limit - 1, batches[-1].last_seq)
    return Page(topic, low, high, low, last, tuple(batches))


def stored_page(
    topic: TopicInfo, low: int, high: int, limit: int, batches: Sequence[StoredBatch]
) -> StoredPage:
    """The records from ``low`` on, up to ``high``, to the limit, and to what the batches hold."""
    check_seq(topic.name, low, topic.first_seq, topic.next_seq)
    last = min(high, topic.next_seq - 1, low + limit - 1, batches[-1].last_seq)
    return StoredPage(topic.name, low, last, tuple(batches))


def _check_exists(topic: TopicInfo, end: Position) -> None:
    if end.is_seq:
        check_seq(topic.name, end.seq or 0, topic.first_seq, topic.next_seq)


def new_calls(calls: Sequence[Call], taken: Container[str | None]) -> list[Call]:
    """The calls that write: those without a key, and the first with each unused key."""
    first: dict[str | int, Call] = {}
    for call in calls:
        if call.key is None:
            first[id(call)] = call
        elif call.key not in taken:
            first.setdefault(call.key, call)
    return list(first.values())


def merged(parts: Sequence[CommitPart]) -> list[CommitPart]:
    """Neighbouring parts of a topic joined into rows of up to ``ROW_BYTES``.

    Parts keep their order within each topic; topics stand in the order of first mention.
    """
    rows: dict[str, list[list[CommitPart]]] = {}
    sizes: dict[str, int] = {}
    for part in parts:
        row = rows.setdefault(part.topic, [[]])
        size = sizes.get(part.topic, 0) + len(part.body)
        if row[-1] and size > ROW_BYTES:
            row.append([])
            size = len(part.body)
        row[-1].append(part)
        sizes[part.topic] = size
    return [_joined(some) for row in rows.values() for some in row]


def _joined(parts: Sequence[CommitPart]) -> CommitPart:
    if len(parts) == 1:
        return parts[0]
    headers = None
    if any(part.headers is not None for part in parts):
        headers = "\n".join(part.headers or "\n".join(["null"] * part.count) for part in parts)
    return CommitPart(
        parts[0].topic,
        sum(part.count for part in parts),
        "\n".join(part.body for part in parts),
        headers,
    )


def spans(parts: Sequence[CommitPart], next_seq: Mapping[str, int]) -> tuple[SeqSpan, ...]:
    """The spans of parts, one behind the other, from each topic's next seq on."""
    upcoming = dict(next_seq)
    places = []
    for part in parts:
        seq = upcoming[part.topic]
        upcoming[part.topic] = seq + part.count
        places.append(SeqSpan(part.topic, seq, part.count))
    return tuple(places)


def shares(
    calls: Sequence[CommitCall], written: Committed | Promised
) -> list[Committed | Promised]:
    """Each call's share of what was written for all of them; a promise is to one call only."""
    if isinstance(written, Promised):
        [_] = calls
        return [written]
    found: list[Committed | Promised] = []
    taken = 0
    for call in calls:
        mine = written.spans[taken : taken + len(call.parts)]
        taken += len(mine)
        found.append(Committed(written.ts, mine, written.ahead_ms) if mine else Committed(0, ()))
    return found


def check_seq(topic: str, seq: int, first_seq: int, next_seq: int) -> None:
    """Raise ``UnknownSeq`` unless the topic has that record."""
    if not first_seq <= seq < next_seq:
        raise unknown_seq(topic, seq, first_seq, next_seq)


def check_token(name: str, claim: OutstandingClaim | None, token: str | None) -> OutstandingClaim:
    """The outstanding claim, if ``token`` is its own (or None, which matches any)."""
    if claim is None or (token is not None and claim.token != token):
        raise claim_lost(name)
    return claim


def check_known(wanted: Sequence[str], found: Sequence[str]) -> None:
    """Raise ``UnknownProc`` for the first name that was not found."""
    for name in wanted:
        if name not in found:
            raise unknown_proc(name)


def meant(wanted: Sequence[str], owned: Sequence[tuple[str, str]]) -> list[str]:
    """Names of procs for names of procs and pipelines, given (pipeline, proc) of the latter."""
    found = []
    for name in wanted:
        mine = [proc for pipeline, proc in owned if pipeline == name]
        found += mine or [name]
    return list(dict.fromkeys(found))


def ack_outcome(digest: str | None, result: AckAnswer) -> str:
    """What a proc remembers of its last ack, to answer a repeat of it."""
    return msgspec.json.encode((digest, result)).decode()


def digest_of(calls: Sequence[PushCall]) -> str:
    """A digest that distinguishes one push from another."""
    return hashlib.blake2b(msgspec.json.encode(calls), digest_size=16).hexdigest()


def repeated_ack(state: ProcState, token: str, digest: str | None) -> AckAnswer:
    """The first answer, if this repeats the last ack; else ``ClaimLost``."""
    if state.last_ack is not None and state.last_acked_token == token:
        before, result = msgspec.json.decode(state.last_ack, type=tuple[str | None, AckAnswer])
        if before == digest:
            return result
    raise claim_lost(state.name)
