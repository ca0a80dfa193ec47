"""What locks promise."""

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
from headrace.model.keyvalues import KeyValues
from headrace.model.locks import wake_word
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_base import Desk
from headrace.testing.contract.queue_clients import soon
from headrace.testing.faces import BlockingFace, closing_soon

SITE = KeyValues.of({"site": "shop"}).form
LEASE = 10_000
PLACE = 3_000
HOUR = 3600


def ask(desk: Desk, session: str, *, waits: bool = False, name: str = SITE) -> LockAnswer:
    """Ask for a lock, perhaps to wait for it."""
    call = LockCall(
        key_values=name,
        session=session,
        lease_ms=LEASE,
        place_ms=PLACE if waits else None,
        holder=f"holder of {session}",
    )
    answer: LockAnswer = desk.acquire_lock(call)
    return answer


def turn(desk: Desk, session: str) -> str:
    state: str = desk.lock_turn(SITE, session).state
    return state


class LockContract(Contract):
    """Who has a lock, by which number, and who is next."""

    @pytest.fixture
    def desk(self, hr: Any) -> Desk:
        return Desk(hr)

    def test_one_session_has_a_lock(self, desk: Desk, clock: FakeClock) -> None:
        """Until it gives it back; then another has it, by a higher number."""
        assert turn(desk, "a") == "free"
        answer = ask(desk, "a")
        expected = LockAnswer(
            state="granted", now=clock.now, fence=answer.fence, until=clock.now + LEASE
        )
        assert answer == expected
        assert (turn(desk, "a"), turn(desk, "b")) == ("mine", "taken")
        taken = ask(desk, "b")
        assert taken == LockAnswer(
            state="taken", now=clock.now, next_at=clock.now + LEASE, holder="holder of a"
        )
        assert desk.release_lock(SITE, "b") is False
        assert desk.release_lock(SITE, "a") is True
        assert ask(desk, "b").fence > answer.fence

    def test_asking_again_gets_the_same_answer(self, desk: Desk, clock: FakeClock) -> None:
        """A session that lost the answer may repeat its call; the lease stays as it is."""
        first = ask(desk, "a")
        clock.advance(1)
        again = ask(desk, "a")
        assert (again.fence, again.until) == (first.fence, first.until)

    def test_locks_are_the_same_by_all_their_key_values(self, desk: Desk) -> None:
        """And by their types; one is not part of another."""
        for n, given in enumerate(({"a": 1}, {"a": "1"}, {"a": 1, "b": 1})):
            name = KeyValues.of(given).form
            assert ask(desk, f"{n}", name=name).state == "granted"
            assert ask(desk, "x", name=name).state == "taken"

    def test_numbers_only_grow(self, desk: Desk, clock: FakeClock, connect: Connect) -> None:
        """After releases, leases that ran out, and when the lock was forgotten meanwhile."""
        seen = []
        for n in range(3):
            seen.append(ask(desk, f"released-{n}").fence)
            desk.release_lock(SITE, f"released-{n}")
        for n in range(2):
            seen.append(ask(desk, f"late-{n}").fence)
            clock.advance(LEASE / 1000)
        clock.advance(HOUR)
        assert desk.forget_locks(HOUR * 1000, 100) == 1
        seen.append(ask(Desk(connect()), "new").fence)
        other = KeyValues.of({"site": "other"}).form
        ask(desk, "x", name=other)
        desk.release_lock(SITE, "new")
        seen.append(ask(desk, "last").fence)
        assert seen == sorted(set(seen))

    def test_a_lease_that_ran_out_is_taken_over(self, desk: Desk, clock: FakeClock) -> None:
        """By the next who asks, and not before: until then the holder may extend it."""
        first = ask(desk, "a")
        clock.advance(LEASE / 1000 - 0.001)
        assert ask(desk, "b").state == "taken"
        clock.advance(0.001)
        assert turn(desk, "b") == "free"
        assert desk.extend_lock(SITE, "a", 1000) == clock.now + 1000
        assert ask(desk, "b").state == "taken"
        clock.advance(1)
        assert ask(desk, "b").fence > first.fence
        with pytest.raises(LockLost) as caught:
            desk.extend_lock(SITE, "a", 1000)
        assert caught.value.key_values == SITE
        assert desk.release_lock(SITE, "a") is False
        assert turn(desk, "b") == "mine"

    def test_who_came_first_gets_it_first(self, desk: Desk) -> None:
        """Also before those who would not wait, and however often they ask."""
        ask(desk, "holder")
        for session in ("a", "b", "c", "b", "a"):
            assert ask(desk, session, waits=True).state == "taken"
        desk.release_lock(SITE, "holder")
        order = []
        for _ in range(3):
            free = [s for s in ("c", "b", "new", "a") if turn(desk, s) == "free"]
            for session in ("c", "b", "new", "a"):
                if ask(desk, session, waits=session != "new").state == "granted":
                    order.append((session, free))
                    desk.release_lock(SITE, session)
                    break
        assert order == [("a", ["a"]), ("b", ["b"]), ("c", ["c"])]
        assert ask(desk, "new").state == "granted"

    def test_a_place_that_is_not_kept_does_not_count(self, desk: Desk, clock: FakeClock) -> None:
        """Nobody waits for the dead for longer than that; who comes back has its place again."""
        ask(desk, "holder")
        ask(desk, "dead", waits=True)
        ask(desk, "living", waits=True)
        desk.release_lock(SITE, "holder")
        clock.advance(PLACE / 1000 - 1)
        assert desk.keep_place("living", PLACE) is True
        assert desk.lock_turn(SITE, "living").next_at == clock.now + 1000
        clock.advance(1)
        assert (turn(desk, "living"), turn(desk, "new")) == ("free", "taken")
        assert ask(desk, "living", waits=True).state == "granted"
        assert desk.keep_place("living", PLACE) is False
        assert desk.keep_place("dead", PLACE) is True
        ask(desk, "new", waits=True)
        desk.release_lock(SITE, "living")
        assert (turn(desk, "dead"), turn(desk, "new")) == ("free", "taken")

    def test_a_place_is_given_up(self, desk: Desk) -> None:
        """By a release, or by asking without waiting."""
        ask(desk, "holder")
        for session in ("a", "b", "c"):
            ask(desk, session, waits=True)
        assert desk.release_lock(SITE, "a") is False
        assert ask(desk, "b").state == "taken"
        assert desk.keep_place("b", PLACE) is False
        desk.release_lock(SITE, "holder")
        assert [turn(desk, s) for s in "abc"] == ["taken", "taken", "free"]

    def test_a_released_lock_wakes_who_waits(self, desk: Desk) -> None:
        """Also one that was taken away, and a place that was given up."""
        ask(desk, "holder")
        ask(desk, "a", waits=True)
        ask(desk, "b", waits=True)
        waiter = desk.store.waiter(wake_word(SITE))
        try:
            for act in (
                lambda: desk.release_lock(SITE, "holder"),
                lambda: desk.release_lock(SITE, "a"),
                lambda: (ask(desk, "b"), ask(desk, "c", waits=True), desk.break_lock(SITE, None)),
            ):
                act()
                assert desk.is_woken(waiter)
        finally:
            waiter.close()

    def test_locks_are_listed(self, desk: Desk, clock: FakeClock) -> None:
        """Those that somebody has or waits for, all or by query; sessions are not told."""
        names = {n: KeyValues.of({"n": n}).form for n in range(4)}
        fences = [ask(desk, f"s{n}", name=names[n]).fence for n in range(4)]
        ask(desk, "w", name=names[2], waits=True)
        desk.release_lock(names[1], "s1")
        desk.release_lock(names[2], "s2")
        rows = desk.locks(None, "", 10)
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
        assert desk.locks(where(n__gt=0).form, "", 10) == rows[1:]
        assert desk.locks(None, names[0], 1) == rows[1:2]
        clock.advance(PLACE / 1000)
        assert [row.key_values for row in desk.locks(None, "", 10)] == [names[0], names[3]]

    def test_a_lock_is_taken_away(self, desk: Desk) -> None:
        """From whoever has it, or by a number only; the holder finds it lost."""
        fence = ask(desk, "a").fence
        with pytest.raises(UnknownLock):
            desk.break_lock(SITE, fence + 1)
        row = desk.break_lock(SITE, fence)
        assert (row.holder, row.fence) == ("holder of a", fence)
        with pytest.raises(UnknownLock):
            desk.break_lock(SITE, None)
        with pytest.raises(LockLost):
            desk.extend_lock(SITE, "a", 1000)
        assert ask(desk, "b").fence > fence

    def test_what_nobody_wants_is_forgotten(self, desk: Desk, clock: FakeClock) -> None:
        """Some at a time; what is held or waited for stays."""
        for n in range(5):
            name = KeyValues.of({"n": n}).form
            ask(desk, f"s{n}", name=name)
            desk.release_lock(name, f"s{n}")
        clock.advance(HOUR)
        ask(desk, "late", name=KeyValues.of({"n": 9}).form)
        ask(desk, "held")
        ask(desk, "w", waits=True)
        assert [desk.forget_locks(HOUR * 1000, 3) for _ in range(3)] == [3, 2, 0]
        clock.advance(HOUR + LEASE / 1000)
        desk.extend_lock(SITE, "held", LEASE)
        assert desk.keep_place("w", PLACE)
        assert desk.forget_locks(HOUR * 1000, 3) == 1
        assert [row.waiting for row in desk.locks(None, "", 9)] == [1]

    def test_a_lock_is_guarded_in_a_transaction(self, hr: Any, desk: Desk) -> None:
        """What is written there was written by the holder; a lost lock ends it."""
        fence = ask(desk, "a").fence
        with hr.transaction() as tx:
            assert Desk(tx).guard_lock(SITE, "a") == fence
            tx.commit("t", {"n": 1})
        desk.break_lock(SITE, None)
        with pytest.raises(LockLost), hr.transaction() as tx:
            tx.commit("t", {"n": 2})
            Desk(tx).guard_lock(SITE, "a")
        assert hr.length("t") == 1


class LockClientContract(Contract):
    """Locks as users meet them."""

    def test_a_lock_in_a_block(self, hr: Any, connect: Connect) -> None:
        """Held inside, free after it; numbers grow."""
        other = connect()
        with hr.lock({"site": "shop"}) as lock:
            assert (lock.held, lock.lost) == (True, False)
            first = lock.token
            with pytest.raises(LockTaken) as caught, other.lock({"site": "shop"}, wait=0):
                pytest.fail("two have it")
            assert caught.value.retryable
            assert "host" not in caught.value.key_values
            [info] = other.locks()
            assert (info.token, info.waiting, info.is_overdue) == (first, 0, False)
        assert not lock.held
        assert hr.locks() == []
        with other.lock({"site": "shop"}, wait=0) as lock:
            assert lock.token > first

    def test_a_lock_by_hand(self, hr: Any, clock: FakeClock) -> None:
        """Acquired, extended, released, and acquired again by the same object."""
        lock = hr.lock({"site": "shop"}, lease="10s", heartbeat=False)
        with pytest.raises(LockLost):
            lock.token  # noqa: B018
        lock.release()
        first = lock.acquire().token
        assert lock.acquire().token == first
        clock.advance(9)
        lock.extend()
        lock.extend("20s")
        [info] = hr.locks(where(site="shop"))
        assert info.until.timestamp() * 1000 == clock.now + 20_000
        lock.release()
        lock.release()
        assert lock.acquire(wait=0).token > first
        lock.release()

    def test_a_lock_that_was_lost(self, hr: Any, connect: Connect, clock: FakeClock) -> None:
        """Who lost it is told: at the end of the block, unless that failed by itself."""
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
            hr.release_lock({"site": "shop"})
        with pytest.raises(ZeroDivisionError), hr.lock({"site": "shop"}, heartbeat=False):
            hr.release_lock({"site": "shop"})
            raise ZeroDivisionError

    def test_heartbeats_notice_a_loss(self, hr: Any) -> None:
        """And call back."""
        is_lost = threading.Event()
        lock = hr.lock({"site": "shop"}, lease=0.15, on_lost=is_lost.set)
        lock.acquire()
        hr.release_lock({"site": "shop"})
        if isinstance(hr, BlockingFace):
            for _ in range(5000):
                hr.pump()
                if is_lost.is_set():
                    break
        assert is_lost.wait(10)
        assert lock.lost
        with pytest.raises(LockLost):
            lock.release()

    def test_heartbeats_keep_it(self, hr: Any, connect: Connect, clock: FakeClock) -> None:
        """However long the lease would have been over."""
        with hr.lock({"site": "shop"}, lease=0.15):
            clock.advance(1)
            if isinstance(hr, BlockingFace):
                for _ in range(5000):
                    hr.pump()
                    if not hr.locks()[0].is_overdue:
                        break
            waiting = threading.Event()
            for _ in range(1000):
                if not hr.locks()[0].is_overdue:
                    break
                waiting.wait(0.01)
            with pytest.raises(LockTaken):
                connect().lock({"site": "shop"}, wait=0).acquire()

    def test_waiting_for_a_lock(self, hr: Any, connect: Connect) -> None:
        """It comes when its holder gives it back."""
        other = connect()
        theirs = other.lock({"site": "shop"}, heartbeat=False)
        theirs.acquire()
        with soon(theirs.release), hr.lock({"site": "shop"}, wait=20) as lock:
            assert lock.held

    def test_waiting_until_a_lease_is_over(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        """It needs nobody who wakes it."""
        other = connect()
        other.lock({"site": "shop"}, lease=5, heartbeat=False).acquire()
        with (
            soon(lambda: clock.advance(5)),
            hr.lock({"site": "shop"}, wait=20, heartbeat=False) as lock,
        ):
            assert lock.held

    def test_who_gave_up_is_not_in_the_way(self, hr: Any, connect: Connect) -> None:
        """Nor has it a place any more."""
        other = connect()
        theirs = other.lock({"site": "shop"}, heartbeat=False)
        theirs.acquire()
        with pytest.raises(LockTaken) as caught:
            hr.lock({"site": "shop"}, wait=0.01).acquire()
        assert caught.value.holder
        assert [info.waiting for info in hr.locks()] == [0]

    def test_a_closed_client_ends_the_wait(self, hr: Any, connect: Connect) -> None:
        """And gives its place up."""
        other = connect()
        with other.lock({"site": "shop"}):
            with closing_soon(hr), pytest.raises(NotConnected):
                hr.lock({"site": "shop"}).acquire()
            assert [info.waiting for info in other.locks()] == [0]

    def test_going_on_with_a_session(self, hr: Any, connect: Connect, clock: FakeClock) -> None:
        """A process that was started again has the lock of the one before."""
        lock = hr.lock({"site": "shop"}, lease=10, heartbeat=False)
        lock.acquire()
        clock.advance(9)
        again = connect().lock({"site": "shop"}, lease=10, session=lock.session, heartbeat=False)
        assert again.acquire(wait=0).token == lock.token
        [info] = hr.locks()
        assert info.until.timestamp() * 1000 == clock.now + 10_000

    def test_a_guarded_transaction(self, hr: Any) -> None:
        """It is refused when the lock is lost."""
        with hr.lock({"site": "shop"}, heartbeat=False) as lock, hr.transaction() as tx:
            assert tx.guard(lock) == lock.token
        with pytest.raises(LockLost), hr.transaction() as tx:
            tx.guard(lock)

    @pytest.mark.parametrize("given", [{}, {"_site": 1}, {"site": None}, "shop"])
    def test_wrong_key_values_are_refused(self, hr: Any, given: Any) -> None:
        """The path names the field."""
        for act in (hr.lock, hr.release_lock):
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
