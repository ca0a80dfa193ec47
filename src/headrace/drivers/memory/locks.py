"""Locks in memory."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.locks import LockAnswer, LockCall, LockRow
from headrace.contract.op import Op
from headrace.drivers.memory.topics import immediate
from headrace.model.error_messages import lock_lost, unknown_lock
from headrace.model.locks import LockState, Turn, Waiting, next_in_line, turn_of, wake_word
from headrace.model.queues.channels import selects

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryLocks:
    """The operations on locks."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def acquire(self, call: LockCall) -> Op[LockAnswer]:
        return immediate("locks.acquire", lambda: self._acquire(call))

    def _acquire(self, call: LockCall) -> LockAnswer:
        locks, now, name = self.data.locks, self.now(), call.key_values
        lock = locks.states.get(name) or LockState(key_values=name)
        turn = turn_of(lock, locks.lines.get(name, ()), call.session, now)
        if turn.state == "free":
            self._leave(name, call.session)
            lock = LockState(
                key_values=name,
                fence=max(lock.fence, locks.floor[""]) + 1,
                session=call.session,
                holder=call.holder,
                since=now,
                until=now + call.lease_ms,
            )
            self._context.topics.put(locks.states, name, lock)
        if turn.state != "taken":
            return LockAnswer(state="granted", now=now, fence=lock.fence, until=lock.until)
        if call.place_ms is None:
            self._leave(name, call.session)
        elif not self._keep(call.session, now + call.place_ms):
            place = Waiting(call.session, now + call.place_ms)
            self._context.topics.put(locks.lines, name, (*locks.lines.get(name, ()), place))
        return LockAnswer(state="taken", now=now, next_at=turn.next_at, holder=turn.holder)

    def renew_places(self, sessions: Sequence[str], place_ms: int) -> Op[builtins.list[str]]:
        def act() -> list[str]:
            until = self.now() + place_ms
            return [session for session in sessions if self._keep(session, until)]

        return immediate("locks.renew_places", act)

    def _keep(self, session: str, until: int) -> bool:
        for name, line in list(self.data.locks.lines.items()):
            if any(place.session == session for place in line):
                kept = [p._replace(until=until) if p.session == session else p for p in line]
                self._context.topics.put(self.data.locks.lines, name, tuple(kept))
                return True
        return False

    def _leave(self, name: str, session: str) -> bool:
        line = self.data.locks.lines.get(name, ())
        left = tuple(place for place in line if place.session != session)
        if left != line:
            self._context.topics.put(self.data.locks.lines, name, left or None)
        return left != line

    def turn(self, key_values: str, session: str) -> Op[Turn]:
        def act() -> Turn:
            locks = self.data.locks
            line = locks.lines.get(key_values, ())
            return turn_of(locks.states.get(key_values), line, session, self.now())

        return immediate("locks.turn", act, writes=False)

    def extend(self, key_values: str, session: str, lease_ms: int) -> Op[int]:
        def act() -> int:
            lock = self._held(key_values, session)
            until = self.now() + lease_ms
            self._context.topics.put(self.data.locks.states, key_values, replace(lock, until=until))
            return until

        return immediate("locks.extend", act)

    def _held(self, key_values: str, session: str) -> LockState:
        lock = self.data.locks.states.get(key_values)
        if lock is None or lock.session != session:
            raise lock_lost(key_values)
        return lock

    def release(self, key_values: str, session: str) -> Op[bool]:
        def act() -> bool:
            lock = self.data.locks.states.get(key_values)
            is_held = lock is not None and lock.session == session
            if lock is not None and is_held:
                self._free(lock)
            if self._leave(key_values, session) or is_held:
                self._wake(key_values)
            return is_held

        return immediate("locks.release", act)

    def _wake(self, key_values: str) -> None:
        session = next_in_line(self.data.locks.lines.get(key_values, ()), self.now())
        if session is not None:
            self.data.announced.add(wake_word(key_values, session))

    def _free(self, lock: LockState) -> None:
        freed = replace(lock, session=None, holder=None, until=self.now())
        self._context.topics.put(self.data.locks.states, lock.key_values, freed)

    def guard(self, key_values: str, session: str) -> Op[int]:
        return immediate("locks.guard", lambda: self._held(key_values, session).fence)

    def force_release(self, key_values: str, fence: int | None) -> Op[LockRow]:
        def act() -> LockRow:
            lock = self.data.locks.states.get(key_values)
            if lock is None or lock.session is None or fence not in (None, lock.fence):
                raise unknown_lock(key_values, fence)
            row = self._row(lock)
            self._free(lock)
            self._wake(key_values)
            return row

        return immediate("locks.force_release", act)

    def list(self, select: str | None, after: str, limit: int) -> Op[builtins.list[LockRow]]:
        def act() -> list[LockRow]:
            states = self.data.locks.states
            names = [
                name
                for name in sorted(states)
                if name > after and (select is None or selects(select, name))
            ]
            rows = [(states[name], self._row(states[name])) for name in names]
            return [row for lock, row in rows if lock.session or row.waiting][:limit]

        return immediate("locks.list", act, writes=False)

    def _row(self, lock: LockState) -> LockRow:
        now = self.now()
        line = self.data.locks.lines.get(lock.key_values, ())
        return LockRow(
            key_values=lock.key_values,
            fence=lock.fence,
            holder=lock.holder,
            since=lock.since,
            until=lock.until,
            waiting=sum(place.until > now for place in line),
            now=now,
        )

    def forget(self, age_ms: int, limit: int) -> Op[int]:
        def act() -> int:
            locks, before = self.data.locks, self.now() - age_ms
            for name, line in list(locks.lines.items()):
                left = tuple(place for place in line if place.until > before)
                if left != line:
                    self._context.topics.put(locks.lines, name, left or None)
            idle = [
                lock
                for lock in locks.states.values()
                if lock.until <= before and lock.key_values not in locks.lines
            ][:limit]
            for lock in idle:
                self._context.topics.put(locks.states, lock.key_values, None)
            self._context.topics.put(
                locks.floor, "", max([locks.floor[""], *(lock.fence for lock in idle)])
            )
            return len(idle)

        return immediate("locks.forget", act)
