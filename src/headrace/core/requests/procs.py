"""Requests about procs: arguments are checked before anything is sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from headrace.contract.store import Session, Store
from headrace.contract.values import (
    AckAnswer,
    ClaimResult,
    ProcSpec,
)
from headrace.core.clock_skew import heed_clock
from headrace.core.commits import (
    Entry,
    Headers,
    prepare,
)
from headrace.core.requests.request import Request
from headrace.core.requests.topics import Receipt, entries_of, receipt_of
from headrace.errors import InvalidOption
from headrace.model import error_messages
from headrace.model.checks import positive
from headrace.model.codec import records
from headrace.model.failures import text_of
from headrace.model.fields import shown
from headrace.model.names import check_proc, check_topic, writable_proc
from headrace.model.times import Duration, optional_ms
from headrace.model.tokens import claim_token
from headrace.model.topics import procs as rules
from headrace.model.topics.positions import FROM_NOW, FROM_START, check_offset
from headrace.model.topics.procs import Lag, ProcChanges, ProcInfo
from headrace.model.topics.records import Record

LiveMode = Literal["all", "live"]
CLAIM_BYTES = 8 * 1024 * 1024
LIVE_TTL_MS = 3600 * 1000


class AckResult(msgspec.Struct, frozen=True):
    """What ``ack_commit`` did: the acknowledged range, and the ids of the new records.

    Inside a transaction that numbers at COMMIT the ids are None, and ``receipt`` gets them.
    """

    range: str
    ids: list[str] | None
    receipt: Receipt | None = None


class ClaimedBatch(msgspec.Struct, frozen=True):
    """Records that a proc has claimed, before a client wraps them."""

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


class ProcRequests:
    """Procs and their claims."""

    def __init__(self, store: Store | Session, *, max_body: int) -> None:
        self.store = store
        self.max_body = max_body

    def create(self, name: str, topic: str, offset: str, changes: ProcChanges) -> Request[ProcInfo]:
        spec = ProcSpec(
            name=writable_proc(name), topic=check_topic(topic), offset=check_offset(offset)
        )
        return Request(self.store.procs.create(spec, changes))

    def live_proc(self, name: str, topic: str, offset: str) -> Request[ProcInfo]:
        spec = ProcSpec(name=name, topic=topic, offset=offset, ttl_ms=LIVE_TTL_MS)
        settings = rules.changes(on_exhausted="continue")
        return Request(self.store.procs.create(spec, settings))

    def live(self, topic: str, mode: object, count: int) -> LivePlan:
        if mode not in ("all", "live"):
            raise InvalidOption(f"mode is {shown(mode)}: use all or live.", option="mode")
        offset = FROM_NOW if mode == "live" else FROM_START
        name = f"liveproc-{uuid.uuid4()}"
        return LivePlan(name, check_topic(topic), offset, positive("count", count))

    def touch(self, name: str) -> Request[None]:
        return Request(self.store.procs.touch(name))

    def listing(self, topic: str | None) -> Request[list[ProcInfo]]:
        return Request(self.store.procs.list(None if topic is None else check_topic(topic)))

    def claim(self, proc: str, count: int) -> Request[ClaimedBatch | None]:
        token = claim_token()
        op = self.store.procs.claim(proc, token, positive("count", count), CLAIM_BYTES)
        return Request(op, lambda result: batch_of(result, token))

    def claim_any(self, procs: object, count: int) -> Request[ClaimedBatch | None]:
        names = _proc_names(procs)
        token = claim_token()
        op = self.store.procs.claim_any(names, token, positive("count", count), CLAIM_BYTES)
        return Request(op, lambda result: batch_of(result, token))

    def extend(self, proc: str, token: str) -> Request[datetime | None]:
        return Request(self.store.procs.extend(proc, _token(token)), _moment)

    def ack(self, proc: str, token: str) -> Request[str]:
        return Request(self.store.procs.ack(proc, _token(token)), lambda result: result.range)

    def ack_commit(
        self, proc: str, token: str, entries: Sequence[Entry], headers: Headers | None
    ) -> Request[AckResult]:
        prepared = prepare(
            entries_of(entries), headers=headers, max_body=self.max_body, with_digest=True
        )

        def finish(result: AckAnswer) -> AckResult:
            assert result.committed is not None
            heed_clock(result.committed)
            receipt = receipt_of(prepared, result.committed)
            if receipt.ids is None:
                return AckResult(result.range, None, receipt)
            return AckResult(result.range, receipt.ids)

        return Request(self.store.procs.ack_commit(proc, _token(token), prepared.call), finish)

    def nack(
        self,
        proc: str,
        topic: str | None,
        token: str | None,
        failed: Record | None,
        error: str | None,
    ) -> Request[str]:
        if token is not None:
            _token(token)
        if failed is not None and (not isinstance(failed, Record) or failed.topic != topic):
            raise InvalidOption(
                f"failed is {shown(failed)}: name a record of topic {shown(topic)} that was claimed.",
                option="failed",
            )
        failed_seq = None if failed is None else failed.seq
        text = (
            None
            if error is None
            else _storable(error if isinstance(error, str) else text_of(error))
        )
        return Request(self.store.procs.nack(proc, token, failed_seq, text))

    def info(self, proc: str) -> Request[ProcInfo]:
        return Request(self.store.procs.info(proc))

    def disable(self, proc: str) -> Request[ProcInfo]:
        return Request(self.store.procs.disable(writable_proc(proc)))

    def resume(self, proc: str) -> Request[ProcInfo]:
        return Request(self.store.procs.resume(writable_proc(proc)))

    def delete(self, proc: str) -> Request[ProcInfo]:
        return Request(self.store.procs.delete(writable_proc(proc)))

    def seek(self, proc: str, offset: str) -> Request[ProcInfo]:
        return Request(self.store.procs.seek(writable_proc(proc), check_offset(offset)))

    def update(self, proc: str, changes: ProcChanges) -> Request[ProcInfo]:
        return Request(self.store.procs.update(writable_proc(proc), changes))

    def lag(self, proc: str) -> Request[Lag]:
        return Request(self.store.procs.lag(proc))

    def pending(self, procs: object) -> Request[list[str]]:
        if procs is None:
            return Request(self.store.procs.pending(None))
        return Request(self.store.procs.pending(_proc_names(procs)))


def changes(
    max_attempts: int | UnsetType,
    lease: Duration | UnsetType | None,
    on_exhausted: rules.Strategy | UnsetType,
) -> ProcChanges:
    """Settings as users give them."""
    lease_ms: int | UnsetType | None = UNSET
    if lease is not UNSET:
        lease_ms = optional_ms("lease", lease)
    return rules.changes(
        max_attempts=max_attempts,
        lease_ms=lease_ms,
        on_exhausted=on_exhausted,
    )


def _proc_names(procs: object) -> list[str]:
    """Names of procs given by name or by reference, one or several."""
    some = procs if isinstance(procs, Iterable) and not isinstance(procs, str) else [procs]
    return [check_proc(getattr(proc, "name", proc)) for proc in some]


def _storable(text: str) -> str:
    """Any text at all, as databases can store it: errors quote file names and worse."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def _token(token: object) -> str:
    if not isinstance(token, str) or not token:
        raise InvalidOption(f"{shown(token)} is not a claim's token.", option="token")
    return token


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def batch_of(result: ClaimResult, token: str) -> ClaimedBatch | None:
    if result.state == "disabled":
        raise error_messages.disabled(result.proc, result.error)
    if result.state == "overtaken":
        raise error_messages.overtaken(result.proc, result.first_seq, result.last_seq)
    if result.state != "claimed":
        return None
    found: list[Record] = []
    for batch in result.batches:
        found += records(result.topic, batch, result.first_seq, result.last_seq)
    if result.skipped:
        dead = set(result.skipped)
        found = [record for record in found if record.seq not in dead]
    return ClaimedBatch(result.proc, token, found, _moment(result.deadline))
