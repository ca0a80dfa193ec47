"""Procs in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from headrace.contract.op import Op
from headrace.contract.shared import ack_outcome, check_known, check_token, meant, repeated_ack
from headrace.contract.values import (
    AckResult,
    ClaimResult,
    CommitCall,
    Committed,
    Part,
    ProcSpec,
)
from headrace.drivers.memory.topics import MemoryTopics, immediate, within
from headrace.model import procs as rules
from headrace.model import refusals
from headrace.model.codec import dead_letter
from headrace.model.names import dead_topic
from headrace.model.position import FROM_NOW, FROM_START, parse_end, record_id
from headrace.model.procs import Hold, Lag, ProcChanges, ProcInfo, ProcState

ENTIRE = 2**62


class MemoryProcs(MemoryTopics):
    """The proc operations."""

    def create_proc(self, spec: ProcSpec, changes: ProcChanges) -> Op[ProcInfo]:
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
                self._save(rules.seen(state, self.now()), None)
            state, hold = self._get(spec.name)
            if state.topic != spec.topic:
                raise refusals.name_taken(spec.name, state.topic, spec.topic)
            return self._save(rules.changed(state, changes), hold)

        return immediate("create_proc", act)

    def _seq_at(self, topic: str, offset: str) -> int | None:
        if offset == FROM_START:
            return self.topic_data(topic).first_seq
        if offset == FROM_NOW:
            return self.topic_data(topic).next_seq
        return self.position_after(topic, parse_end(offset))

    def claim(self, proc: str, token: str, count: int, max_bytes: int) -> Op[ClaimResult]:
        return immediate("claim", lambda: self._claim(proc, token, count, max_bytes))

    def claim_span(self, proc: str, token: str, count: int) -> Op[ClaimResult]:
        def act() -> ClaimResult:
            return replace(self._claim(proc, token, count, ENTIRE), batches=())

        return immediate("claim_span", act)

    def _claim(self, name: str, token: str, count: int, max_bytes: int) -> ClaimResult:
        state, hold = self._get(name)
        if state.status == "disabled":
            return ClaimResult(state="disabled", proc=name, error=state.last_error)
        if hold is not None:
            if not hold.is_over(self.now()):
                return ClaimResult(state="held", proc=name)
            state = self._give_back(state, hold, failed=None, error=rules.TIMED_OUT)
            if state.status == "disabled":
                return ClaimResult(state="disabled", proc=name, error=state.last_error)
        return self._take(state, token, count, max_bytes)

    def _take(self, state: ProcState, token: str, count: int, max_bytes: int) -> ClaimResult:
        topic = self.topic_data(state.topic)
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
        hold = Hold(token, low, high, rules.deadline(state, now))
        first_id, last_id = record_id(batches[0].ts, low), record_id(batches[-1].ts, high)
        self._save(rules.claimed(state, hold, first_id, last_id, now), hold)
        return ClaimResult(
            state="claimed",
            proc=state.name,
            topic=state.topic,
            first_seq=low,
            last_seq=high,
            deadline=hold.deadline,
            skipped=state.skipped,
            batches=tuple(batches),
        )

    def claim_any(
        self, procs: Sequence[str], token: str, count: int, max_bytes: int
    ) -> Op[ClaimResult]:
        def act() -> ClaimResult:
            check_known(procs, list(self.data.procs))
            # Sorting is stable and a dict keeps the order in which procs were made.
            names = [name for name in self.data.procs if name in procs]
            turns = sorted(names, key=lambda name: self._get(name)[0].last_claimed_at)
            # Twice: to give one proc's expired claim back may put a dead letter before another.
            for name in (*turns, *turns):
                result = self._claim(name, token, count, max_bytes)
                if result.state in ("claimed", "overtaken"):
                    return result
            return ClaimResult(state="empty", proc="")

        return immediate("claim_any", act)

    def extend(self, proc: str, token: str) -> Op[int | None]:
        def act() -> int | None:
            state, hold = self._get(proc)
            held = check_token(proc, hold, token)
            deadline = rules.deadline(state, self.now())
            self._save(state, Hold(token, held.first_seq, held.last_seq, deadline))
            return deadline

        return immediate("extend", act)

    def ack(self, proc: str, token: str) -> Op[AckResult]:
        return immediate("ack", lambda: self.acked(proc, token, None, None))

    def ack_commit(self, proc: str, token: str, call: CommitCall) -> Op[AckResult]:
        def write() -> Committed:
            return self.append(call.parts)

        return immediate("ack_commit", lambda: self.acked(proc, token, call.digest, write))

    def ack_part(self, proc: str, token: str, last_id: str, call: CommitCall) -> Op[AckResult]:
        def write() -> Committed:
            return self.append(call.parts)

        return immediate(
            "ack_part",
            lambda: self.acked(proc, token, call.digest, write if call.parts else None, last_id),
        )

    def acked(
        self,
        name: str,
        token: str,
        digest: str | None,
        write: Callable[[], Committed | None] | None,
        last_id: str | None = None,
    ) -> AckResult:
        """Move a proc behind its claim, or a part of it, and write something with it.

        Unless that was done already.
        """
        state, hold = self._get(name)
        if hold is None or hold.token != token:
            return repeated_ack(state, token, digest)
        if last_id is not None:
            state, hold = rules.narrowed(state, hold, last_id)
        result = AckResult(state.last_claimed_range, write() if write else None)
        self._save(rules.acked(state, hold, ack_outcome(digest, result), self.now()), None)
        return result

    def reclaim(
        self, proc: str, token: str | None, failed_seq: int | None, error: str | None
    ) -> Op[str]:
        def act() -> str:
            state, hold = self._get(proc)
            if state.status == "disabled":
                raise refusals.disabled(proc, state.last_error)
            if hold is None and token is None:
                raise refusals.nothing_to_reclaim(proc)
            held = check_token(proc, hold, token)
            return self._give_back(state, held, failed=failed_seq, error=error).last_acked_range

        return immediate("reclaim", act)

    def _give_back(
        self, state: ProcState, hold: Hold, *, failed: int | None, error: str | None
    ) -> ProcState:
        after, dead = rules.reclaimed(state, hold, failed=failed, error=error)
        if dead is not None:
            [batch] = self.topic_data(state.topic).cover(dead, dead)
            line = dead_letter(state.name, state.topic, batch, dead, error, state.reclaims + 1)
            self.append([Part(dead_topic(state.name), 1, line)])
        self._save(after, None)
        return after

    def keep_proc(self, proc: str) -> Op[None]:
        def act() -> None:
            state, hold = self._get(proc)
            self._save(rules.seen(state, self.now()), hold)

        return immediate("keep_proc", act)

    def inspect(self, proc: str) -> Op[ProcInfo]:
        return immediate("inspect", lambda: self._info_of(*self._get(proc)), writes=False)

    def procs(self, topic: str | None) -> Op[list[ProcInfo]]:
        def act() -> list[ProcInfo]:
            found = [self._get(name) for name in sorted(self.data.procs)]
            return [
                self._info_of(state, hold)
                for state, hold in found
                if topic is None or state.topic == topic
            ]

        return immediate("procs", act, writes=False)

    def disable(self, proc: str) -> Op[ProcInfo]:
        return immediate("disable", lambda: self._switch(proc, "disabled"))

    def resume(self, proc: str) -> Op[ProcInfo]:
        return immediate("resume", lambda: self._switch(proc, "active"))

    def _switch(self, proc: str, status: rules.Status) -> ProcInfo:
        state, hold = self._get(proc)
        if state.status == status:
            raise refusals.already(proc, status)
        return self._save(rules.switched(state, status), hold)

    def destroy(self, proc: str) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            last = self._info_of(*self._get(proc))
            self.put(self.data.procs, proc, None)
            self.put(self.data.definitions, proc, None)
            return last

        return immediate("destroy", act)

    def seek(self, proc: str, offset: str) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            state, _ = self._get(proc)
            cursor = self._seq_at(state.topic, offset)
            return self._save(rules.sought(state, offset, cursor), None)

        return immediate("seek", act)

    def update_proc(self, proc: str, changes: ProcChanges) -> Op[ProcInfo]:
        def act() -> ProcInfo:
            state, hold = self._get(proc)
            return self._save(rules.changed(state, changes), hold)

        return immediate("update_proc", act)

    def lag(self, proc: str) -> Op[Lag]:
        def act() -> Lag:
            state, _ = self._get(proc)
            topic = self.topic_data(state.topic)
            position = self._position(state)
            if position is None or position >= topic.next_seq:
                return Lag(0, 0.0)
            low = max(position, topic.first_seq)
            [oldest] = topic.cover(low, low)
            return rules.lag(state, low, topic.next_seq, oldest.ts, self.now())

        return immediate("lag", act, writes=False)

    def pending(self, procs: Sequence[str] | None) -> Op[list[str]]:
        def act() -> list[str]:
            wanted = None if procs is None else meant(procs, self._owned())
            check_known(wanted or [], list(self.data.procs))
            names = sorted(self.data.procs if wanted is None else set(wanted))
            return [name for name in names if self._is_behind(self._get(name)[0])]

        return immediate("pending", act, writes=False)

    def _owned(self) -> list[tuple[str, str]]:
        """Pipelines and their procs, by name."""
        return [(owner, proc) for proc, (owner, _) in sorted(self.data.definitions.items())]

    def _is_behind(self, state: ProcState) -> bool:
        position = self._position(state)
        is_behind = position is not None and position < self.topic_data(state.topic).next_seq
        return is_behind and state.status == "active"

    def _get(self, name: str) -> tuple[ProcState, Hold | None]:
        try:
            return self.data.procs[name]
        except KeyError:
            raise refusals.unknown_proc(name) from None

    def _save(self, state: ProcState, hold: Hold | None) -> ProcInfo:
        self.put(self.data.procs, state.name, (state, hold))
        return self._info_of(state, hold)

    def _info_of(self, state: ProcState, hold: Hold | None) -> ProcInfo:
        return rules.info(state, hold, self._position(state))

    def _position(self, state: ProcState) -> int | None:
        """The seq the proc hands out next, if it can be told yet."""
        if state.cursor is not None or self.topic_data(state.topic).next_seq == 0:
            return state.cursor
        return self.position_after(state.topic, parse_end(state.offset))
