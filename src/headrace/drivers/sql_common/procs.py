"""Procs in SQL: load under a lock, let ``model.topics.procs`` decide, store the answer."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.contract.commit_rules import (
    ack_outcome,
    check_known,
    check_token,
    digest_of,
    meant,
    repeated_ack,
)
from headrace.contract.items import PushCall
from headrace.contract.op import Op, Steps
from headrace.contract.values import (
    AckAnswer,
    ClaimResult,
    CommitCall,
    CommitPart,
    Committed,
    ProcSpec,
    Promised,
)
from headrace.drivers.sql_common.statements import NoReply, RequireFlush, Row, Statement
from headrace.drivers.sql_common.topics import Head
from headrace.model import error_messages
from headrace.model.codec import dead_letter
from headrace.model.names import dead_topic
from headrace.model.topics import procs as rules
from headrace.model.topics.positions import FROM_NOW, FROM_START, parse_end, record_id
from headrace.model.topics.procs import Lag, OutstandingClaim, ProcChanges, ProcInfo, ProcState

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

_STATE_FIELDS = tuple(f for f in ProcState.__struct_fields__ if f not in ("offset", "skipped"))
_SAVED = tuple(f for f in _STATE_FIELDS if f not in ("name", "topic", "created_at"))


NO_BODIES = 0
"""In place of a number of bytes: a claim that reads no records, since other processes do."""


class Loaded(NamedTuple):
    """A proc with everything that a decision about it needs."""

    id: int
    state: ProcState
    claim: OutstandingClaim | None
    head: Head

    @property
    def now(self) -> int:
        return self.head.now


class SqlProcs:
    """The proc operations over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def create(self, spec: ProcSpec, changes: ProcChanges) -> Op[ProcInfo]:
        return Op("procs.create", lambda: self._create(spec, changes), repeatable=True)

    def _create(self, spec: ProcSpec, changes: ProcChanges) -> Steps[ProcInfo]:
        proc = yield from self.find_state(spec.name)
        if proc is None:
            yield from self.add(spec, changes)
            proc = yield from self.lock(spec.name)
        if proc.state.topic != spec.topic:
            raise error_messages.name_taken(spec.name, proc.state.topic, spec.topic)
        state = rules.changed(proc.state, changes)
        if state != proc.state:
            yield self.save(proc.id, state)
        return (yield from self.info_of(proc._replace(state=state)))

    def add(self, spec: ProcSpec, changes: ProcChanges) -> Steps[None]:
        # Locked, so that pruning cannot pass a proc that is being made at the same time.
        [head] = (yield from self._context.topics.lock_heads([spec.topic])).values()
        state = ProcState(
            name=spec.name,
            topic=spec.topic,
            offset=spec.offset,
            cursor=(yield from self._seq_at(spec.topic, spec.offset, head)),
            created_at=head.now,
            ttl=spec.ttl_ms,
        )
        state = rules.seen(rules.changed(state, changes), head.now)
        yield self.sql.add_proc(
            name=state.name,
            topic=head.id,
            origin=state.offset,
            cursor=state.cursor,
            created_at=state.created_at,
            max_attempts=state.max_attempts,
            lease=state.lease,
            on_exhausted=state.on_exhausted,
            ttl=state.ttl,
            expires_at=state.expires_at,
        )

    def _seq_at(self, topic: str, offset: str, head: Head) -> Steps[int | None]:
        if offset == FROM_START:
            return head.first_seq
        if offset == FROM_NOW:
            return head.next_seq
        return (yield from self._context.topics.position_after(topic, parse_end(offset), head))

    def claim(self, proc: str, token: str, count: int, max_bytes: int) -> Op[ClaimResult]:
        # Repeatable: a claim whose COMMIT lost its answer has this token, too, and is found again.
        return Op(
            "procs.claim",
            lambda: self.claim_under_lock(proc, token, count, max_bytes),
            relaxed=True,
            repeatable=True,
            fast=self._context.fastpath.proc_claim(proc, token, count, max_bytes),
        )

    def claim_span(self, proc: str, token: str, count: int) -> Op[ClaimResult]:
        def steps() -> Steps[ClaimResult]:
            return msgspec.structs.replace(
                (yield from self.claim_under_lock(proc, token, count, NO_BODIES)), batches=()
            )

        return Op("procs.claim_span", steps, relaxed=True, repeatable=True)

    def claim_under_lock(
        self, name: str, token: str, count: int, max_bytes: int, turn: int | None = None
    ) -> Steps[ClaimResult]:
        proc = yield from self.lock(name)
        if proc.state.status == "disabled":
            return ClaimResult(state="disabled", proc=name, error=proc.state.last_error)
        if proc.claim is not None:
            if proc.claim.token == token:
                return (yield from self._read_claim(proc, proc.claim, max_bytes))
            if not proc.claim.is_over(proc.now):
                return ClaimResult(state="busy", proc=name)
            proc = yield from self._nack(proc, proc.claim, failed=None, error=rules.TIMED_OUT)
            if proc.state.status == "disabled":
                return ClaimResult(state="disabled", proc=name, error=proc.state.last_error)
        return (yield from self._claim_records(proc, token, count, max_bytes, turn))

    def _claim_records(
        self, proc: Loaded, token: str, count: int, max_bytes: int, turn: int | None
    ) -> Steps[ClaimResult]:
        position = yield from self._position(proc)
        if position is None or position >= proc.head.next_seq:
            return ClaimResult(state="empty", proc=proc.state.name)
        first_seq = proc.head.first_seq
        if position < first_seq:
            return ClaimResult(
                state="overtaken",
                proc=proc.state.name,
                first_seq=position,
                last_seq=first_seq - 1,
            )
        low = position
        high = min(rules.window(proc.state, low, count), proc.head.next_seq - 1)
        claim = OutstandingClaim(token, low, high, rules.deadline(proc.state, proc.now))
        result = yield from self._read_claim(proc, claim, max_bytes)
        claim = OutstandingClaim(token, low, result.last_seq, claim.deadline)
        first, last = result.batches[0], result.batches[-1]
        state = rules.claimed(
            proc.state,
            claim,
            record_id(first.ts, claim.first_seq),
            record_id(last.ts, claim.last_seq),
            proc.now,
            turn,
        )
        yield NoReply(
            (
                self.save(proc.id, state),
                self.sql.add_claim(
                    id=proc.id,
                    token=token,
                    first_seq=claim.first_seq,
                    last_seq=claim.last_seq,
                    deadline=claim.deadline,
                ),
            )
        )
        return result

    def _read_claim(
        self, proc: Loaded, claim: OutstandingClaim, max_bytes: int
    ) -> Steps[ClaimResult]:
        low, high = claim.first_seq, claim.last_seq
        topic = proc.state.topic
        _, batches = yield from self._context.topics.rows(
            topic, low, high, span=high - low + 1, max_bytes=max(max_bytes, 1)
        )
        if max_bytes == NO_BODIES:
            # Only for their timestamps, which are part of the ids.
            _, ends = yield from self._context.topics.rows(topic, high, high, span=1, max_bytes=1)
            batches = [batches[0], *ends]
        return ClaimResult(
            state="claimed",
            proc=proc.state.name,
            topic=topic,
            first_seq=claim.first_seq,
            last_seq=min(claim.last_seq, batches[-1].last_seq),
            deadline=claim.deadline,
            skipped=proc.state.skipped,
            batches=tuple(batches),
        )

    def claim_any(
        self, procs: Sequence[str], token: str, count: int, max_bytes: int
    ) -> Op[ClaimResult]:
        def steps() -> Steps[ClaimResult]:
            # Twice: releasing one proc's expired claim may commit a dead letter that another reads.
            for _ in range(2):
                rows = yield self.sql.proc_candidates(names=list(procs), now=self.clock())
                check_known(procs, [row["name"] for row in rows])
                ready = [row["name"] for row in rows if row["is_ready"]]
                turn = max((row["turn"] for row in rows), default=0) + 1
                for name in ready:
                    result = yield from self.claim_under_lock(name, token, count, max_bytes, turn)
                    if result.state in ("claimed", "overtaken"):
                        return result
                if not ready:
                    break
            return ClaimResult(state="empty", proc="")

        return Op("procs.claim_any", steps, relaxed=True)

    def extend(self, proc: str, token: str) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            found = yield from self.lock(proc)
            check_token(proc, found.claim, token)
            deadline = rules.deadline(found.state, found.now)
            yield NoReply((self.sql.extend_claim(id=found.id, deadline=deadline),))
            return deadline

        return Op("procs.extend", steps, relaxed=True, repeatable=True)

    def ack(self, proc: str, token: str) -> Op[AckAnswer]:
        return Op("procs.ack", lambda: self.acked(proc, token, None, None), repeatable=True)

    def ack_commit(self, proc: str, token: str, call: CommitCall) -> Op[AckAnswer]:
        def write() -> Steps[Committed | Promised]:
            return self._context.topics.append(call.parts)

        return Op(
            "procs.ack_commit", lambda: self.acked(proc, token, call.digest, write), repeatable=True
        )

    def ack_part(self, proc: str, token: str, last_id: str, call: CommitCall) -> Op[AckAnswer]:
        def write() -> Steps[Committed | Promised]:
            return self._context.topics.append(call.parts)

        return Op(
            "procs.ack_part",
            lambda: self.acked(proc, token, call.digest, write if call.parts else None, last_id),
            repeatable=True,
        )

    def acked(
        self,
        name: str,
        token: str,
        digest: str | None,
        write: Callable[[], Steps[Committed | Promised | None]] | None,
        last_id: str | None = None,
    ) -> Steps[AckAnswer]:
        """Move a proc behind its claim, or a part of it, and write something with it.

        A repeat of the last ack writes nothing.
        """
        proc = yield from self.lock(name)
        if proc.claim is None or proc.claim.token != token:
            before = repeated_ack(proc.state, token, digest)
            if before.committed is None:
                return before
            return AckAnswer(before.range, (yield from self._context.topics.kept(before.committed)))
        state, claim = proc.state, proc.claim
        if last_id is not None:
            state, claim = rules.narrowed(state, claim, last_id)
        written = (yield from write()) if write is not None else None
        result = AckAnswer(state.last_claimed_range, written)
        state = rules.acked(state, claim, ack_outcome(digest, result), proc.now)
        yield NoReply((self.save(proc.id, state), self.sql.drop_claim(id=proc.id)))
        return result

    def ack_push(self, proc: str, token: str, calls: Sequence[PushCall]) -> Op[AckAnswer]:
        digest = digest_of(calls)

        def push() -> Steps[None]:
            for call in calls:
                yield from self._context.pushes.push_one(call)

        return Op("procs.ack_push", lambda: self.acked(proc, token, digest, push), repeatable=True)

    def nack(
        self,
        proc: str,
        token: str | None,
        failed_seq: int | None,
        error: str | None,
        *,
        is_final: bool = False,
    ) -> Op[str]:
        def steps() -> Steps[str]:
            found = yield from self.lock(proc)
            if found.state.status == "disabled":
                raise error_messages.disabled(proc, found.state.last_error)
            if found.claim is None and token is None:
                raise error_messages.nothing_claimed(proc)
            claim = check_token(proc, found.claim, token)
            after = yield from self._nack(found, claim, failed_seq, error, is_final=is_final)
            return after.state.last_acked_range

        return Op("procs.nack", steps)

    def _nack(
        self,
        proc: Loaded,
        claim: OutstandingClaim,
        failed: int | None,
        error: str | None,
        *,
        is_final: bool = False,
    ) -> Steps[Loaded]:
        state, dead = rules.nacked(proc.state, claim, failed=failed, error=error, is_final=is_final)
        if dead is not None:
            yield from self._bury(proc, dead, error)
        yield self.save(proc.id, state), self.sql.drop_claim(id=proc.id)
        # Loaded again: a proc may read the very topic its dead letters go to.
        return (yield from self.lock(state.name))

    def _bury(self, proc: Loaded, seq: int, error: str | None) -> Steps[None]:
        """Commit a dead letter. Other procs may read it, so a crash must not undo it."""
        yield RequireFlush()
        name, topic = proc.state.name, proc.state.topic
        _, batches = yield from self._context.topics.rows(topic, seq, seq, span=1, max_bytes=1)
        line = dead_letter(name, topic, batches[0], seq, error, proc.state.attempts + 1)
        yield from self._context.topics.append([CommitPart(dead_topic(name), 1, line)])

    def touch(self, proc: str) -> Op[None]:
        def steps() -> Steps[None]:
            found = yield from self.lock(proc)
            yield self.save(found.id, rules.seen(found.state, found.now))

        return Op("procs.touch", steps, relaxed=True, repeatable=True)

    def info(self, proc: str) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            return (yield from self.info_of((yield from self._load(proc))))

        return Op("procs.info", steps, writes=False)

    def list(self, topic: str | None) -> Op[builtins.list[ProcInfo]]:
        def steps() -> Steps[list[ProcInfo]]:
            rows = yield self.sql.load_procs(topic=topic, names=None, now=self.clock())
            infos = []
            for row in rows:
                info = yield from self.info_of(proc_of(row))
                infos.append(info)
            return infos

        return Op("procs.list", steps, writes=False)

    def disable(self, proc: str) -> Op[ProcInfo]:
        return Op("procs.disable", lambda: self._switch(proc, "disabled"))

    def resume(self, proc: str) -> Op[ProcInfo]:
        return Op("procs.resume", lambda: self._switch(proc, "active"))

    def _switch(self, name: str, status: rules.Status) -> Steps[ProcInfo]:
        proc = yield from self.lock(name)
        if proc.state.status == status:
            raise error_messages.already(name, status)
        return (yield from self._store(proc, rules.switched(proc.state, status)))

    def delete(self, proc: str) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            found = yield from self.lock(proc)
            last = yield from self.info_of(found)
            yield self.sql.drop_claim(id=found.id), self.sql.delete_proc(id=found.id)
            return last

        return Op("procs.delete", steps)

    def seek(self, proc: str, offset: str) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            found = yield from self.lock(proc)
            [head] = (yield from self._context.topics.lock_heads([found.state.topic])).values()
            cursor = yield from self._seq_at(found.state.topic, offset, head)
            yield self.sql.drop_claim(id=found.id)
            state = rules.sought(found.state, offset, cursor)
            return (yield from self._store(found._replace(claim=None), state))

        return Op("procs.seek", steps, repeatable=offset != FROM_NOW)

    def update(self, proc: str, changes: ProcChanges) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            found = yield from self.lock(proc)
            return (yield from self._store(found, rules.changed(found.state, changes)))

        return Op("procs.update", steps, repeatable=True)

    def lag(self, proc: str) -> Op[Lag]:
        def steps() -> Steps[Lag]:
            found = yield from self._load(proc)
            head = found.head
            position = yield from self._position(found)
            if position is None or position >= head.next_seq:
                return Lag(0, 0.0)
            low = max(position, head.first_seq)
            _, batches = yield from self._context.topics.rows(
                head.name, low, low, span=1, max_bytes=1
            )
            return rules.lag(found.state, low, head.next_seq, batches[0].ts, head.now)

        return Op("procs.lag", steps, writes=False)

    def pending(self, procs: Sequence[str] | None) -> Op[builtins.list[str]]:
        def steps() -> Steps[list[str]]:
            names = None if procs is None else list(procs)
            rows = yield self.sql.load_procs(topic=None, names=names, now=self.clock())
            if names is not None and not {row["name"] for row in rows}.issuperset(names):
                names = yield from self._meant(names)
                rows = yield self.sql.load_procs(topic=None, names=names, now=self.clock())
                check_known(names, [row["name"] for row in rows])
            behind = []
            for row in rows:
                found = proc_of(row)
                position = yield from self._position(found)
                is_behind = position is not None and position < found.head.next_seq
                if is_behind and found.state.status == "active":
                    behind.append(found.state.name)
            return behind

        return Op("procs.pending", steps, writes=False)

    def _meant(self, names: Sequence[str]) -> Steps[builtins.list[str]]:
        """The names of procs; a pipeline's name stands for its procs."""
        owned = yield self.sql.definitions(names=list(names))
        return meant(names, [(row["pipeline"], row["name"]) for row in owned])

    def find_state(self, name: str) -> Steps[Loaded | None]:
        _, rows = yield (
            self.sql.lock_proc(proc=name),
            self.sql.load_proc(proc=name, now=self.clock()),
        )
        return proc_of(rows[0]) if rows else None

    def lock(self, name: str) -> Steps[Loaded]:
        proc = yield from self.find_state(name)
        if proc is None:
            raise error_messages.unknown_proc(name)
        return proc

    def _load(self, name: str) -> Steps[Loaded]:
        rows = yield self.sql.load_proc(proc=name, now=self.clock())
        if not rows:
            raise error_messages.unknown_proc(name)
        return proc_of(rows[0])

    def _position(self, proc: Loaded) -> Steps[int | None]:
        """The seq that the next claim begins with, if it is known yet."""
        if proc.state.cursor is not None or proc.head.next_seq == 0:
            return proc.state.cursor
        offset = parse_end(proc.state.offset)
        return (yield from self._context.topics.position_after(proc.state.topic, offset, proc.head))

    def info_of(self, proc: Loaded) -> Steps[ProcInfo]:
        position = yield from self._position(proc)
        return rules.info(proc.state, proc.claim, position)

    def _store(self, proc: Loaded, state: ProcState) -> Steps[ProcInfo]:
        yield self.save(proc.id, state)
        return (yield from self.info_of(proc._replace(state=state)))

    def save(self, proc_id: int, state: ProcState) -> Statement:
        values = {field: getattr(state, field) for field in _SAVED}
        skipped = msgspec.json.encode(state.skipped).decode()
        return self.sql.save_proc(id=proc_id, origin=state.offset, skipped=skipped, **values)


def proc_of(row: Row) -> Loaded:
    state = ProcState(
        offset=row["origin"],
        skipped=tuple(msgspec.json.decode(row["skipped"], type=list[int])),
        **{field: row[field] for field in _STATE_FIELDS},
    )
    claim = None
    if row["token"] is not None:
        claim = OutstandingClaim(
            row["token"], row["claim_first_seq"], row["claim_last_seq"], row["deadline"]
        )
    head = Head(
        row["topic_id"],
        row["topic"],
        *(row[field] for field in Head._fields[2:]),
    )
    return Loaded(row["id"], state, claim, head)
