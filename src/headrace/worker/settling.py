"""The outbox: what handlers say of items goes to the store in batches.

Outcomes that come while a settle is under way go together in the next one, as with group
commit. Lanes only append to it; one thread of the worker takes from it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace.contract.items import Outcome as Said
from headrace.contract.items import Settled
from headrace.contract.store import Store
from headrace.errors import HeadraceError, OutcomeUnknown
from headrace.model.failures import failure_of
from headrace.worker.events import Done, Listeners, Lost
from headrace.worker.holding import Entry, Holds, monotonic
from headrace.worker.items import item_of
from headrace.worker.outcomes import (
    COMPLETE,
    RELEASE,
    Kill,
    Outcome,
    Reject,
    Release,
    RetryAfter,
    said,
)
from headrace.worker.pausing import Patience

MOST = 1000
LINGER = 0.002
GLANCE = 1.0


class Numbers:
    """What a worker has done in its life."""

    __slots__ = ("done", "failed", "lost")

    def __init__(self) -> None:
        self.done = self.failed = self.lost = 0


class Parcel(NamedTuple):
    """An outcome on its way."""

    entry: Entry
    outcome: Outcome
    said: Said


class Outbox:
    """Takes outcomes to the store."""

    def __init__(
        self,
        store: Store,
        queue: str,
        *,
        max_body: int,
        holds: Holds,
        listeners: Listeners,
        numbers: Numbers,
        is_more: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        self._store = store
        self._queue = queue
        self._max_body = max_body
        self._holds = holds
        self._listeners = listeners
        self._numbers = numbers
        self._is_more = is_more
        self._is_over = is_over
        self._outcomes: deque[tuple[Entry, Outcome]] = deque()
        self._awake = threading.Event()
        self._flushed = threading.Event()
        self._taken = threading.Event()
        self._is_asleep = self._is_sending = False
        self._patience = Patience()
        self._gives_up = self._is_left = False

    def put(self, entry: Entry, outcome: Outcome) -> None:
        """Take what became of an item. Never waits."""
        self._outcomes.append((entry, outcome))
        if self._is_asleep:
            self._awake.set()

    def release(self, entries: Iterable[Entry]) -> None:
        """Hand items back."""
        for entry in entries:
            self.put(entry, RELEASE)
        self.flush()

    def flush(self) -> None:
        """Nothing more comes for the moment: let it go."""
        self._flushed.set()

    def wake(self) -> None:
        """Look whether it is over."""
        self._flushed.set()
        self._awake.set()

    def give_up(self) -> None:
        """Try once more, and then no more: the leases decide."""
        self._gives_up = True
        self._patience.end()
        self.wake()

    def leave(self) -> None:
        """The store is closed: touch it no more, the leases decide."""
        self._is_left = True
        self.give_up()

    def wait_room(self, most: int, is_wanted: Callable[[], bool]) -> None:
        """Wait while more outcomes than that are left: who claims must not run away from here."""
        while len(self._outcomes) > most and is_wanted():
            self._taken.clear()
            if len(self._outcomes) > most:
                self._taken.wait(GLANCE)

    def drain(self, seconds: float) -> None:
        """Wait until everything is settled, at most so long."""
        give_up = monotonic() + seconds
        while (self._outcomes or self._is_sending) and monotonic() < give_up:
            self._taken.clear()
            if self._outcomes or self._is_sending:
                self._taken.wait(GLANCE / 10)

    def run(self) -> None:
        """Settle until it is over: the body of a thread."""
        while batch := self._next():
            try:
                self._settle(batch)
            except Exception as error:  # a mistake of ours or of a driver: the leases decide
                self._listeners.trouble(error, "settle")
                self._holds.drop(entry for entry, _ in batch)
            self._is_sending = False
            self._taken.set()

    def _next(self) -> list[tuple[Entry, Outcome]]:
        """The outcomes that go together; none when it is over."""
        while not self._outcomes:
            if self._is_over() or self._is_left:
                return []
            # Who appends looks at this flag afterwards, so that one of us sees the other.
            self._is_asleep = True
            if not self._outcomes:
                self._awake.wait(GLANCE)
            self._is_asleep = False
            self._awake.clear()
        if len(self._outcomes) < MOST and self._is_more():
            self._flushed.wait(LINGER)
        self._flushed.clear()
        self._is_sending = True
        batch = [self._outcomes.popleft() for _ in range(min(len(self._outcomes), MOST))]
        self._taken.set()
        return batch

    def _settle(self, batch: Sequence[tuple[Entry, Outcome]]) -> None:
        parcels = []
        for entry, outcome in batch:
            # The first word on an item counts: it may have been handed back meanwhile.
            if not entry.is_out and not entry.is_lost:
                entry.is_out = True
                parcels.append(self._packed(entry, outcome))
        if parcels and not self._is_left:
            self._send(parcels)

    def _packed(self, entry: Entry, outcome: Outcome) -> Parcel:
        try:
            return Parcel(entry, outcome, said(entry.state, outcome, max_body=self._max_body))
        except Exception as error:  # what a handler returned cannot be stored
            self._listeners.trouble(error, "handle", item_of(entry.state))
            return self._refused(entry, error)

    def _refused(self, entry: Entry, error: Exception) -> Parcel:
        reject = Reject(failure_of(error))
        return Parcel(entry, reject, said(entry.state, reject))

    def _send(self, parcels: list[Parcel], *, in_doubt: bool = False) -> None:
        while True:
            try:
                answers = self._store.run(
                    self._store.settle(self._queue, [parcel.said for parcel in parcels])
                )
            except Exception as error:  # whatever it is, the other outcomes have to go on
                self._listeners.trouble(error, "settle")
                # It may have taken effect. Then the tokens do not count any more, and a repeat
                # is answered "lost" and writes nothing; if not, it is settled by the repeat.
                in_doubt = in_doubt or isinstance(error, OutcomeUnknown)
                if not _is_passing(error):
                    self._refuse(parcels, error, in_doubt=in_doubt)
                elif self._gives_up:
                    self._forget(parcels)
                else:
                    self._patience.pause()
                    continue
            else:
                self._patience.restore()
                self._settled(parcels, answers, in_doubt=in_doubt)
            return

    def _refuse(self, parcels: list[Parcel], error: Exception, *, in_doubt: bool) -> None:
        """One of them is at fault; alone, each gets what it deserves."""
        if len(parcels) > 1:
            for parcel in parcels:
                self._send([parcel], in_doubt=in_doubt)
            return
        [parcel] = parcels
        if parcel.said.commits or parcel.said.pushes or parcel.said.payload is not None:
            self._send([self._refused(parcel.entry, error)], in_doubt=in_doubt)
        else:
            self._forget(parcels)

    def _forget(self, parcels: Iterable[Parcel]) -> None:
        self._holds.drop(parcel.entry for parcel in parcels)

    def _settled(
        self, parcels: Sequence[Parcel], answers: Sequence[Settled], *, in_doubt: bool
    ) -> None:
        numbers, listeners = self._numbers, self._listeners
        has_listeners = listeners.hears("data")
        for (entry, outcome, _), answer in zip(parcels, answers, strict=True):
            if answer.is_lost:
                # In doubt nobody can tell whether it was lost, or settled the first time.
                if not in_doubt:
                    numbers.lost += 1
                    listeners.tell("lost", Lost(item=item_of(entry.state)))
                continue
            if outcome is COMPLETE:
                # Most are, and there are many.
                numbers.done += 1
            elif not isinstance(outcome, Release | RetryAfter):
                numbers.done += 1
                numbers.failed += isinstance(outcome, Reject | Kill)
            if has_listeners:
                item = item_of(entry.state)
                listeners.tell("data", Done(item=item, outcome=outcome, settled=answer))
        self._holds.drop(parcel.entry for parcel in parcels)


def _is_passing(error: Exception) -> bool:
    """Whether the same settle may succeed later."""
    if isinstance(error, OutcomeUnknown):
        return True
    return isinstance(error, HeadraceError) and error.retryable
