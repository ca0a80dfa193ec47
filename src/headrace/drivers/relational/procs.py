"""Procs in SQL: load under a lock, let ``model.procs`` decide, store the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from headrace.contract.op import Alone, Op, Steps
from headrace.contract.shared import ack_outcome, check_known, check_token, meant, repeated_ack
from headrace.contract.values import (
    AckResult,
    ClaimResult,
    CommitCall,
    Committed,
    Part,
    ProcSpec,
    Promised,
)
from headrace.drivers.relational.sql import Finally, Insist, Row, Statement
from headrace.drivers.relational.topics import Head, Topics
from headrace.model import procs as rules
from headrace.model import refusals
from headrace.model.codec import dead_letter
from headrace.model.names import dead_topic
from headrace.model.position import FROM_NOW, FROM_START, parse_end, record_id
from headrace.model.procs import Hold, Lag, ProcChanges, ProcInfo, ProcState

_STATE_FIELDS = tuple(f for f in ProcState.__struct_fields__ if f not in ("offset", "skipped"))
_SAVED = tuple(f for f in _STATE_FIELDS if f not in ("name", "topic", "created_at"))


NO_BODIES = 0
"""In place of a number of bytes: a claim whose records somebody else reads."""


class Loaded(NamedTuple):
    """A proc with all that a decision about it needs."""

    id: int
    state: ProcState
    hold: Hold | None
    head: Head

    @property
    def now(self) -> int:
        return self.head.now


class Procs(Topics):
    """The proc operations over a dialect's statements."""

    def create_proc(self, spec: ProcSpec, changes: ProcChanges) -> Op[ProcInfo]:
        return Op("create_proc", lambda: self._create(spec, changes), repeatable=True)

    def _create(self, spec: ProcSpec, changes: ProcChanges) -> Steps[ProcInfo]:
        proc = yield from self._find(spec.name)
        if proc is None:
            yield from self._add(spec, changes)
            proc = yield from self._lock(spec.name)
        if proc.state.topic != spec.topic:
            raise refusals.name_taken(spec.name, proc.state.topic, spec.topic)
        state = rules.changed(proc.state, changes)
        if state != proc.state:
            yield self._save(proc.id, state)
        return (yield from self._info(proc._replace(state=state)))

    def _add(self, spec: ProcSpec, changes: ProcChanges) -> Steps[None]:
        # Locked, so that no collection can pass a proc that is only just being made.
        [head] = (yield from self.lock_heads([spec.topic])).values()
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
            max_reclaims=state.max_reclaims,
            reclaim_timeout=state.reclaim_timeout,
            on_max_reclaims_reached=state.on_max_reclaims_reached,
            ttl=state.ttl,
            expires_at=state.expires_at,
        )

    def _seq_at(self, topic: str, offset: str, head: Head) -> Steps[int | None]:
        if offset == FROM_START:
            return head.first_seq
        if offset == FROM_NOW:
            return head.next_seq
        return (yield from self.position_after(topic, parse_end(offset), head))

    def claim(self, proc: str, token: str, count: int, max_bytes: int) -> Op[ClaimResult]:
        # Repeatable: a claim made by a lost COMMIT has this token too, and is found again.
        return Op(
            "claim",
            lambda: self.claim_under_lock(proc, token, count, max_bytes),
            relaxed=True,
            repeatable=True,
            alone=self.claim_at_once(proc, token, count, max_bytes),
        )

    def claim_span(self, proc: str, token: str, count: int) -> Op[ClaimResult]:
        def steps() -> Steps[ClaimResult]:
            return msgspec.structs.replace(
                (yield from self.claim_under_lock(proc, token, count, NO_BODIES)), batches=()
            )

        return Op("claim_span", steps, relaxed=True, repeatable=True)

    def claim_at_once(
        self, proc: str, token: str, count: int, max_bytes: int
    ) -> Alone[ClaimResult] | None:
        """The claim without a transaction around it, if the database can."""
        return None

    def claim_under_lock(
        self, name: str, token: str, count: int, max_bytes: int
    ) -> Steps[ClaimResult]:
        proc = yield from self._lock(name)
        if proc.state.status == "disabled":
            return ClaimResult(state="disabled", proc=name, error=proc.state.last_error)
        if proc.hold is not None:
            if proc.hold.token == token:
                return (yield from self._hand_out(proc, proc.hold, max_bytes))
            if not proc.hold.is_over(proc.now):
                return ClaimResult(state="held", proc=name)
            proc = yield from self._give_back(proc, proc.hold, failed=None, error=rules.TIMED_OUT)
            if proc.state.status == "disabled":
                return ClaimResult(state="disabled", proc=name, error=proc.state.last_error)
        return (yield from self._take(proc, token, count, max_bytes))

    def _take(self, proc: Loaded, token: str, count: int, max_bytes: int) -> Steps[ClaimResult]:
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
        hold = Hold(token, low, high, rules.deadline(proc.state, proc.now))
        result = yield from self._hand_out(proc, hold, max_bytes)
        hold = Hold(token, low, result.last_seq, hold.deadline)
        first, last = result.batches[0], result.batches[-1]
        state = rules.claimed(
            proc.state,
            hold,
            record_id(first.ts, hold.first_seq),
            record_id(last.ts, hold.last_seq),
            proc.now,
        )
        yield Finally(
            (
                self._save(proc.id, state),
                self.sql.hold(
                    id=proc.id,
                    token=token,
                    first_seq=hold.first_seq,
                    last_seq=hold.last_seq,
                    deadline=hold.deadline,
                ),
            )
        )
        return result

    def _hand_out(self, proc: Loaded, hold: Hold, max_bytes: int) -> Steps[ClaimResult]:
        low, high = hold.first_seq, hold.last_seq
        topic = proc.state.topic
        _, batches = yield from self.rows(
            topic, low, high, span=high - low + 1, max_bytes=max(max_bytes, 1)
        )
        if max_bytes == NO_BODIES:
            # For their times only, of which the ids are made.
            _, ends = yield from self.rows(topic, high, high, span=1, max_bytes=1)
            batches = [batches[0], *ends]
        return ClaimResult(
            state="claimed",
            proc=proc.state.name,
            topic=topic,
            first_seq=hold.first_seq,
            last_seq=min(hold.last_seq, batches[-1].last_seq),
            deadline=hold.deadline,
            skipped=proc.state.skipped,
            batches=tuple(batches),
        )

    def claim_any(
        self, procs: Sequence[str], token: str, count: int, max_bytes: int
    ) -> Op[ClaimResult]:
        def steps() -> Steps[ClaimResult]:
            # Twice: to give one proc's expired claim back may put a dead letter before another.
            for _ in range(2):
                rows = yield self.sql.candidates(names=list(procs), now=self.clock())
                check_known(procs, [row["name"] for row in rows])
                ready = [row["name"] for row in rows if row["is_ready"]]
                for name in ready:
                    result = yield from self.claim_under_lock(name, token, count, max_bytes)
                    if result.state in ("claimed", "overtaken"):
                        return result
                if not ready:
                    break
            return ClaimResult(state="empty", proc="")

        return Op("claim_any", steps, relaxed=True)

    def extend(self, proc: str, token: str) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            found = yield from self._lock(proc)
            check_token(proc, found.hold, token)
            deadline = rules.deadline(found.state, found.now)
            yield Finally((self.sql.extend_hold(id=found.id, deadline=deadline),))
            return deadline

        return Op("extend", steps, relaxed=True, repeatable=True)

    def ack(self, proc: str, token: str) -> Op[AckResult]:
        return Op("ack", lambda: self.acked(proc, token, None, None), repeatable=True)

    def ack_commit(self, proc: str, token: str, call: CommitCall) -> Op[AckResult]:
        def write() -> Steps[Committed | Promised]:
            return self.append(call.parts)

        return Op(
            "ack_commit", lambda: self.acked(proc, token, call.digest, write), repeatable=True
        )

    def ack_part(self, proc: str, token: str, last_id: str, call: CommitCall) -> Op[AckResult]:
        def write() -> Steps[Committed | Promised]:
            return self.append(call.parts)

        return Op(
            "ack_part",
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
    ) -> Steps[AckResult]:
        """Move a proc behind its claim, or a part of it, and write something with it.

        Unless that was done already.
        """
        proc = yield from self._lock(name)
        if proc.hold is None or proc.hold.token != token:
            before = repeated_ack(proc.state, token, digest)
            if before.committed is None:
                return before
            return AckResult(before.range, (yield from self.kept(before.committed)))
        state, hold = proc.state, proc.hold
        if last_id is not None:
            state, hold = rules.narrowed(state, hold, last_id)
        written = (yield from write()) if write is not None else None
        result = AckResult(state.last_claimed_range, written)
        state = rules.acked(state, hold, ack_outcome(digest, result), proc.now)
        yield Finally((self._save(proc.id, state), self.sql.release(id=proc.id)))
        return result

    def reclaim(
        self, proc: str, token: str | None, failed_seq: int | None, error: str | None
    ) -> Op[str]:
        def steps() -> Steps[str]:
            found = yield from self._lock(proc)
            if found.state.status == "disabled":
                raise refusals.disabled(proc, found.state.last_error)
            if found.hold is None and token is None:
                raise refusals.nothing_to_reclaim(proc)
            hold = check_token(proc, found.hold, token)
            after = yield from self._give_back(found, hold, failed=failed_seq, error=error)
            return after.state.last_acked_range

        return Op("reclaim", steps)

    def _give_back(
        self, proc: Loaded, hold: Hold, *, failed: int | None, error: str | None
    ) -> Steps[Loaded]:
        state, dead = rules.reclaimed(proc.state, hold, failed=failed, error=error)
        if dead is not None:
            yield from self._bury(proc, dead, error)
        yield self._save(proc.id, state), self.sql.release(id=proc.id)
        # Loaded anew: a proc may read the very topic its dead letters go to.
        return (yield from self._lock(state.name))

    def _bury(self, proc: Loaded, seq: int, error: str | None) -> Steps[None]:
        """Commit a dead letter: a record that others may read, so it must not vanish again."""
        yield Insist()
        name, topic = proc.state.name, proc.state.topic
        _, batches = yield from self.rows(topic, seq, seq, span=1, max_bytes=1)
        line = dead_letter(name, topic, batches[0], seq, error, proc.state.reclaims + 1)
        yield from self.append([Part(dead_topic(name), 1, line)])

    def keep_proc(self, proc: str) -> Op[None]:
        def steps() -> Steps[None]:
            found = yield from self._lock(proc)
            yield self._save(found.id, rules.seen(found.state, found.now))

        return Op("keep_proc", steps, relaxed=True, repeatable=True)

    def inspect(self, proc: str) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            return (yield from self._info((yield from self._load(proc))))

        return Op("inspect", steps, writes=False)

    def procs(self, topic: str | None) -> Op[list[ProcInfo]]:
        def steps() -> Steps[list[ProcInfo]]:
            rows = yield self.sql.load_procs(topic=topic, names=None, now=self.clock())
            infos = []
            for row in rows:
                info = yield from self._info(proc_of(row))
                infos.append(info)
            return infos

        return Op("procs", steps, writes=False)

    def disable(self, proc: str) -> Op[ProcInfo]:
        return Op("disable", lambda: self._switch(proc, "disabled"))

    def resume(self, proc: str) -> Op[ProcInfo]:
        return Op("resume", lambda: self._switch(proc, "active"))

    def _switch(self, name: str, status: rules.Status) -> Steps[ProcInfo]:
        proc = yield from self._lock(name)
        if proc.state.status == status:
            raise refusals.already(name, status)
        return (yield from self._store(proc, rules.switched(proc.state, status)))

    def destroy(self, proc: str) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            found = yield from self._lock(proc)
            last = yield from self._info(found)
            yield self.sql.release(id=found.id), self.sql.drop_proc(id=found.id)
            return last

        return Op("destroy", steps)

    def seek(self, proc: str, offset: str) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            found = yield from self._lock(proc)
            [head] = (yield from self.lock_heads([found.state.topic])).values()
            cursor = yield from self._seq_at(found.state.topic, offset, head)
            yield self.sql.release(id=found.id)
            state = rules.sought(found.state, offset, cursor)
            return (yield from self._store(found._replace(hold=None), state))

        return Op("seek", steps, repeatable=offset != FROM_NOW)

    def update_proc(self, proc: str, changes: ProcChanges) -> Op[ProcInfo]:
        def steps() -> Steps[ProcInfo]:
            found = yield from self._lock(proc)
            return (yield from self._store(found, rules.changed(found.state, changes)))

        return Op("update_proc", steps, repeatable=True)

    def lag(self, proc: str) -> Op[Lag]:
        def steps() -> Steps[Lag]:
            found = yield from self._load(proc)
            head = found.head
            position = yield from self._position(found)
            if position is None or position >= head.next_seq:
                return Lag(0, 0.0)
            low = max(position, head.first_seq)
            _, batches = yield from self.rows(head.name, low, low, span=1, max_bytes=1)
            return rules.lag(found.state, low, head.next_seq, batches[0].ts, head.now)

        return Op("lag", steps, writes=False)

    def pending(self, procs: Sequence[str] | None) -> Op[list[str]]:
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

        return Op("pending", steps, writes=False)

    def _meant(self, names: Sequence[str]) -> Steps[list[str]]:
        """Names of procs, where some may be those of pipelines."""
        owned = yield self.sql.definitions(names=list(names))
        return meant(names, [(row["pipeline"], row["name"]) for row in owned])

    def _find(self, name: str) -> Steps[Loaded | None]:
        _, rows = yield (
            self.sql.lock_proc(proc=name),
            self.sql.load_proc(proc=name, now=self.clock()),
        )
        return proc_of(rows[0]) if rows else None

    def _lock(self, name: str) -> Steps[Loaded]:
        proc = yield from self._find(name)
        if proc is None:
            raise refusals.unknown_proc(name)
        return proc

    def _load(self, name: str) -> Steps[Loaded]:
        rows = yield self.sql.load_proc(proc=name, now=self.clock())
        if not rows:
            raise refusals.unknown_proc(name)
        return proc_of(rows[0])

    def _position(self, proc: Loaded) -> Steps[int | None]:
        """The seq the proc hands out next, if it can be told yet."""
        if proc.state.cursor is not None or proc.head.next_seq == 0:
            return proc.state.cursor
        offset = parse_end(proc.state.offset)
        return (yield from self.position_after(proc.state.topic, offset, proc.head))

    def _info(self, proc: Loaded) -> Steps[ProcInfo]:
        position = yield from self._position(proc)
        return rules.info(proc.state, proc.hold, position)

    def _store(self, proc: Loaded, state: ProcState) -> Steps[ProcInfo]:
        yield self._save(proc.id, state)
        return (yield from self._info(proc._replace(state=state)))

    def _save(self, proc_id: int, state: ProcState) -> Statement:
        values = {field: getattr(state, field) for field in _SAVED}
        skipped = msgspec.json.encode(state.skipped).decode()
        return self.sql.save_proc(id=proc_id, origin=state.offset, skipped=skipped, **values)


def proc_of(row: Row) -> Loaded:
    state = ProcState(
        offset=row["origin"],
        skipped=tuple(msgspec.json.decode(row["skipped"], type=list[int])),
        **{field: row[field] for field in _STATE_FIELDS},
    )
    hold = None
    if row["token"] is not None:
        hold = Hold(row["token"], row["hold_first_seq"], row["hold_last_seq"], row["deadline"])
    head = Head(
        row["topic_id"],
        row["topic"],
        *(row[field] for field in Head._fields[2:]),
    )
    return Loaded(row["id"], state, hold, head)
