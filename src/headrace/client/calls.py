"""What every client method asks of the store: built once for blocking and async clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headrace.client.clock_watch import heed_clock
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.contract.values import (
    AckResult,
    ClaimResult,
    CommitOutcome,
    Finding,
    Page,
    ProcSpec,
)
from headrace.core.commits import Entry, Headers, prepare
from headrace.core.scans import Scan
from headrace.errors import InvalidBody, InvalidOption
from headrace.model import procs as rules
from headrace.model import refusals
from headrace.model.checks import milliseconds, positive
from headrace.model.codec import records
from headrace.model.names import check_proc, check_topic
from headrace.model.position import FROM_START, check_offset
from headrace.model.procs import Lag, ProcChanges, ProcInfo
from headrace.model.record import Record, TopicInfo
from headrace.model.tokens import claim_token

T = TypeVar("T")
Timeout = timedelta | float | None

CLAIM_BYTES = 8 * 1024 * 1024
MOST_TOPICS = 1000


class Acked(msgspec.Struct, frozen=True):
    """What ``ack_commit`` did: the acknowledged range, and the ids of the new records."""

    range: str
    ids: list[str]


class Taken(msgspec.Struct, frozen=True):
    """Records that a proc handed out, before a client wraps them."""

    proc: str
    token: str
    records: list[Record]
    deadline: datetime | None


class Call(NamedTuple, Generic[T]):
    """An operation for the store, and what to make of its answer afterwards."""

    op: Op[Any]
    finish: Callable[[Any], T]


class Calls:
    """Checks arguments and builds operations; raises before anything is sent."""

    def __init__(self, store: Store, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body

    def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any,
        headers: Headers | None,
        key: str | None,
    ) -> Call[Any]:
        if isinstance(topic, str):
            call = self.commit_entries([(topic, body)], headers, key)
            return Call(call.op, lambda outcomes: call.finish(outcomes)[0])
        if body is not None:
            raise InvalidBody(
                "commit takes one topic and one body, or one list of (topic, body).", path="$"
            )
        return self.commit_entries(_listed(topic), headers, key)

    def commit_many(
        self, topic: str, bodies: Iterable[Any], headers: Headers | None, key: str | None
    ) -> Call[list[str]]:
        check_topic(topic)
        if isinstance(bodies, (dict, str, bytes)):
            raise InvalidBody(
                "commit_many takes a list of bodies; for one body use commit.", path="$"
            )
        return self.commit_entries([(topic, body) for body in bodies], headers, key)

    def commit_entries(
        self, entries: Sequence[Entry], headers: Headers | None, key: str | None
    ) -> Call[list[str]]:
        prepared = prepare(entries, headers=headers, key=key, max_body=self.max_body)

        def finish(outcomes: list[CommitOutcome]) -> list[str]:
            heed_clock(outcomes[0])
            return prepared.ids(outcomes[0])

        return Call(self.store.commit([prepared.call]), finish)

    def scan(
        self,
        topic: str,
        start: str | None,
        end: str | None,
        exclusive: bool,
        limit: int | None,
        descending: bool,
    ) -> Scan:
        return Scan(
            check_topic(topic),
            start=start,
            end=end,
            exclusive=exclusive,
            limit=limit,
            descending=descending,
        )

    def read(self, scan: Scan) -> Call[list[Record]]:
        assert scan.query is not None

        def finish(page: Page) -> list[Record]:
            return scan.take(page)

        return Call(self.store.read(scan.query), finish)

    def length(self, topic: str) -> Call[int]:
        return Call(self.store.topic_info(check_topic(topic)), lambda info: info.length)

    def topic_info(self, topic: str) -> Call[TopicInfo]:
        return Call(self.store.topic_info(check_topic(topic)), _same)

    def topics(self, prefix: str, after: str, limit: int) -> Call[list[TopicInfo]]:
        return Call(self.store.topics(prefix, after, positive("limit", limit)), _same)

    def proc(
        self, name: str, topic: str | None, offset: str | None, changes: ProcChanges
    ) -> Call[ProcInfo]:
        check_proc(name)
        if topic is None:
            if offset is not None:
                raise InvalidOption(
                    f"proc {name!r} has an offset but no topic: name the topic, or leave both "
                    "out to refer to an existing proc.",
                    option="topic",
                )
            if changes == ProcChanges():
                return Call(self.store.inspect(name), _same)
            return Call(self.store.update_proc(name, changes), _same)
        spec = ProcSpec(
            name=name,
            topic=check_topic(topic),
            offset=FROM_START if offset is None else check_offset(offset),
        )
        return Call(self.store.create_proc(spec, changes), _same)

    def procs(self, topic: str | None) -> Call[list[ProcInfo]]:
        return Call(self.store.procs(None if topic is None else check_topic(topic)), _same)

    def claim(self, proc: str, count: int) -> Call[Taken | None]:
        token = claim_token()
        op = self.store.claim(proc, token, positive("count", count), CLAIM_BYTES)
        return Call(op, lambda result: _taken(result, token))

    def available_proc(self, procs: Iterable[object], count: int) -> Call[Taken | None]:
        names = [check_proc(getattr(proc, "name", proc)) for proc in procs]
        token = claim_token()
        op = self.store.claim_any(names, token, positive("count", count), CLAIM_BYTES)
        return Call(op, lambda result: _taken(result, token))

    def extend(self, proc: str, token: str) -> Call[datetime | None]:
        return Call(self.store.extend(proc, _token(token)), _moment)

    def ack(self, proc: str, token: str) -> Call[str]:
        return Call(self.store.ack(proc, _token(token)), lambda result: result.range)

    def ack_commit(
        self, proc: str, token: str, entries: Sequence[Entry], headers: Headers | None
    ) -> Call[Acked]:
        prepared = prepare(
            _listed(entries), headers=headers, max_body=self.max_body, with_digest=True
        )

        def finish(result: AckResult) -> Acked:
            assert result.committed is not None
            heed_clock(result.committed)
            return Acked(result.range, prepared.ids(result.committed))

        return Call(self.store.ack_commit(proc, _token(token), prepared.call), finish)

    def reclaim(
        self, proc: str, token: str | None, failed: Record | None, error: str | None
    ) -> Call[str]:
        if token is not None:
            _token(token)
        failed_seq = None if failed is None else failed.seq
        text = None if error is None else _storable(str(error))
        return Call(self.store.reclaim(proc, token, failed_seq, text), _same)

    def inspect(self, proc: str) -> Call[ProcInfo]:
        return Call(self.store.inspect(proc), _same)

    def disable(self, proc: str) -> Call[ProcInfo]:
        return Call(self.store.disable(proc), _same)

    def resume(self, proc: str) -> Call[ProcInfo]:
        return Call(self.store.resume(proc), _same)

    def destroy(self, proc: str) -> Call[ProcInfo]:
        return Call(self.store.destroy(proc), _same)

    def seek(self, proc: str, offset: str) -> Call[ProcInfo]:
        return Call(self.store.seek(proc, check_offset(offset)), _same)

    def update(self, proc: str, changes: ProcChanges) -> Call[ProcInfo]:
        return Call(self.store.update_proc(proc, changes), _same)

    def lag(self, proc: str) -> Call[Lag]:
        return Call(self.store.lag(proc), _same)

    def diagnose(self, deep: bool) -> Call[list[Finding]]:
        return Call(self.store.diagnose(deep), _same)

    def pending(self, procs: object) -> Call[list[str]]:
        if procs is None:
            return Call(self.store.pending(None), _same)
        some = (
            list(procs) if isinstance(procs, Iterable) and not isinstance(procs, str) else [procs]
        )
        names = [check_proc(getattr(proc, "name", proc)) for proc in some]
        return Call(self.store.pending(names), _same)


def changes(
    max_reclaims: int | UnsetType,
    reclaim_timeout: Timeout | UnsetType,
    on_max_reclaims_reached: rules.Strategy | UnsetType,
) -> ProcChanges:
    """Settings as users give them."""
    timeout: int | UnsetType | None = UNSET
    if reclaim_timeout is not UNSET:
        timeout = milliseconds("reclaim_timeout", reclaim_timeout)
    return rules.changes(
        max_reclaims=max_reclaims,
        reclaim_timeout_ms=timeout,
        on_max_reclaims_reached=on_max_reclaims_reached,
    )


def _same(value: Any) -> Any:
    return value


def _listed(entries: object) -> Sequence[Entry]:
    if isinstance(entries, (list, tuple)) and not (entries and isinstance(entries[0], str)):
        return entries
    raise InvalidBody(
        f"{entries!r:.80} is not a list of entries: give [(topic, body), ...].", path="$"
    )


def _storable(text: str) -> str:
    """Any text at all, as databases can hold it: errors quote file names and worse."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def _token(token: object) -> str:
    if not isinstance(token, str) or not token:
        raise InvalidOption(f"{token!r} is not a claim's token.", option="token")
    return token


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _taken(result: ClaimResult, token: str) -> Taken | None:
    if result.state == "disabled":
        raise refusals.disabled(result.proc, result.error)
    if result.state != "claimed":
        return None
    dead = set(result.skipped)
    found = [
        record
        for batch in result.batches
        for record in records(result.topic, batch, result.first_seq, result.last_seq)
        if record.seq not in dead
    ]
    return Taken(result.proc, token, found, _moment(result.deadline))
