"""Procs in memory."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.commit_rules import (
    ack_outcome,
    check_known,
    check_token,
    digest_of,
    meant,
    repeated_ack,
)
from headrace.contract.items import PushCall
from headrace.contract.op import Op
from headrace.contract.values import (
    AckAnswer,
    ClaimResult,
    CommitCall,
    CommitPart,
    Committed,
    ProcSpec,
)
from headrace.drivers.memory.topics import immediate, within
from headrace.model import error_messages
from headrace.model.codec import dead_letter
from headrace.model.names import dead_topic
from headrace.model.topics import procs as rules
from headrace.model.topics.positions import FROM_NOW, FROM_START, parse_end, record_id
from headrace.model.topics.procs import Lag, OutstandingClaim, ProcChanges, ProcInfo, ProcState

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

ENTIRE = 2**62


class MemoryProcs:
    """The proc operations."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def create(self, spec: ProcSpec, changes: ProcChanges) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            if spec.name not in self.data.procs:
                cursor = self._seq_at(spec.topic, spec.offset)
                state = ProcState(
                    name=spec.name,
                    topic=spec.topic,
                    offset=spec.offset,
                    cursor=cursor,
                    created_at=self.now(),
                    ttl=spec.ttl_ms,
                )
                self.save(rules.seen(state, self.now()), None)
            state, claim = self.get(spec.name)
            if state.topic != spec.topic:
                raise error_messages.name_taken(spec.name, state.topic, spec.topic)
            return self.save(rules.changed(state, changes), claim)

        return immediate("procs.create", act)

    def _seq_at(self, topic: str, offset: str) -> int | None:
        if offset == FROM_START:
            return self._context.topics.topic_data(topic).first_seq
        if offset == FROM_NOW:
            return self._context.topics.topic_data(topic).next_seq
        return self._context.topics.position_after(topic, parse_end(offset))

    def claim(self, proc: str, token: str, count: int, max_bytes: int) -> Op[ClaimResult]:
        return immediate("procs.claim", lambda: self._claim(proc, token, count, max_bytes))

    def claim_span(self, proc: str, token: str, count: int) -> Op[ClaimResult]:
        def act() -> ClaimResult:
            return replace(self._claim(proc, token, count, ENTIRE), batches=())

        return immediate("procs.claim_span", act)

    def _claim(
        self, name: str, token: str, count: int, max_bytes: int, turn: int | None = None
    ) -> ClaimResult:
        state, claim = self.get(name)
        if state.status == "disabled":
            return ClaimResult(state="disabled", proc=name, error=state.last_error)
        if claim is not None:
            if claim.token == token:
                return self._read_claim(state, claim, max_bytes)
            if not claim.is_over(self.now()):
                return ClaimResult(state="busy", proc=name)
            state = self._nack(state, claim, failed=None, error=rules.TIMED_OUT)
            if state.status == "disabled":
                return ClaimResult(state="disabled", proc=name, error=state.last_error)
        return self._claim_records(state, token, count, max_bytes, turn)

    def _claim_records(
        self, state: ProcState, token: str, count: int, max_bytes: int, turn: int | None
    ) -> ClaimResult:
        topic = self._context.topics.topic_data(state.topic)
        position = self._position(state)
        if position is None or position >= topic.next_seq:
            return ClaimResult(state="empty", proc=state.name)
        if position < topic.first_seq:
            return ClaimResult(
                state="overtaken",
                proc=state.name,
                first_seq=position,
                last_seq=topic.first_seq - 1,
            )
        low = position
        high = min(rules.window(state, low, count), topic.next_seq - 1)
        batches = within(topic.cover(low, high), max_bytes)
        high = min(high, batches[-1].last_seq)
        now = self.now()
        claim = OutstandingClaim(token, low, high, rules.deadline(state, now))
        first_id, last_id = record_id(batches[0].ts, low), record_id(batches[-1].ts, high)
        self.save(rules.claimed(state, claim, first_id, last_id, now, turn), claim)
        return self._read_claim(state, claim, max_bytes)

    def _read_claim(self, state: ProcState, claim: OutstandingClaim, max_bytes: int) -> ClaimResult:
        topic = self._context.topics.topic_data(state.topic)
        batches = within(topic.cover(claim.first_seq, claim.last_seq), max_bytes)
        return ClaimResult(
            state="claimed",
            proc=state.name,
            topic=state.topic,
            first_seq=claim.first_seq,
            last_seq=min(claim.last_seq, batches[-1].last_seq),
            deadline=claim.deadline,
            skipped=state.skipped,
            batches=tuple(batches),
        )

    def claim_any(
        self, procs: Sequence[str], token: str, count: int, max_bytes: int
    ) -> Op[ClaimResult]:
        def act() -> ClaimResult:
            check_known(procs, list(self.data.procs))
            # Sorting is stable and a dict keeps the order in which procs were created.
            names = [name for name in self.data.procs if name in procs]
            turns = sorted(names, key=lambda name: rules.turn(self.get(name)[0]))
            turn = max((self.get(name)[0].turn for name in names), default=0) + 1
            # Twice: releasing one proc's expired claim may put a dead letter before another proc.
            for name in (*turns, *turns):
                result = self._claim(name, token, count, max_bytes, turn)
                if result.state in ("claimed", "overtaken"):
                    return result
            return ClaimResult(state="empty", proc="")

        return immediate("procs.claim_any", act)

    def extend(self, proc: str, token: str) -> Op[int | None]:
        def act() -> int | None:
            state, claim = self.get(proc)
            claim = check_token(proc, claim, token)
            deadline = rules.deadline(state, self.now())
            self.save(state, OutstandingClaim(token, claim.first_seq, claim.last_seq, deadline))
            return deadline

        return immediate("procs.extend", act)

    def ack(self, proc: str, token: str) -> Op[AckAnswer]:
        return immediate("procs.ack", lambda: self.acked(proc, token, None, None))

    def ack_commit(self, proc: str, token: str, call: CommitCall) -> Op[AckAnswer]:
        def write() -> Committed:
            return self._context.topics.append(call.parts)

        return immediate("procs.ack_commit", lambda: self.acked(proc, token, call.digest, write))

    def ack_part(self, proc: str, token: str, last_id: str, call: CommitCall) -> Op[AckAnswer]:
        def write() -> Committed:
            return self._context.topics.append(call.parts)

        return immediate(
            "procs.ack_part",
            lambda: self.acked(proc, token, call.digest, write if call.parts else None, last_id),
        )

    def acked(
        self,
        name: str,
        token: str,
        digest: str | None,
        write: Callable[[], Committed | None] | None,
        last_id: str | None = None,
    ) -> AckAnswer:
        """Move a proc behind its claim, or a part of it, and write something with it.

        Does nothing if that was done already.
        """
        state, claim = self.get(name)
        if claim is None or claim.token != token:
            return repeated_ack(state, token, digest)
        if last_id is not None:
            state, claim = rules.narrowed(state, claim, last_id)
        result = AckAnswer(state.last_claimed_range, write() if write else None)
        self.save(rules.acked(state, claim, ack_outcome(digest, result), self.now()), None)
        return result

    def ack_push(self, proc: str, token: str, calls: Sequence[PushCall]) -> Op[AckAnswer]:
        digest = digest_of(calls)

        def push() -> None:
            for call in calls:
                self._context.pushes.push_one(call)

        return immediate("procs.ack_push", lambda: self.acked(proc, token, digest, push))

    def nack(
        self,
        proc: str,
        token: str | None,
        failed_seq: int | None,
        error: str | None,
        *,
        is_final: bool = False,
    ) -> Op[str]:
        def act() -> str:
            state, claim = self.get(proc)
            if state.status == "disabled":
                raise error_messages.disabled(proc, state.last_error)
            if claim is None and token is None:
                raise error_messages.nothing_claimed(proc)
            claim = check_token(proc, claim, token)
            after = self._nack(state, claim, failed_seq, error, is_final=is_final)
            return after.last_acked_range

        return immediate("procs.nack", act)

    def _nack(
        self,
        state: ProcState,
        claim: OutstandingClaim,
        failed: int | None,
        error: str | None,
        *,
        is_final: bool = False,
    ) -> ProcState:
        after, dead = rules.nacked(state, claim, failed=failed, error=error, is_final=is_final)
        if dead is not None:
            [batch] = self._context.topics.topic_data(state.topic).cover(dead, dead)
            line = dead_letter(state.name, state.topic, batch, dead, error, state.attempts + 1)
            self._context.topics.append([CommitPart(dead_topic(state.name), 1, line)])
        self.save(after, None)
        return after

    def touch(self, proc: str) -> Op[None]:
        def act() -> None:
            state, claim = self.get(proc)
            self.save(rules.seen(state, self.now()), claim)

        return immediate("procs.touch", act)

    def info(self, proc: str) -> Op[ProcInfo]:
        return immediate("procs.info", lambda: self.info_of(*self.get(proc)), writes=False)

    def list(self, topic: str | None) -> Op[builtins.list[ProcInfo]]:
        def act() -> list[ProcInfo]:
            found = [self.get(name) for name in sorted(self.data.procs)]
            return [
                self.info_of(state, claim)
                for state, claim in found
                if topic is None or state.topic == topic
            ]

        return immediate("procs.list", act, writes=False)

    def disable(self, proc: str) -> Op[ProcInfo]:
        return immediate("procs.disable", lambda: self._switch(proc, "disabled"))

    def resume(self, proc: str) -> Op[ProcInfo]:
        return immediate("procs.resume", lambda: self._switch(proc, "active"))

    def _switch(self, proc: str, status: rules.Status) -> ProcInfo:
        state, claim = self.get(proc)
        if state.status == status:
            raise error_messages.already(proc, status)
        return self.save(rules.switched(state, status), claim)

    def delete(self, proc: str) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            last = self.info_of(*self.get(proc))
            self._context.topics.put(self.data.procs, proc, None)
            self._context.topics.put(self.data.definitions, proc, None)
            return last

        return immediate("procs.delete", act)

    def seek(self, proc: str, offset: str) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            state, _ = self.get(proc)
            cursor = self._seq_at(state.topic, offset)
            return self.save(rules.sought(state, offset, cursor), None)

        return immediate("procs.seek", act)

    def update(self, proc: str, changes: ProcChanges) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            state, claim = self.get(proc)
            return self.save(rules.changed(state, changes), claim)

        return immediate("procs.update", act)

    def lag(self, proc: str) -> Op[Lag]:
        def act() -> Lag:
            state, _ = self.get(proc)
            topic = self._context.topics.topic_data(state.topic)
            position = self._position(state)
            if position is None or position >= topic.next_seq:
                return Lag(0, 0.0)
            low = max(position, topic.first_seq)
            [oldest] = topic.cover(low, low)
            return rules.lag(state, low, topic.next_seq, oldest.ts, self.now())

        return immediate("procs.lag", act, writes=False)

    def pending(self, procs: Sequence[str] | None) -> Op[builtins.list[str]]:
        def act() -> list[str]:
            wanted = None if procs is None else meant(procs, self.owned())
            check_known(wanted or [], list(self.data.procs))
            names = sorted(self.data.procs if wanted is None else set(wanted))
            return [name for name in names if self._is_behind(self.get(name)[0])]

        return immediate("procs.pending", act, writes=False)

    def owned(self) -> builtins.list[tuple[str, str]]:
        """Pipelines and their procs, by name."""
        return [(owner, proc) for proc, (owner, _) in sorted(self.data.definitions.items())]

    def _is_behind(self, state: ProcState) -> bool:
        position = self._position(state)
        is_behind = (
            position is not None
            and position < self._context.topics.topic_data(state.topic).next_seq
        )
        return is_behind and state.status == "active"

    def get(self, name: str) -> tuple[ProcState, OutstandingClaim | None]:
        try:
            return self.data.procs[name]
        except KeyError:
            raise error_messages.unknown_proc(name) from None

    def save(self, state: ProcState, claim: OutstandingClaim | None) -> ProcInfo:
        self._context.topics.put(self.data.procs, state.name, (state, claim))
        return self.info_of(state, claim)

    def info_of(self, state: ProcState, claim: OutstandingClaim | None) -> ProcInfo:
        return rules.info(state, claim, self._position(state))

    def _position(self, state: ProcState) -> int | None:
        """The seq that the proc claims next, if it is known yet."""
        if state.cursor is not None or self._context.topics.topic_data(state.topic).next_seq == 0:
            return state.cursor
        return self._context.topics.position_after(state.topic, parse_end(state.offset))
