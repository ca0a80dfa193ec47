"""Locks under several sessions, in every order their steps can have."""

import threading

import pytest

from faults.waiting import until
from headrace.contract.locks import LockCall
from headrace.errors import LockLost
from headrace.model.keyvalues import KeyValues
from headrace.testing.contract.queue_base import Desk

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
    return Desk(client).acquire_lock(call)


@pytest.mark.parametrize("is_known", [False, True])
def test_one_of_two_gets_a_lock_and_the_other_the_next_place(stage, is_known):
    """Also if nobody has ever had it; the number of the second is higher."""
    stepper, clients = stage.act(2)

    def script(number):
        if is_known:
            ask(stage.client, number, "before")
            Desk(stage.client).release_lock(name(number), f"before{number}")
        return [
            lambda client=client, session=session: ask(client, number, session)
            for session, client in zip("ab", clients, strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        states = [answer.state for answer in run.results]
        assert sorted(states) == ["granted", "taken"], run
        first, second = ("a", "b") if states[0] == "granted" else ("b", "a")
        desk = Desk(stage.client)
        assert desk.release_lock(name(run.number), f"{first}{run.number}"), run
        assert ask(stage.client, run.number, "new", waits=False).state == "taken", run
        later = ask(stage.client, run.number, second)
        assert later.fence > max(answer.fence for answer in run.results), run


def test_a_lock_that_is_released_is_not_stuck(stage):
    """Whoever asks meanwhile has it, or a place by which it gets it."""
    stepper, (holder, other) = stage.act(2)

    def script(number):
        ask(stage.client, number, "holder")
        return (
            lambda: Desk(holder).release_lock(name(number), f"holder{number}"),
            lambda: ask(other, number, "other"),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        released, answer = run.results
        assert released, run
        if answer.state == "taken":
            turn = Desk(stage.client).lock_turn(name(run.number), f"other{run.number}")
            assert turn.state == "free", run
            assert ask(stage.client, run.number, "other").state == "granted", run


def test_a_lease_that_is_over_is_extended_or_taken(stage):
    """Never both."""
    stepper, (holder, other) = stage.act(2)

    def script(number):
        ask(stage.client, number, "holder")
        stage.clock.advance(LEASE / 1000)
        return (
            lambda: Desk(holder).extend_lock(name(number), f"holder{number}", LEASE),
            lambda: ask(other, number, "other"),
        )

    for run in stepper.interleavings(script, interruptions=2):
        lost, error = run.errors
        assert error is None, run
        assert lost is None or isinstance(lost, LockLost), run
        assert (run.results[1].state == "granted") == (lost is not None), run


def test_a_lock_that_is_forgotten_while_somebody_asks(stage):
    """The number of the next grant is higher all the same."""
    stepper, (sweeper, other) = stage.act(2)
    before = {}

    def script(number):
        before[number] = ask(stage.client, number, "holder").fence
        Desk(stage.client).release_lock(name(number), f"holder{number}")
        stage.clock.advance(3600)
        return (
            lambda: Desk(sweeper).forget_locks(3600_000, 100),
            lambda: ask(other, number, "other"),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[1].fence > before[run.number], run


def test_who_guards_a_lock_in_a_transaction_keeps_it(stage):
    """Others wait for its end; heartbeats do not."""
    if stage.url.startswith("sqlite"):
        # One writer: nobody else gets anything meanwhile.
        return
    _, (holder, other) = stage.act(2)
    ask(holder, 0, "holder")
    stage.clock.advance(LEASE / 1000)
    with holder._store.transaction() as session:
        session.run(session.guard_lock(name(0), "holder0"))
        Desk(stage.client).extend_lock(name(0), "holder0", 1)
        stage.clock.advance(1)
        waiting = threading.Thread(target=ask, args=(other, 0, "other"))
        waiting.start()
        until(lambda: stage.blocked(stage.names[1:]), "somebody who waits")
        assert Desk(stage.client).lock_turn(name(0), "holder0").state == "mine"
    waiting.join(60)
    assert Desk(stage.client).lock_turn(name(0), "other0").state == "mine"
