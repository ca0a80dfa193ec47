"""An exception from a signal handler, at every point of the important calls.

Each call is interrupted at one point, then another thread uses the same client. The client must
work immediately, and the interrupted call must have happened completely or not at all.
``HEADRACE_INTERRUPTS`` is the number of points of each call, 0 for all of them.
"""

import os
import random
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

import headrace
from faults.interrupts import interrupted, points_of
from headrace import Headrace

# An interrupted operation may never run, and interrupts may come in finalizers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*was built but never run:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("garbage_collected"),
]

INTERRUPTS = int(os.environ.get("HEADRACE_INTERRUPTS", "40"))
SECONDS = 30
"""A client that hangs does so for ever; a busy machine may need seconds."""


T = TypeVar("T")


def elsewhere(act: Callable[[], T]) -> T:
    """Run it in another thread, which may hang for ever."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        return future.result(SECONDS)
    except TimeoutError as error:
        if not future.done() and (frame := sys._current_frames().get(thread.ident or 0)):
            error.add_note("it waits here:\n" + "".join(traceback.format_stack(frame)))
        raise
    finally:
        thread.join(SECONDS if future.done() else 0)  # it refers to the client until its end


class InterruptedClient:
    """A client that is interrupted, and what it should hold."""

    def __init__(self, hr: Headrace) -> None:
        self.hr = hr
        self.queue = hr.queue("q")
        self.done = 0
        self.pushed: list[int] = []
        self.committed: list[int] = []

    def push(self) -> None:
        self.queue.push({"n": self.number()})

    def commit(self) -> None:
        self.hr.commit("t", {"n": self.number()})

    def claim_and_complete(self) -> None:
        [item] = self.queue.claim(lease="1h")
        item.complete()

    def transact(self) -> None:
        number = self.number()
        with self.hr.transaction() as tx:
            tx.push("q", {"n": number})
            tx.commit("t", {"n": number})

    def lock(self) -> None:
        with self.hr.lock({"site": "shop"}, lease="1h", wait=0):
            pass

    def claim_nothing(self) -> None:
        self.hr.queue("empty").claim(wait=0.001)

    def read(self) -> None:
        self.hr.range("t")

    def number(self) -> int:
        self.done += 1
        return self.done


def read_all(case: InterruptedClient) -> tuple[set[int], set[int]]:
    """Use everything from another thread. Return what is stored."""
    hr = case.hr
    hr.push("probe", {})
    [item] = hr.queue("probe").claim()
    item.complete()
    hr.commit("probe", {})
    with hr.transaction() as tx:
        tx.commit("probe", {})
    assert not hr.locks.list()
    items = {item.payload["n"] for item in hr.queue("q").items(limit=1000)}
    return items, {record.body["n"] for record in hr.range("t")}


CALLS: dict[str, Callable[[InterruptedClient], None]] = {
    "push": InterruptedClient.push,
    "commit": InterruptedClient.commit,
    "claim_and_complete": InterruptedClient.claim_and_complete,
    "transact": InterruptedClient.transact,
    "read": InterruptedClient.read,
    "claim_nothing": InterruptedClient.claim_nothing,
    "lock": InterruptedClient.lock,
}


def chosen(rng: random.Random, count: int) -> list[int]:
    """The points at which to interrupt: some from each part of the call, or all."""
    if not INTERRUPTS or count <= INTERRUPTS:
        return list(range(1, count + 1))
    width = count / INTERRUPTS
    return [1 + int(n * width + rng.random() * width) for n in range(INTERRUPTS)]


@pytest.mark.parametrize("call", CALLS)
def test_a_client_works_after_an_interrupt_at_any_point(
    call: str, store_url: str, rng: random.Random
) -> None:
    """The call is applied completely or not at all, for all threads immediately."""
    hr = headrace.connect(store_url)
    case = InterruptedClient(hr)
    hr.queues.create("empty")
    act = CALLS[call]
    case.commit()
    for _ in range(8):  # what is prepared or cached after some uses
        case.push()
        act(case)
    case.push()
    kept: list[Any] = []
    points = chosen(rng, points_of(lambda: act(case)))
    before = read_all(case)
    for at in points:
        if call == "claim_and_complete":
            case.push()
        number = case.done + 1
        error = interrupted(lambda: act(case), at)
        kept.append(error)
        try:
            items, records = elsewhere(lambda: read_all(case))
        except BaseException as problem:
            place = "".join(traceback.format_tb(error.__traceback__)) if error else ""
            raise AssertionError(f"after an interrupt at point {at}:\n{place}") from problem
        added = {number} if case.done == number else set()
        assert before[1] <= records <= before[1] | added, at
        if call != "claim_and_complete":
            assert before[0] <= items <= before[0] | added, at
        if call == "transact":
            assert (number in items) == (number in records), at
        if error is None:
            assert call not in ("push", "transact") or number in items
            assert call not in ("commit", "transact") or number in records
        before = items, records
    assert any(kept), "nothing was interrupted"
    elsewhere(hr.close)
