"""The background loop: when it calls, when it ends, and what an error or a fork does to it."""

import os
import signal
import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import pytest

from headrace.services.loop import NEVER, NOW, Loop

TIMEOUT_SECONDS = 20.0
LONG_SECONDS = 600.0


class Steps:
    """A step that announces each call, and waits to be given what it returns or raises."""

    def __init__(self) -> None:
        self._begun: SimpleQueue[threading.Thread] = SimpleQueue()
        self._results: SimpleQueue[Any] = SimpleQueue()

    def __call__(self) -> float | None:
        self._begun.put(threading.current_thread())
        result = self._results.get(timeout=TIMEOUT_SECONDS)
        if isinstance(result, BaseException):
            raise result
        return None if result is None else float(result)

    def begun(self) -> threading.Thread:
        """Wait for a call; the thread it is made in."""
        return self._begun.get(timeout=TIMEOUT_SECONDS)

    def give(self, *results: float | BaseException | None) -> None:
        """Let so many calls end."""
        for result in results:
            self._results.put(result)

    @property
    def is_quiet(self) -> bool:
        """Whether no other call begins for a moment."""
        try:
            self._begun.get(timeout=0.05)
        except Empty:
            return True
        return False


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def loop(steps: Steps) -> Iterator[Loop]:
    loop = Loop("test-loop", steps)
    yield loop
    loop.end()
    steps.give(None, None)
    loop.join(TIMEOUT_SECONDS)


def ended(loop: Loop, thread: threading.Thread) -> bool:
    loop.join(TIMEOUT_SECONDS)
    return not thread.is_alive() and not loop.is_running


def test_a_step_is_called_when_it_is_due(loop: Loop, steps: Steps) -> None:
    due = monotonic() + 0.02
    loop.start(due)
    thread = steps.begun()
    assert monotonic() >= due
    assert (thread.name, thread.daemon) == ("test-loop", True)
    again = monotonic() + 0.02
    steps.give(again)
    assert steps.begun() is thread
    assert monotonic() >= again


def test_a_due_time_may_come_closer(loop: Loop, steps: Steps) -> None:
    loop.start(monotonic() + LONG_SECONDS)
    loop.wake_by(monotonic() + 0.01)
    steps.begun()
    steps.give(monotonic() + LONG_SECONDS)
    loop.start(monotonic() + 0.01)
    steps.begun()
    steps.give(NEVER)
    loop.poke()
    steps.begun()


def test_a_later_due_time_changes_nothing(loop: Loop, steps: Steps) -> None:
    due = monotonic() + 0.05
    loop.start(due)
    loop.wake_by(due + LONG_SECONDS)
    loop.start(due + LONG_SECONDS)
    steps.begun()
    assert monotonic() >= due


@pytest.mark.parametrize("result", [NEVER, None])
def test_what_comes_during_a_call_asks_for_another(
    loop: Loop, steps: Steps, result: float | None
) -> None:
    """Whatever the call returns: it may have read what it acts on before."""
    loop.start()
    thread = steps.begun()
    loop.wake_by(monotonic() + 0.01)
    steps.give(result)
    assert steps.begun() is thread


def test_the_thread_ends_when_nothing_is_due(loop: Loop, steps: Steps) -> None:
    loop.start()
    first = steps.begun()
    steps.give(None)
    assert ended(loop, first)
    loop.poke()
    loop.wake_by(NOW)
    assert not loop.is_running
    loop.start()
    assert steps.begun() is not first


def test_an_end_cuts_the_wait_short(loop: Loop, steps: Steps) -> None:
    loop.start()
    thread = steps.begun()
    steps.give(monotonic() + LONG_SECONDS)
    loop.end()
    assert ended(loop, thread)
    assert steps.is_quiet


def test_a_call_under_way_goes_on_and_is_waited_for(loop: Loop, steps: Steps) -> None:
    loop.start()
    thread = steps.begun()
    loop.end()
    loop.join(0.01)
    assert thread.is_alive()
    steps.give(NOW)
    assert ended(loop, thread)
    assert steps.is_quiet


def test_a_start_after_the_end_waits_for_the_call_under_way(loop: Loop, steps: Steps) -> None:
    """There never are two calls."""
    loop.start()
    first = steps.begun()
    loop.end()
    loop.start()
    assert steps.is_quiet
    steps.give(NOW)
    assert steps.begun() is not first
    assert not first.is_alive()


def test_a_step_may_pause_until_the_end() -> None:
    begun = threading.Event()

    def step() -> None:
        begun.set()
        assert not loop.is_ended
        loop.pause(LONG_SECONDS)
        assert loop.is_ended

    loop = Loop("test-loop", step)
    loop.start()
    assert begun.wait(TIMEOUT_SECONDS)
    loop.poke()  # is none of its business
    loop.end()
    loop.join(TIMEOUT_SECONDS)
    assert not loop.is_running


def test_a_step_may_end_and_join_its_own_loop() -> None:
    called = []

    def step() -> float:
        called.append(threading.current_thread())
        loop.end()
        loop.join()
        return NOW

    loop = Loop("test-loop", step)
    loop.start()
    loop.join(TIMEOUT_SECONDS)
    assert len(called) == 1


def test_errors_go_to_their_handler(steps: Steps) -> None:
    seen: SimpleQueue[Exception] = SimpleQueue()

    def on_error(error: Exception) -> float:
        seen.put(error)
        return NOW

    loop = Loop("test-loop", steps, on_error=on_error)
    loop.start()
    thread, error = steps.begun(), OSError("gone")
    steps.give(error)
    assert seen.get(timeout=TIMEOUT_SECONDS) is error
    assert steps.begun() is thread
    steps.give(None)
    assert ended(loop, thread)


def test_an_error_without_a_handler_ends_the_thread(
    loop: Loop, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: SimpleQueue[Any] = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", seen.put)
    loop.start()
    first = steps.begun()
    steps.give(OSError("gone"))
    assert "gone" in str(seen.get(timeout=TIMEOUT_SECONDS).exc_value)
    assert ended(loop, first)
    loop.start()
    assert steps.begun() is not first


@pytest.mark.parametrize("result", [None, SystemExit()])
def test_on_end_is_called_when_the_thread_ends(
    steps: Steps, result: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    threads: SimpleQueue[threading.Thread] = SimpleQueue()
    loop = Loop("test-loop", steps, on_end=lambda: threads.put(threading.current_thread()))
    loop.start()
    thread = steps.begun()
    steps.give(result)
    assert threads.get(timeout=TIMEOUT_SECONDS) is thread
    assert ended(loop, thread)


def test_a_loop_can_run_in_the_calling_thread() -> None:
    calls: list[threading.Thread] = []

    def step() -> float | None:
        calls.append(threading.current_thread())
        return NOW if len(calls) < 3 else None

    Loop("test-loop", step).run()
    assert calls == [threading.current_thread()] * 3


def test_an_error_is_raised_where_the_loop_runs() -> None:
    def step() -> float:
        raise OSError("gone")

    def on_error(error: Exception) -> float:
        raise error

    with pytest.raises(OSError, match="gone"):
        Loop("test-loop", step, on_error=on_error).run()


def test_run_replaces_a_thread_that_runs_already(loop: Loop, steps: Steps) -> None:
    loop.start()
    first = steps.begun()
    steps.give(NEVER, None)
    loop.run()
    assert steps.begun() is threading.current_thread()
    assert not first.is_alive()


def test_a_signal_handler_may_end_the_loop_of_its_thread() -> None:
    def step() -> float:
        os.kill(os.getpid(), signal.SIGUSR1)
        return monotonic() + LONG_SECONDS

    loop = Loop("test-loop", step)
    before = signal.signal(signal.SIGUSR1, lambda *_: loop.end())
    try:
        loop.run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not loop.is_running


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_a_fork_leaves_the_thread_in_the_parent(loop: Loop, steps: Steps) -> None:
    """Whatever the parent was doing, the child can use the loop."""
    loop.start()
    thread = steps.begun()
    reading, writing = os.pipe()
    with loop._lock:
        child = os.fork()
    if child == 0:
        answer = b"bad"
        try:
            was_running = loop.is_running
            loop.poke()
            loop.join()
            steps.give(None)
            loop.start()
            loop.join(TIMEOUT_SECONDS)
            if not was_running and not loop.is_running:
                answer = b"good"
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"good"
    os.close(reading)
    os.close(writing)
    steps.give(NOW)
    assert steps.begun() is thread
