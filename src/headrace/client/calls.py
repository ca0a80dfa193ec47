"""What every client method asks of the store: built once for blocking and async clients."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headrace.client.clock_watch import heed_clock
from headrace.contract.op import Op
from headrace.contract.store import Session, Store
from headrace.contract.values import (
    AckResult,
    ClaimResult,
    CommitCall,
    CommitOutcome,
    Committed,
    Page,
    ProcSpec,
    Promised,
)
from headrace.core.commits import (
    Entry,
    Headers,
    Prepared,
    ids_of,
    prepare,
    prepare_many,
    prepare_one,
)
from headrace.core.scans import Scan
from headrace.errors import InvalidBody, InvalidOption, NotCommitted
from headrace.model import procs as rules
from headrace.model import refusals
from headrace.model.checks import milliseconds, positive
from headrace.model.codec import records
from headrace.model.names import check_proc, check_topic
from headrace.model.position import FROM_NOW, FROM_START, check_offset
from headrace.model.procs import Lag, ProcChanges, ProcInfo
from headrace.model.record import Record, TopicInfo
from headrace.model.tokens import claim_token

T = TypeVar("T")
Timeout = timedelta | float | None
LiveMode = Literal["all", "live"]

CLAIM_BYTES = 8 * 1024 * 1024
MOST_TOPICS = 1000
LIVE_TTL_MS = 3600 * 1000


class Receipt(msgspec.Struct, frozen=True):
    """For records committed in a transaction: their ids, or what to ask for them with."""

    ids: list[str] | None
    promised: Promised | None = None
    topics: tuple[str, ...] = ()


class Acked(msgspec.Struct, frozen=True):
    """What ``ack_commit`` did: the acknowledged range, and the ids of the new records.

    Inside a transaction that numbers at COMMIT the ids are None, and ``receipt`` gets them.
    """

    range: str
    ids: list[str] | None
    receipt: Receipt | None = None


class Taken(msgspec.Struct, frozen=True):
    """Records that a proc handed out, before a client wraps them."""

    proc: str
    token: str
    records: list[Record]
    deadline: datetime | None


class LivePlan(msgspec.Struct, frozen=True):
    """A live proc to be made."""

    name: str
    topic: str
    offset: str
    count: int


class Call(msgspec.Struct, Generic[T], frozen=True):
    """An operation for the store, and what to make of its answer afterwards."""

    op: Op[Any]
    finish: Callable[[Any], T]


class Commitment(msgspec.Struct, Generic[T], frozen=True):
    """Records to commit, and what to make of the outcome."""

    call: CommitCall
    finish: Callable[[CommitOutcome], T]


class Calls:
    """Checks arguments and builds operations; raises before anything is sent."""

    def __init__(self, store: Store | Session, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body

    def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any,
        headers: Headers | None,
        key: str | None,
    ) -> Commitment[Any]:
        if isinstance(topic, str):
            one = prepare_one(topic, body, headers, key, max_body=self.max_body)

            def finish(outcome: CommitOutcome) -> str:
                heed_clock(outcome)
                return one.ids(outcome)[0]

            return Commitment(one.call, finish)
        _refuse_body(body)
        return self.commit_entries(_listed(topic), headers, key)

    def commit_many(
        self, topic: str, bodies: Iterable[Any], headers: Headers | None, key: str | None
    ) -> Commitment[list[str]]:
        given = _bodies(topic, bodies)
        return self._commitment(prepare_many(topic, given, headers, key, max_body=self.max_body))

    def commit_entries(
        self, entries: Sequence[Entry], headers: Headers | None, key: str | None
    ) -> Commitment[list[str]]:
        return self._commitment(prepare(entries, headers=headers, key=key, max_body=self.max_body))

    def _commitment(self, prepared: Prepared) -> Commitment[list[str]]:
        def finish(outcome: CommitOutcome) -> list[str]:
            heed_clock(outcome)
            return prepared.ids(outcome)

        return Commitment(prepared.call, finish)

    def promise(
        self,
        topic: str | Sequence[Entry],
        body: Any,
        headers: Headers | None,
        key: str | None,
    ) -> Commitment[Receipt]:
        if isinstance(topic, str):
            return self._promise([(topic, body)], headers, key)
        _refuse_body(body)
        return self._promise(_listed(topic), headers, key)

    def promise_many(
        self, topic: str, bodies: Iterable[Any], headers: Headers | None, key: str | None
    ) -> Commitment[Receipt]:
        entries = [(topic, body) for body in _bodies(topic, bodies)]
        return self._promise(entries, headers, key)

    def _promise(
        self, entries: Sequence[Entry], headers: Headers | None, key: str | None
    ) -> Commitment[Receipt]:
        prepared = prepare(entries, headers=headers, key=key, max_body=self.max_body)
        return Commitment(prepared.call, lambda outcome: _receipt(prepared, outcome))

    def resolve(self, receipt: Receipt) -> Call[list[str]]:
        promised = receipt.promised
        assert promised is not None

        def finish(committed: Committed | None) -> list[str]:
            if committed is None:
                raise NotCommitted(
                    "these records are not committed: their transaction is still open, or it was "
                    "rolled back."
                )
            return ids_of(committed, receipt.topics)

        return Call(self.store.resolve(promised), finish)

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

    def live_proc(self, name: str, topic: str, offset: str) -> Call[ProcInfo]:
        spec = ProcSpec(name=name, topic=topic, offset=offset, ttl_ms=LIVE_TTL_MS)
        settings = rules.changes(on_max_reclaims_reached="continue")
        return Call(self.store.create_proc(spec, settings), _same)

    def live(self, topic: str, mode: object, count: int) -> LivePlan:
        if mode not in ("all", "live"):
            raise InvalidOption(f"mode is {mode!r}: use all or live.", option="mode")
        offset = FROM_NOW if mode == "live" else FROM_START
        name = f"liveproc-{uuid.uuid4()}"
        return LivePlan(name, check_topic(topic), offset, positive("count", count))

    def keep_proc(self, name: str) -> Call[None]:
        return Call(self.store.keep_proc(name), _same)

    def procs(self, topic: str | None) -> Call[list[ProcInfo]]:
        return Call(self.store.procs(None if topic is None else check_topic(topic)), _same)

    def claim(self, proc: str, count: int) -> Call[Taken | None]:
        token = claim_token()
        op = self.store.claim(proc, token, positive("count", count), CLAIM_BYTES)
        return Call(op, lambda result: taken_of(result, token))

    def available_proc(self, procs: object, count: int) -> Call[Taken | None]:
        names = _proc_names(procs)
        token = claim_token()
        op = self.store.claim_any(names, token, positive("count", count), CLAIM_BYTES)
        return Call(op, lambda result: taken_of(result, token))

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
            receipt = _receipt(prepared, result.committed)
            if receipt.ids is None:
                return Acked(result.range, None, receipt)
            return Acked(result.range, receipt.ids)

        return Call(self.store.ack_commit(proc, _token(token), prepared.call), finish)

    def reclaim(
        self,
        proc: str,
        topic: str,
        token: str | None,
        failed: Record | None,
        error: str | None,
    ) -> Call[str]:
        if token is not None:
            _token(token)
        if failed is not None and (not isinstance(failed, Record) or failed.topic != topic):
            raise InvalidOption(
                f"failed is {failed!r:.80}: name a record of topic {topic!r} that was handed out.",
                option="failed",
            )
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

    def pending(self, procs: object) -> Call[list[str]]:
        if procs is None:
            return Call(self.store.pending(None), _same)
        return Call(self.store.pending(_proc_names(procs)), _same)


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


def _proc_names(procs: object) -> list[str]:
    """Names of procs given by name or by reference, one or several."""
    some = procs if isinstance(procs, Iterable) and not isinstance(procs, str) else [procs]
    return [check_proc(getattr(proc, "name", proc)) for proc in some]


def _same(value: Any) -> Any:
    return value


def _receipt(prepared: Prepared, outcome: CommitOutcome) -> Receipt:
    if isinstance(outcome, Promised):
        return Receipt(None, outcome, tuple(prepared.topics))
    return Receipt(prepared.ids(outcome))


def _refuse_body(body: object) -> None:
    if body is not None:
        raise InvalidBody(
            "commit takes one topic and one body, or one list of (topic, body).", path="$"
        )


def _bodies(topic: str, bodies: Iterable[Any]) -> list[Any]:
    check_topic(topic)
    if isinstance(bodies, (dict, str, bytes)):
        raise InvalidBody("commit_many takes a list of bodies; for one body use commit.", path="$")
    return list(bodies)


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


def taken_of(result: ClaimResult, token: str) -> Taken | None:
    if result.state == "disabled":
        raise refusals.disabled(result.proc, result.error)
    if result.state == "overtaken":
        raise refusals.overtaken(result.proc, result.first_seq, result.last_seq)
    if result.state != "claimed":
        return None
    found: list[Record] = []
    for batch in result.batches:
        found += records(result.topic, batch, result.first_seq, result.last_seq)
    if result.skipped:
        dead = set(result.skipped)
        found = [record for record in found if record.seq not in dead]
    return Taken(result.proc, token, found, _moment(result.deadline))
