"""Locks in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.locks import LockAnswer, LockCall, LockRow
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.sql import Announce, Finally, Row
from headrace.drivers.relational.topics import Topics
from headrace.model.channels import selects
from headrace.model.locks import LockState, Turn, Waiting, turn_of, wake_word
from headrace.model.refusals import lock_lost, unknown_lock

PAGE = 1000


class Locks(Topics):
    """The operations on locks over a dialect's statements."""

    def acquire_lock(self, call: LockCall) -> Op[LockAnswer]:
        return Op("acquire_lock", lambda: self._acquire(call), repeatable=True, durable=True)

    def _acquire(self, call: LockCall) -> Steps[LockAnswer]:
        id, lock, line, now = yield from self._locked(call.key_values)
        turn = turn_of(lock, line, call.session, now)
        is_in_line = any(place.session == call.session for place in line)
        if turn.state == "mine":
            return _granted(lock.fence, lock.until, now)
        if turn.state == "free":
            until = now + call.lease_ms
            took = yield self.sql.take_lock(
                id=id, session=call.session, holder=call.holder, since=now, until=until
            )
            if is_in_line:
                yield Finally((self.sql.drop_place(session=call.session),))
            return _granted(took[0]["fence"], until, now)
        if call.place_ms is not None:
            until = now + call.place_ms
            yield self.sql.save_place(lock=id, session=call.session, until=until)
        elif is_in_line:
            yield Finally((self.sql.drop_place(session=call.session),))
        return LockAnswer(state="taken", now=now, next_at=turn.next_at, holder=turn.holder)

    def _locked(self, key_values: str) -> Steps[tuple[int, LockState, list[Waiting], int]]:
        """A lock for this transaction alone, its line and the time, both read afterwards."""
        while True:
            found, line, clock = yield (
                self.sql.load_lock(key_values=key_values),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            if found:
                return found[0]["id"], _state(found[0]), _line(line), clock[0]["now"]
            # Again, also if somebody forgets it just now.
            yield self.sql.add_lock(key_values=key_values)

    def keep_place(self, session: str, place_ms: int) -> Op[bool]:
        def steps() -> Steps[bool]:
            kept = yield self.sql.keep_place(session=session, ttl=place_ms, now=self.clock())
            return bool(kept)

        return Op("keep_place", steps, relaxed=True, repeatable=True)

    def lock_turn(self, key_values: str, session: str) -> Op[Turn]:
        def steps() -> Steps[Turn]:
            found, line, clock = yield (
                self.sql.find_lock(key_values=key_values),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            lock = _state(found[0]) if found else None
            return turn_of(lock, _line(line), session, clock[0]["now"])

        return Op("lock_turn", steps, writes=False)

    def extend_lock(self, key_values: str, session: str, lease_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            kept = yield self.sql.extend_lock(
                key_values=key_values, session=session, lease=lease_ms, now=self.clock()
            )
            if not kept:
                raise lock_lost(key_values)
            until: int = kept[0]["until"]
            return until

        return Op("extend_lock", steps, repeatable=True, durable=True)

    def release_lock(self, key_values: str, session: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            freed, left, line = yield (
                self.sql.free_lock(key_values=key_values, session=session, now=self.clock()),
                self.sql.drop_place(session=session),
                self.sql.lock_line(key_values=key_values),
            )
            if freed or left:
                yield from self._wake(key_values, line)
            return bool(freed)

        return Op("release_lock", steps)

    def _wake(self, key_values: str, line: Sequence[Row]) -> Steps[None]:
        # Only where somebody waits: others pay for a notification too.
        if line:
            yield Announce(frozenset({wake_word(key_values)}))

    def guard_lock(self, key_values: str, session: str) -> Op[int]:
        def steps() -> Steps[int]:
            found = yield self.sql.guard_lock(key_values=key_values, session=session)
            if not found:
                raise lock_lost(key_values)
            fence: int = found[0]["fence"]
            return fence

        return Op("guard_lock", steps)

    def break_lock(self, key_values: str, fence: int | None) -> Op[LockRow]:
        def steps() -> Steps[LockRow]:
            found, line, clock = yield (
                self.sql.load_lock(key_values=key_values),
                self.sql.lock_line(key_values=key_values),
                self.sql.read_clock(now=self.clock()),
            )
            lock = _state(found[0]) if found else None
            if lock is None or lock.session is None or fence not in (None, lock.fence):
                raise unknown_lock(key_values, fence)
            yield self.sql.free_lock(key_values=key_values, session=lock.session, now=self.clock())
            yield from self._wake(key_values, line)
            now = clock[0]["now"]
            return LockRow(
                key_values=key_values,
                fence=lock.fence,
                holder=lock.holder,
                since=lock.since,
                until=lock.until,
                waiting=sum(place.until > now for place in _line(line)),
                now=now,
            )

        return Op("break_lock", steps)

    def locks(self, select: str | None, after: str, limit: int) -> Op[list[LockRow]]:
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

        return Op("locks", steps, writes=False)

    def forget_locks(self, age_ms: int, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            _, idle = yield (
                self.sql.drop_places(age=age_ms, now=self.clock()),
                self.sql.idle_locks(age=age_ms, limit=limit, now=self.clock()),
            )
            if not idle:
                return 0
            # A statement of its own: it sees the places of those who came before we had them.
            gone = yield self.sql.drop_locks(ids=[row["id"] for row in idle])
            if gone:
                yield self.sql.raise_fence_floor(fence=max(row["fence"] for row in gone))
            return len(gone)

        return Op("forget_locks", steps, durable=True)


def _state(row: Row) -> LockState:
    return LockState(**{name: row[name] for name in LockState.__struct_fields__})


def _line(rows: Sequence[Row]) -> list[Waiting]:
    return [Waiting(row["session"], row["until"]) for row in rows]


def _granted(fence: int, until: int, now: int) -> LockAnswer:
    return LockAnswer(state="granted", now=now, fence=fence, until=until)
