"""The guarantees of locks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.contract.locks import LockAnswer, LockCall, LockRow
from headrace.core.where import where
from headrace.errors import (
    InvalidKeyValues,
    InvalidOption,
    LockLost,
    LockTaken,
    NotConnected,
    UnknownLock,
)
from headrace.model.locks import wake_word
from headrace.model.query.key_values import KeyValues
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.queue_base import StoreOps, slow_answers
from headrace.testing.contract.queue_clients import soon
from headrace.testing.sync_facade import SyncFacade, closing_soon

SITE = KeyValues.of({"site": "shop"}).form
LEASE = 10_000
PLACE = 3_000
HOUR = 3600


def ask(ops: StoreOps, session: str, *, waits: bool = False, name: str = SITE) -> LockAnswer:
    """Request a lock, optionally as a waiter."""
    call = LockCall(
        key_values=name,
        session=session,
        lease_ms=LEASE,
        place_ms=PLACE if waits else None,
        holder=f"holder of {session}",
    )
    answer: LockAnswer = ops.locks.acquire(call)
    return answer


def turn(ops: StoreOps, session: str) -> str:
    state: str = ops.locks.turn(SITE, session).state
    return state


class LockContract(Contract):
    """Which session holds a lock, by which fencing number, and which waiter is next."""

    needed_parts = frozenset({"locks"})

    @pytest.fixture
    def ops(self, hr: Any) -> StoreOps:
        return StoreOps(hr)

    def test_one_session_holds_a_lock(self, ops: StoreOps, clock: FakeClock) -> None:
        """After a release, another session holds it with a higher number."""
        assert turn(ops, "a") == "free"
        answer = ask(ops, "a")
        expected = LockAnswer(
            state="granted", now=clock.now, fence=answer.fence, until=clock.now + LEASE
        )
        assert answer == expected
        assert (turn(ops, "a"), turn(ops, "b")) == ("mine", "taken")
        taken = ask(ops, "b")
        assert taken == LockAnswer(
            state="taken", now=clock.now, next_at=clock.now + LEASE, holder="holder of a"
        )
        assert ops.locks.release(SITE, "b") is False
        assert ops.locks.release(SITE, "a") is True
        assert ask(ops, "b").fence > answer.fence

    def test_a_repeated_request_gets_the_same_answer(self, ops: StoreOps, clock: FakeClock) -> None:
        """A session whose answer was lost may repeat the call. The lease stays as it is."""
        first = ask(ops, "a")
        clock.advance(1)
        again = ask(ops, "a")
        assert (again.fence, again.until) == (first.fence, first.until)

    def test_a_lock_is_identified_by_all_its_key_values(self, ops: StoreOps) -> None:
        """The types of the values count as well. A subset of the key-values is a different lock."""
        for n, given in enumerate(({"a": 1}, {"a": "1"}, {"a": 1, "b": 1})):
            name = KeyValues.of(given).form
            assert ask(ops, f"{n}", name=name).state == "granted"
            assert ask(ops, "x", name=name).state == "taken"

    def test_fencing_numbers_only_grow(
        self, ops: StoreOps, clock: FakeClock, connect: Connect
    ) -> None:
        """They grow after releases, after expired leases, and after the lock was deleted as
        unused."""
        seen = []
        for n in range(3):
            seen.append(ask(ops, f"released-{n}").fence)
            ops.locks.release(SITE, f"released-{n}")
        for n in range(2):
            seen.append(ask(ops, f"late-{n}").fence)
            clock.advance(LEASE / 1000)
        clock.advance(HOUR)
        assert ops.locks.forget(HOUR * 1000, 100) == 1
        seen.append(ask(StoreOps(connect()), "new").fence)
        other = KeyValues.of({"site": "other"}).form
        ask(ops, "x", name=other)
        ops.locks.release(SITE, "new")
        seen.append(ask(ops, "last").fence)
        assert seen == sorted(set(seen))

    def test_an_expired_lease_is_taken_over(self, ops: StoreOps, clock: FakeClock) -> None:
        """The next request takes it over, and nothing before it: until then the holder may extend
        the lease."""
        first = ask(ops, "a")
        clock.advance(LEASE / 1000 - 0.001)
        assert ask(ops, "b").state == "taken"
        clock.advance(0.001)
        assert turn(ops, "b") == "free"
        assert ops.locks.extend(SITE, "a", 1000) == clock.now + 1000
        assert ask(ops, "b").state == "taken"
        clock.advance(1)
        assert ask(ops, "b").fence > first.fence
        with pytest.raises(LockLost) as caught:
            ops.locks.extend(SITE, "a", 1000)
        assert caught.value.key_values == SITE
        assert ops.locks.release(SITE, "a") is False
        assert turn(ops, "b") == "mine"

    def test_waiters_are_served_in_order(self, ops: StoreOps) -> None:
        """A waiter also goes before requests that do not wait, however often those are repeated."""
        ask(ops, "holder")
        for session in ("a", "b", "c", "b", "a"):
            assert ask(ops, session, waits=True).state == "taken"
        ops.locks.release(SITE, "holder")
        order = []
        for _ in range(3):
            free = [s for s in ("c", "b", "new", "a") if turn(ops, s) == "free"]
            for session in ("c", "b", "new", "a"):
                if ask(ops, session, waits=session != "new").state == "granted":
                    order.append((session, free))
                    ops.locks.release(SITE, session)
                    break
        assert order == [("a", ["a"]), ("b", ["b"]), ("c", ["c"])]
        assert ask(ops, "new").state == "granted"

    def test_a_waiter_that_does_not_poll_is_skipped(self, ops: StoreOps, clock: FakeClock) -> None:
        """A dead waiter delays the others only until its place expires. A waiter that returns has
        its place again."""
        ask(ops, "holder")
        ask(ops, "dead", waits=True)
        ask(ops, "living", waits=True)
        ops.locks.release(SITE, "holder")
        clock.advance(PLACE / 1000 - 1)
        assert ops.locks.renew_places(["living"], PLACE) == ["living"]
        assert ops.locks.turn(SITE, "living").next_at == clock.now + 1000
        clock.advance(1)
        assert (turn(ops, "living"), turn(ops, "new")) == ("free", "taken")
        assert ask(ops, "living", waits=True).state == "granted"
        assert ops.locks.renew_places(["living", "dead"], PLACE) == ["dead"]
        ask(ops, "new", waits=True)
        ops.locks.release(SITE, "living")
        assert (turn(ops, "dead"), turn(ops, "new")) == ("free", "taken")

    def test_a_waiter_gives_up_its_place(self, ops: StoreOps) -> None:
        """It does so by a release, or by a request that does not wait."""
        ask(ops, "holder")
        for session in ("a", "b", "c"):
            ask(ops, session, waits=True)
        assert ops.locks.release(SITE, "a") is False
        assert ask(ops, "b").state == "taken"
        assert ops.locks.renew_places(["b"], PLACE) == []
        ops.locks.release(SITE, "holder")
        assert [turn(ops, s) for s in "abc"] == ["taken", "taken", "free"]

    def test_a_released_lock_wakes_the_next_waiter(self, ops: StoreOps, clock: FakeClock) -> None:
        """So does a lock that was force-released, and a waiter that gives up its place. Dead
        waiters are skipped."""
        a, b, c = (f"{name}'s client: and more" for name in "abc")
        ask(ops, "holder")
        for session in (a, b, c):
            ask(ops, session, waits=True)
        waiters = {session: ops.store.waiter(wake_word(SITE, session)) for session in (a, b, c)}
        try:
            ops.locks.release(SITE, "holder")
            assert ops.is_woken(waiters[a])
            ops.locks.release(SITE, a)
            assert ops.is_woken(waiters[b])
            ask(ops, b)
            ops.locks.force_release(SITE, None)
            assert ops.is_woken(waiters[c])
            ask(ops, c)
            for session in (a, b):
                ask(ops, session, waits=True)
            clock.advance(PLACE / 1000)
            ops.locks.renew_places([b], PLACE)
            ops.locks.release(SITE, c)
            assert ops.is_woken(waiters[b])
        finally:
            for waiter in waiters.values():
                waiter.close()

    def test_locks_are_listed(self, ops: StoreOps, clock: FakeClock) -> None:
        """The list has locks with a holder or a waiter, all of them or by query. It does not reveal
        sessions."""
        names = {n: KeyValues.of({"n": n}).form for n in range(4)}
        fences = [ask(ops, f"s{n}", name=names[n]).fence for n in range(4)]
        ask(ops, "w", name=names[2], waits=True)
        ops.locks.release(names[1], "s1")
        ops.locks.release(names[2], "s2")
        rows = ops.locks.list(None, "", 10)
        held = {"since": clock.now, "until": clock.now + LEASE, "now": clock.now}
        assert rows == [
            LockRow(key_values=names[0], fence=fences[0], holder="holder of s0", **held),
            LockRow(
                key_values=names[2],
                fence=fences[2],
                since=clock.now,
                until=clock.now,
                waiting=1,
                now=clock.now,
            ),
            LockRow(key_values=names[3], fence=fences[3], holder="holder of s3", **held),
        ]
        assert ops.locks.list(where(n__gt=0).form, "", 10) == rows[1:]
        assert ops.locks.list(None, names[0], 1) == rows[1:2]
        clock.advance(PLACE / 1000)
        assert [row.key_values for row in ops.locks.list(None, "", 10)] == [names[0], names[3]]

    def test_a_lock_is_force_released(self, ops: StoreOps) -> None:
        """From any holder, or only from one with a given number. The holder finds its lock lost."""
        fence = ask(ops, "a").fence
        with pytest.raises(UnknownLock):
            ops.locks.force_release(SITE, fence + 1)
        row = ops.locks.force_release(SITE, fence)
        assert (row.holder, row.fence) == ("holder of a", fence)
        with pytest.raises(UnknownLock):
            ops.locks.force_release(SITE, None)
        with pytest.raises(LockLost):
            ops.locks.extend(SITE, "a", 1000)
        assert ask(ops, "b").fence > fence

    def test_unused_locks_are_deleted(self, ops: StoreOps, clock: FakeClock) -> None:
        """Maintenance deletes some at a time. Locks with a holder or a waiter stay."""
        for n in range(5):
            name = KeyValues.of({"n": n}).form
            ask(ops, f"s{n}", name=name)
            ops.locks.release(name, f"s{n}")
        clock.advance(HOUR)
        ask(ops, "late", name=KeyValues.of({"n": 9}).form)
        ask(ops, "held")
        ask(ops, "w", waits=True)
        assert [ops.locks.forget(HOUR * 1000, 3) for _ in range(3)] == [3, 2, 0]
        clock.advance(HOUR + LEASE / 1000)
        ops.locks.extend(SITE, "held", LEASE)
        assert ops.locks.renew_places(["w"], PLACE)
        assert ops.locks.forget(HOUR * 1000, 3) == 1
        assert [row.waiting for row in ops.locks.list(None, "", 9)] == [1]

    @needs("transactions")
    def test_a_guarded_transaction_needs_the_lock(self, hr: Any, ops: StoreOps) -> None:
        """Only the holder of the lock writes in it. A lost lock makes the transaction fail."""
        fence = ask(ops, "a").fence
        with hr.transaction() as tx:
            assert StoreOps(tx).locks.guard(SITE, "a") == fence
            tx.commit("t", {"n": 1})
        ops.locks.force_release(SITE, None)
        with pytest.raises(LockLost), hr.transaction() as tx:
            tx.commit("t", {"n": 2})
            StoreOps(tx).locks.guard(SITE, "a")
        assert hr.topic("t").length() == 1


class LockClientContract(Contract):
    """Locks through the public client."""

    needed_parts = frozenset({"locks"})

    def test_a_lock_in_a_block(self, hr: Any, connect: Connect) -> None:
        """A with block holds the lock and releases it at its end. Fencing numbers grow."""
        other = connect()
        with hr.lock({"site": "shop"}) as lock:
            assert (lock.held, lock.lost) == (True, False)
            first = lock.token
            with pytest.raises(LockTaken) as caught, other.lock({"site": "shop"}, wait=0):
                pytest.fail("two have it")
            assert caught.value.retryable
            assert "host" not in caught.value.key_values
            [info] = other.locks.list()
            assert (info.token, info.waiting, info.is_overdue) == (first, 0, False)
        assert not lock.held
        assert hr.locks.list() == []
        with other.lock({"site": "shop"}, wait=0) as lock:
            assert lock.token > first

    def test_a_lock_by_hand(self, hr: Any, clock: FakeClock) -> None:
        """The same object acquires, extends, releases and acquires again."""
        lock = hr.lock({"site": "shop"}, lease="10s", heartbeat=False)
        with pytest.raises(LockLost):
            lock.token  # noqa: B018  # it raises
        lock.release()
        first = lock.acquire().token
        assert lock.acquire().token == first
        clock.advance(9)
        lock.extend()
        lock.extend("20s")
        [info] = hr.locks.list(where(site="shop"))
        assert info.until.timestamp() * 1000 == clock.now + 20_000
        lock.release()
        lock.release()
        assert lock.acquire(wait=0).token > first
        lock.release()

    def test_a_lease_is_counted_from_before_the_request(
        self, hr: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slow answer must not make a lease seem longer than the one the store granted."""
        clock = slow_answers(hr, monkeypatch, "lock_view", "_sync.locks", "_async.locks")
        lock = hr.lock({"site": "shop"}, lease="10s", heartbeat=False)
        lock.acquire()
        assert clock[0] > 100
        clock[0] = 109.9
        assert not lock.lost
        clock[0] = 110.0
        assert lock.lost
        clock[0] = 105.0
        lock.extend()
        clock[0] = 114.9
        assert lock.held
        clock[0] = 115.0
        assert lock.lost

    def test_a_lost_lock_raises_at_the_end_of_its_block(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        """Unless the block fails with an error of its own."""
        other = connect()
        mine = hr.lock({"site": "shop"}, lease=5, heartbeat=False)
        mine.acquire()
        clock.advance(5)
        theirs = other.lock({"site": "shop"}, wait=0)
        theirs.acquire()
        with pytest.raises(LockLost):
            mine.extend()
        assert (mine.lost, mine.held) == (True, False)
        with pytest.raises(LockLost):
            mine.release()
        theirs.release()
        with pytest.raises(LockLost), hr.lock({"site": "shop"}, heartbeat=False):
            hr.locks.force_release({"site": "shop"})
        with pytest.raises(ZeroDivisionError), hr.lock({"site": "shop"}, heartbeat=False):
            hr.locks.force_release({"site": "shop"})
            raise ZeroDivisionError

    def test_heartbeats_report_a_lost_lock(self, hr: Any) -> None:
        """They call ``on_lost``."""
        is_lost = threading.Event()
        lock = hr.lock({"site": "shop"}, lease=0.15, on_lost=is_lost.set)
        lock.acquire()
        hr.locks.force_release({"site": "shop"})
        if isinstance(hr, SyncFacade):
            for _ in range(5000):
                hr.pump()
                if is_lost.is_set():
                    break
        assert is_lost.wait(10)
        assert lock.lost
        with pytest.raises(LockLost):
            lock.release()

    def test_heartbeats_keep_a_lock(self, hr: Any, connect: Connect, clock: FakeClock) -> None:
        """The lock is held for longer than its lease."""
        with hr.lock({"site": "shop"}, lease=0.15):
            clock.advance(1)
            if isinstance(hr, SyncFacade):
                for _ in range(5000):
                    hr.pump()
                    if not hr.locks.list()[0].is_overdue:
                        break
            waiting = threading.Event()
            for _ in range(1000):
                if not hr.locks.list()[0].is_overdue:
                    break
                waiting.wait(0.01)
            with pytest.raises(LockTaken):
                connect().lock({"site": "shop"}, wait=0).acquire()

    def test_a_waiter_gets_a_released_lock(self, hr: Any, connect: Connect) -> None:
        other = connect()
        theirs = other.lock({"site": "shop"}, heartbeat=False)
        theirs.acquire()
        with soon(theirs.release), hr.lock({"site": "shop"}, wait=20) as lock:
            assert lock.held

    def test_a_waiter_gets_a_lock_whose_lease_ends(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        """It needs no notification for it."""
        other = connect()
        other.lock({"site": "shop"}, lease=5, heartbeat=False).acquire()
        with (
            soon(lambda: clock.advance(5)),
            hr.lock({"site": "shop"}, wait=20, heartbeat=False) as lock,
        ):
            assert lock.held

    def test_a_waiter_that_timed_out_loses_its_place(self, hr: Any, connect: Connect) -> None:
        """It no longer delays other waiters."""
        other = connect()
        theirs = other.lock({"site": "shop"}, heartbeat=False)
        theirs.acquire()
        with pytest.raises(LockTaken) as caught:
            hr.lock({"site": "shop"}, wait=0.01).acquire()
        assert caught.value.holder
        assert [info.waiting for info in hr.locks.list()] == [0]

    def test_a_closed_client_ends_the_wait(self, hr: Any, connect: Connect) -> None:
        """The waiter gives up its place."""
        other = connect()
        with other.lock({"site": "shop"}):
            with closing_soon(hr), pytest.raises(NotConnected):
                hr.lock({"site": "shop"}).acquire()
            assert [info.waiting for info in other.locks.list()] == [0]

    def test_a_restarted_process_keeps_its_session(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        """It holds the lock that it acquired before the restart."""
        lock = hr.lock({"site": "shop"}, lease=10, heartbeat=False)
        lock.acquire()
        clock.advance(9)
        again = connect().lock({"site": "shop"}, lease=10, session=lock.session, heartbeat=False)
        assert again.acquire(wait=0).token == lock.token
        [info] = hr.locks.list()
        assert info.until.timestamp() * 1000 == clock.now + 10_000

    @needs("transactions")
    def test_a_guarded_transaction(self, hr: Any) -> None:
        """It is refused if the lock is lost."""
        with hr.lock({"site": "shop"}, heartbeat=False) as lock, hr.transaction() as tx:
            assert tx.guard(lock) == lock.token
        with pytest.raises(LockLost), hr.transaction() as tx:
            tx.guard(lock)

    @pytest.mark.parametrize("given", [{}, {"_site": 1}, {"site": None}, "shop"])
    def test_wrong_key_values_are_refused(self, hr: Any, given: Any) -> None:
        """The error's path names the field."""
        for act in (hr.lock, hr.locks.force_release):
            with pytest.raises(InvalidKeyValues) as caught:
                act(given)
            assert caught.value.path.startswith("key_values")

    @pytest.mark.parametrize(
        "options", [{"lease": 0}, {"lease": -1}, {"wait": -1}, {"wait": "1"}, {"session": ""}]
    )
    def test_wrong_options_are_refused(self, hr: Any, options: Any) -> None:
        with pytest.raises(InvalidOption) as caught:
            hr.lock({"site": "shop"}, **options)
        assert caught.value.option in options
