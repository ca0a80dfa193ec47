"""The stepper itself: it skips no interleaving, and leaves no thread behind."""

import threading
from math import comb

import pytest

from headrace.testing import faults
from headrace.testing.faults import Session, Stepper


def stopping(session: Session, times: int, done: list[str]):
    """Something that stops some times, and records each step afterwards."""

    def act() -> int:
        for step in range(times):
            session.stop("walk", step)
            done.append(session.name)
        return times

    return act


@pytest.mark.parametrize(("left", "right"), [(0, 2), (1, 1), (2, 3), (4, 4)])
def test_every_interleaving_runs_once(left, right):
    """As many as there are ways to merge the steps, and no two alike."""
    sessions = [Session("a"), Session("b")]
    orders = []

    def script(number):
        orders.append([])
        return [
            stopping(session, times, orders[-1])
            for session, times in zip(sessions, (left, right), strict=True)
        ]

    runs = list(Stepper(sessions).interleavings(script))
    assert [run.results for run in runs] == [[left, right]] * len(runs)
    assert len(set(map(tuple, orders))) == len(orders) == comb(left + right, left)


@pytest.mark.parametrize(("limit", "count"), [(0, 2), (1, 2 + 1 + 2), (None, comb(5, 2))])
def test_interruptions_can_be_limited(limit, count):
    """With none, one session runs after the other. With one, each step but the last may be one."""
    sessions = [Session("a"), Session("b")]
    steps = (2, 3)

    def script(number):
        return [
            stopping(session, times, []) for session, times in zip(sessions, steps, strict=True)
        ]

    runs = list(Stepper(sessions).interleavings(script, interruptions=limit))
    assert len(runs) == count


def test_a_session_that_waits_for_another_is_skipped():
    """A lock of one session leaves only the interleavings that respect it."""
    sessions = [Session("a"), Session("b")]
    lock = threading.Lock()
    orders = []

    def script(number):
        order = []
        orders.append(order)

        def within(session):
            def act() -> None:
                session.stop("take", 0)
                with lock:
                    order.append(session.name)
                    session.stop("hold", 1)
                    order.append(session.name)

            return act

        return [within(session) for session in sessions]

    def blocked(names):
        return names if lock.locked() else ()

    for run in Stepper(sessions, blocked=blocked).interleavings(script):
        assert run.errors == [None, None], run
    assert {tuple(order) for order in orders} == {("a", "a", "b", "b"), ("b", "b", "a", "a")}


def test_an_error_is_reported_and_the_others_continue():
    """The exception of a session is a result like any other."""
    sessions = [Session("a"), Session("b")]

    def fail() -> None:
        sessions[0].stop("walk", 0)
        raise ValueError("on purpose")

    for run in Stepper(sessions).interleavings(lambda number: (fail, lambda: "fine")):
        assert isinstance(run.errors[0], ValueError)
        assert run.results[1] == "fine"


def test_a_session_that_hangs_is_reported_and_the_others_are_released(monkeypatch):
    """No thread outlives a failed run, except the one that hangs."""
    monkeypatch.setattr(faults, "PATIENCE", 0.2)
    sessions = [Session("stopped"), Session("stuck")]
    release = threading.Event()
    with pytest.raises(TimeoutError, match="stuck"):
        list(
            Stepper(sessions).interleavings(
                lambda number: (lambda: sessions[0].stop("walk", 0), release.wait)
            )
        )
    assert isinstance(sessions[0].error, faults.Crash)
    release.set()
    for session in sessions:
        session._thread.join(10)
        assert not session._thread.is_alive()
