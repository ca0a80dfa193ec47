"""Locks in SQL."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.locks import LockAnswer, LockCall, LockRow
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.statements import NoReply, Notify, Row
from headrace.model.error_messages import lock_lost, unknown_lock
from headrace.model.locks import LockState, Turn, Waiting, next_in_line, turn_of, wake_word
from headrace.model.queues.channels import selects

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

PAGE = 1000


class SqlLocks:
    """The operations on locks over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def acquire(self, call: LockCall) -> Op[LockAnswer]:
        return Op("locks.acquire", lambda: self._acquire(call), repeatable=True, durable=True)

    def _acquire(self, call: LockCall) -> Steps[LockAnswer]:
        id, lock, line, now = yield from self._locked(call.key_values)
        turn = turn_of(lock, line, call.session, now)
        is_in_line = any(place.session == call.session for place in line)
        if turn.state == "mine":
            return _granted(lock.fence, lock.until, now)
        if turn.state == "free":
            until = now + call.lease_ms
            took = yield self.sql.grant_lock(
                id=id, session=call.session, holder=call.holder, since=now, until=until
            )
            if is_in_line:
                yield NoReply((self.sql.drop_place(session=call.session),))
            return _granted(took[0]["fence"], until, now)
        if call.place_ms is not None:
            until = now + call.place_ms
            yield self.sql.save_place(lock=id, session=call.session, until=until)
        elif is_in_line:
            yield NoReply((self.sql.drop_place(session=call.session),))
        return LockAnswer(state="taken", now=now, next_at=turn.next_at, holder=turn.holder)

    def _locked(self, key_values: str) -> Steps[tuple[int, LockState, builtins.list[Waiting], int]]:
        """A lock whose row this transaction has locked, then its line and the time."""
        while True:
            found, line, clock = yield (
                self.sql.load_lock(key_values=key_values),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            if found:
                return found[0]["id"], _state(found[0]), _line(line), clock[0]["now"]
            # Again, even if ``locks.forget`` removes it at the same moment.
            yield self.sql.add_lock(key_values=key_values)

    def renew_places(self, sessions: Sequence[str], place_ms: int) -> Op[builtins.list[str]]:
        def steps() -> Steps[list[str]]:
            kept = yield self.sql.renew_places(
                sessions=list(sessions), ttl=place_ms, now=self.clock()
            )
            return [row["session"] for row in kept]

        return Op("locks.renew_places", steps, relaxed=True, repeatable=True)

    def turn(self, key_values: str, session: str) -> Op[Turn]:
        def steps() -> Steps[Turn]:
            found, line, clock = yield (
                self.sql.find_lock(key_values=key_values),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            lock = _state(found[0]) if found else None
            return turn_of(lock, _line(line), session, clock[0]["now"])

        return Op("locks.turn", steps, writes=False)

    def extend(self, key_values: str, session: str, lease_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            kept = yield self.sql.extend_lock(
                key_values=key_values, session=session, lease=lease_ms, now=self.clock()
            )
            if not kept:
                raise lock_lost(key_values)
            until: int = kept[0]["until"]
            return until

        return Op("locks.extend", steps, repeatable=True, durable=True)

    def release(self, key_values: str, session: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            freed, left, line, clock = yield (
                self.sql.release_lock(key_values=key_values, session=session, now=self.clock()),
                self.sql.drop_place(session=session),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            if freed or left:
                yield from self._wake(key_values, _line(line), clock[0]["now"])
            return bool(freed)

        return Op("locks.release", steps)

    def _wake(self, key_values: str, line: Sequence[Waiting], now: int) -> Steps[None]:
        # Only the next in line: nothing has changed for the others.
        session = next_in_line(line, now)
        if session is not None:
            yield Notify(frozenset({wake_word(key_values, session)}))

    def guard(self, key_values: str, session: str) -> Op[int]:
        def steps() -> Steps[int]:
            found = yield self.sql.guard_lock(key_values=key_values, session=session)
            if not found:
                raise lock_lost(key_values)
            fence: int = found[0]["fence"]
            return fence

        return Op("locks.guard", steps)

    def force_release(self, key_values: str, fence: int | None) -> Op[LockRow]:
        def steps() -> Steps[LockRow]:
            found, line, clock = yield (
                self.sql.load_lock(key_values=key_values),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            lock = _state(found[0]) if found else None
            if lock is None or lock.session is None or fence not in (None, lock.fence):
                raise unknown_lock(key_values, fence)
            yield self.sql.release_lock(
                key_values=key_values, session=lock.session, now=self.clock()
            )
            now = clock[0]["now"]
            yield from self._wake(key_values, _line(line), now)
            return LockRow(
                key_values=key_values,
                fence=lock.fence,
                holder=lock.holder,
                since=lock.since,
                until=lock.until,
                waiting=sum(place.until > now for place in _line(line)),
                now=now,
            )

        return Op("locks.force_release", steps)

    def list(self, select: str | None, after: str, limit: int) -> Op[builtins.list[LockRow]]:
        def steps() -> Steps[list[LockRow]]:
            found: list[LockRow] = []
            last, most = after, limit if select is None else PAGE
            while len(found) < limit:
                rows = yield self.sql.list_locks(after=last, limit=most, now=self.clock())
                page = [LockRow(**row) for row in rows]
                found += [row for row in page if select is None or selects(select, row.key_values)]
                if len(page) < most:
                    break
                last = page[-1].key_values
            return found[:limit]

        return Op("locks.list", steps, writes=False)

    def forget(self, age_ms: int, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            _, idle = yield (
                self.sql.drop_places(age=age_ms, now=self.clock()),
                self.sql.idle_locks(age=age_ms, limit=limit, now=self.clock()),
            )
            if not idle:
                return 0
            # A statement of its own, so that it sees places added before we locked the rows.
            gone = yield self.sql.drop_locks(ids=[row["id"] for row in idle])
            if gone:
                yield self.sql.raise_fence_floor(fence=max(row["fence"] for row in gone))
            return len(gone)

        return Op("locks.forget", steps, durable=True)


def _state(row: Row) -> LockState:
    return LockState(**{name: row[name] for name in LockState.__struct_fields__})


def _line(rows: Sequence[Row]) -> list[Waiting]:
    return [Waiting(row["session"], row["until"]) for row in rows]


def _granted(fence: int, until: int, now: int) -> LockAnswer:
    return LockAnswer(state="granted", now=now, fence=fence, until=until)
