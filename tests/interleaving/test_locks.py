"""Locks under several sessions, in every order their steps can have."""

import threading

import pytest

from faults.polling import until
from headrace.contract.locks import LockCall
from headrace.errors import LockLost
from headrace.model.query.key_values import KeyValues
from headrace.testing.contract.queue_base import StoreOps

LEASE = 10_000
PLACE = 3_000


def name(number):
    return KeyValues.of({"run": number}).form


def ask(client, number, session, *, waits=True):
    call = LockCall(
        key_values=name(number),
        session=f"{session}{number}",
        lease_ms=LEASE,
        place_ms=PLACE if waits else None,
        holder=session,
    )
    return StoreOps(client).locks.acquire(call)


@pytest.mark.parametrize("is_known", [False, True])
def test_one_of_two_gets_a_lock_and_the_other_the_next_place(stepped, is_known):
    """Even if the lock is new. The number of the second holder is higher."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        if is_known:
            ask(stepped.client, number, "before")
            StoreOps(stepped.client).locks.release(name(number), f"before{number}")
        return [
            lambda client=client, session=session: ask(client, number, session)
            for session, client in zip("ab", clients, strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        states = [answer.state for answer in run.results]
        assert sorted(states) == ["granted", "taken"], run
        first, second = ("a", "b") if states[0] == "granted" else ("b", "a")
        ops = StoreOps(stepped.client)
        assert ops.locks.release(name(run.number), f"{first}{run.number}"), run
        assert ask(stepped.client, run.number, "new", waits=False).state == "taken", run
        later = ask(stepped.client, run.number, second)
        assert later.fence > max(answer.fence for answer in run.results), run


def test_a_lock_that_is_released_is_not_stuck(stepped):
    """A request meanwhile gets it, or a place in line that leads to it."""
    stepper, (holder, other) = stepped.sessions(2)

    def script(number):
        ask(stepped.client, number, "holder")
        return (
            lambda: StoreOps(holder).locks.release(name(number), f"holder{number}"),
            lambda: ask(other, number, "other"),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        released, answer = run.results
        assert released, run
        if answer.state == "taken":
            turn = StoreOps(stepped.client).locks.turn(name(run.number), f"other{run.number}")
            assert turn.state == "free", run
            assert ask(stepped.client, run.number, "other").state == "granted", run


def test_an_expired_lease_is_extended_or_taken_over(stepped):
    """Never both."""
    stepper, (holder, other) = stepped.sessions(2)

    def script(number):
        ask(stepped.client, number, "holder")
        stepped.clock.advance(LEASE / 1000)
        return (
            lambda: StoreOps(holder).locks.extend(name(number), f"holder{number}", LEASE),
            lambda: ask(other, number, "other"),
        )

    for run in stepper.interleavings(script, interruptions=2):
        lost, error = run.errors
        assert error is None, run
        assert lost is None or isinstance(lost, LockLost), run
        assert (run.results[1].state == "granted") == (lost is not None), run


def test_a_lock_deleted_during_a_request(stepped):
    """The number of the next grant is still higher."""
    stepper, (sweeper, other) = stepped.sessions(2)
    before = {}

    def script(number):
        before[number] = ask(stepped.client, number, "holder").fence
        StoreOps(stepped.client).locks.release(name(number), f"holder{number}")
        stepped.clock.advance(3600)
        return (
            lambda: StoreOps(sweeper).locks.forget(3600_000, 100),
            lambda: ask(other, number, "other"),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[1].fence > before[run.number], run


def test_a_guarded_transaction_keeps_its_lock(stepped):
    """Other sessions wait for its end. Heartbeats do not."""
    if stepped.url.startswith("sqlite"):
        # One writer: no other session gets anything meanwhile.
        return
    _, (holder, other) = stepped.sessions(2)
    ask(holder, 0, "holder")
    stepped.clock.advance(LEASE / 1000)
    with holder._store.transaction() as session:
        session.run(session.locks.guard(name(0), "holder0"))
        StoreOps(stepped.client).locks.extend(name(0), "holder0", 1)
        stepped.clock.advance(1)
        waiting = threading.Thread(target=ask, args=(other, 0, "other"))
        waiting.start()
        until(lambda: stepped.blocked(stepped.names[1:]), "a waiting session")
        assert StoreOps(stepped.client).locks.turn(name(0), "holder0").state == "mine"
    waiting.join(60)
    assert StoreOps(stepped.client).locks.turn(name(0), "other0").state == "mine"
