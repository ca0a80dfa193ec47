"""Storms of real signals, whose handler raises in the main thread at any point."""

import gc
import itertools
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import headrace
from faults.interrupts import Interrupt
from faults.kill_loop import KILLS, SECONDS
from headrace import Headrace

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*was built but never run:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("garbage_collected"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

HITS = KILLS
THREADS = 3
LONGEST = (0.001, 0.01, 0.03)


@contextmanager
def raising() -> Iterator[None]:
    """SIGALRM raises an exception.

    A finalizer that is hit reports it as unraisable. pytest's hook formats such reports at length
    and fails the test when a second signal hits it there, so it is removed. No garbage is
    collected meanwhile, so that no finalizer of pytest's own things is hit.
    """

    def handler(number: int, frame: object) -> None:
        raise Interrupt

    unraisable, sys.unraisablehook = sys.unraisablehook, lambda report: None
    gc.disable()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = unraisable


def hit(act: Callable[[], object], seconds: float) -> bool:
    """Call it, with a signal after some time. Return whether the signal came through."""
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            act()
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        return False
    except RuntimeError as error:
        # A wait inside ``threading`` may end like this: its conditions are written in Python.
        if not isinstance(error.__context__, Interrupt):
            raise
        return False


class CallLog:
    """What the main thread has tried, and what was acknowledged."""

    def __init__(self, hr: Headrace) -> None:
        self._hr = hr
        self._numbers = itertools.count()
        self.tried: set[int] = set()
        self.acked: set[int] = set()

    def acts(self) -> list[Callable[[int], object]]:
        return [self.push, self.commit, self.transact, self.work, self.lock, self.wait]

    def push(self, number: int) -> None:
        self._hr.push("kept", {"n": number})

    def commit(self, number: int) -> None:
        self._hr.commit("t", {"n": number})

    def transact(self, number: int) -> None:
        with self._hr.transaction() as tx:
            tx.push("kept", {"n": number})
            tx.commit("t", {"n": number})

    def work(self, number: int) -> None:
        self._hr.push("work", {})
        for item in self._hr.queue("work").claim(lease="1h"):
            item.complete()

    def lock(self, number: int) -> None:
        with self._hr.lock({"who": number}, wait=1):
            pass

    def wait(self, number: int) -> None:
        self._hr.queue("empty").claim(wait=0.01)

    def storm(self, rng: random.Random) -> int:
        """Until enough signals have hit a call."""
        hits = 0
        give_up = time.monotonic() + SECONDS
        while hits < HITS and time.monotonic() < give_up:
            number = next(self._numbers)
            act = rng.choice(self.acts())
            self.tried.add(number)
            if hit(
                lambda act=act, number=number: act(number),
                rng.uniform(0.00002, rng.choice(LONGEST)),
            ):
                if act in (self.push, self.commit, self.transact):
                    self.acked.add(number)
            else:
                hits += 1
        return hits


def test_signal_storm(store_url: str, rng: random.Random) -> None:
    """Other threads keep pushing. Acknowledged work is stored once, and the client works as
    before."""
    with headrace.connect(store_url) as hr:
        for queue in ("kept", "work", "empty", "others"):
            hr.queues.create(queue)
        hr.commit("t", {"n": -1})
        is_over = threading.Event()
        others = [0] * THREADS
        failures: list[BaseException] = []

        def push(index: int) -> None:
            try:
                while not is_over.is_set():
                    hr.push("others", {})
                    others[index] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=push, args=[n], daemon=True) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        log_path = CallLog(hr)
        with raising():
            hits = log_path.storm(rng)
        before = list(others)
        give_up = time.monotonic() + 10
        while any(now <= then for now, then in zip(others, before, strict=True)):
            assert time.monotonic() < give_up, "a thread hangs"
            assert not failures, failures
            time.sleep(0.01)
        is_over.set()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert not failures, failures
        assert hits >= HITS
        items = [item.payload["n"] for item in _all_items(hr, "kept")]
        records = [record.body["n"] for record in hr.range("t")]
        assert len(items) == len(set(items))
        assert len(records) == len(set(records))
        assert log_path.acked <= set(items) | set(records) <= log_path.tried | {-1}
        assert hr.queue("others").stats().pending == sum(others)


def _all_items(hr: Headrace, queue: str) -> Iterator[headrace.ClaimedItem]:
    after = 0
    while found := hr.queue(queue).items(after=after, limit=1000):
        yield from found
        after = found[-1].id
