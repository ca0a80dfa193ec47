"""The completer: sends the outcomes of handlers to the store in batches.

Outcomes that come while a settle is under way go together in the next one, as with group
commit. The executor only appends outcomes; one thread of the worker settles them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace.contract.items import Outcome, Settled
from headrace.contract.store import Store
from headrace.errors import HeadraceError, OutcomeUnknown, StoreError
from headrace.model.failures import failure_of
from headrace.worker.events import Done, Listeners, Lost
from headrace.worker.in_flight import InFlight, InFlightItem, monotonic
from headrace.worker.items import item_of
from headrace.worker.outcomes import (
    COMPLETE,
    RELEASE,
    HandlerOutcome,
    Kill,
    Reject,
    Release,
    RetryAfter,
    stored_outcome,
)
from headrace.worker.retry_delay import RetryDelay

MAX_OUTCOMES = 1000
MAX_BATCH_WAIT_SECONDS = 0.002
POLL_SECONDS = 1.0
# An outcome that is refused for now waits separately: this long at first, and at most.
FIRST_WAIT_SECONDS = 0.05
MAX_WAIT_SECONDS = 2.0
# So many may wait before the worker stops claiming.
MAX_POSTPONED = 100


class WorkerCounts:
    """How many items a worker has settled or lost since it began."""

    __slots__ = ("done", "failed", "lost")

    def __init__(self) -> None:
        self.done = self.failed = self.lost = 0


class PendingOutcome(NamedTuple):
    """An outcome to be sent, as the handler returned it and as the store needs it."""

    item: InFlightItem
    outcome: HandlerOutcome
    stored: Outcome


class PostponedOutcome(NamedTuple):
    """An outcome that the store has refused for now, and when it is sent again."""

    pending: PendingOutcome
    in_doubt: bool
    at: float
    seconds: float


class Completer:
    """Settles outcomes.

    If the store is unavailable, all of them wait. If it refuses one that may succeed later,
    because a queue that it pushes to is full, only that one waits.
    """

    def __init__(
        self,
        store: Store,
        queue: str,
        *,
        max_body: int,
        in_flight: InFlight,
        listeners: Listeners,
        counts: WorkerCounts,
        is_more: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        self._store = store
        self._queue = queue
        self._max_body = max_body
        self._in_flight = in_flight
        self._listeners = listeners
        self._counts = counts
        self._is_more = is_more
        self._is_over = is_over
        self._outcomes: deque[tuple[InFlightItem, HandlerOutcome]] = deque()
        self._awake = threading.Event()
        self._flushed = threading.Event()
        self._has_progress = threading.Event()
        self._is_asleep = self._is_sending = False
        self._retry_delay = RetryDelay()
        self._postponed: dict[InFlightItem, PostponedOutcome] = {}
        self._gives_up = self._is_disconnected = False

    def put(self, item: InFlightItem, outcome: HandlerOutcome) -> None:
        """Settle an item with this outcome soon. Never waits."""
        self._outcomes.append((item, outcome))
        if self._is_asleep:
            self._awake.set()

    def release(self, items: Iterable[InFlightItem]) -> None:
        """Release items, uncounted."""
        for item in items:
            self.put(item, RELEASE)
        self.flush()

    def flush(self) -> None:
        """Send now: no further outcome is to be expected soon."""
        self._flushed.set()

    def wake(self) -> None:
        """Check whether it is over."""
        self._flushed.set()
        self._awake.set()

    def give_up(self) -> None:
        """Try once more, and then let the leases run out."""
        self._gives_up = True
        self._retry_delay.end()
        self.wake()

    def disconnect(self) -> None:
        """The store is being closed: send nothing, and let the leases run out."""
        self._is_disconnected = True
        self.give_up()

    def wait_for_capacity(self, most: int, is_wanted: Callable[[], bool]) -> None:
        """Wait while more outcomes than that are left, so that claims do not outrun settles."""
        while self._has_more_than(most) and is_wanted():
            self._has_progress.clear()
            if self._has_more_than(most):
                self._has_progress.wait(POLL_SECONDS)

    def _has_more_than(self, most: int) -> bool:
        return len(self._outcomes) > most or len(self._postponed) > max(most, MAX_POSTPONED)

    def drain(self, seconds: float) -> None:
        """Wait until everything is settled, at most so long."""
        give_up = monotonic() + seconds
        while (self._outcomes or self._is_sending) and monotonic() < give_up:
            self._has_progress.clear()
            if self._outcomes or self._is_sending:
                self._has_progress.wait(POLL_SECONDS / 10)

    def run(self) -> None:
        """Settle until it is over: the body of a thread."""
        while (batch := self._next()) is not None:
            try:
                self._settle(batch)
                self._try_again()
            except Exception as error:  # a bug of ours or of a driver: the leases run out
                self._listeners.report(error, "settle")
                self._in_flight.remove(item for item, _ in batch)
            self._is_sending = False
            self._has_progress.set()

    def _next(self) -> list[tuple[InFlightItem, HandlerOutcome]] | None:
        """The outcomes of the next settle, none if postponed ones are due; None when it is
        over."""
        while not self._outcomes:
            if self._is_over() or self._is_disconnected:
                return None
            pause = self._until_due()
            if pause <= 0:
                return []
            # ``put`` appends before it reads this flag, so that no outcome is missed.
            self._is_asleep = True
            if not self._outcomes:
                self._awake.wait(pause)
            self._is_asleep = False
            self._awake.clear()
        if len(self._outcomes) < MAX_OUTCOMES and self._is_more():
            self._flushed.wait(MAX_BATCH_WAIT_SECONDS)
        self._flushed.clear()
        self._is_sending = True
        batch = [self._outcomes.popleft() for _ in range(min(len(self._outcomes), MAX_OUTCOMES))]
        self._has_progress.set()
        return batch

    def _settle(self, batch: Sequence[tuple[InFlightItem, HandlerOutcome]]) -> None:
        pending = []
        for item, outcome in batch:
            # The first outcome of an item counts: it may have been released meanwhile.
            if not item.is_sent and not item.is_lost:
                item.is_sent = True
                pending.append(self._encoded(item, outcome))
            elif item in self._postponed:
                # Released before its outcome could be stored: it runs again.
                postponed = self._postponed.pop(item)
                self._send([self._encoded(item, outcome)], in_doubt=postponed.in_doubt)
        if pending and not self._is_disconnected:
            self._send(pending)

    def _until_due(self) -> float:
        """How many seconds to wait for an outcome."""
        if not self._postponed:
            return POLL_SECONDS
        return min(POLL_SECONDS, min(each.at for each in self._postponed.values()) - monotonic())

    def _try_again(self) -> None:
        """Send the postponed outcomes that are due, each alone."""
        if self._postponed:
            now = monotonic()
            for each in [each for each in self._postponed.values() if each.at <= now]:
                self._send([each.pending], in_doubt=each.in_doubt)

    def _encoded(self, item: InFlightItem, outcome: HandlerOutcome) -> PendingOutcome:
        try:
            stored = stored_outcome(item.state, outcome, max_body=self._max_body)
            return PendingOutcome(item, outcome, stored)
        except BaseException as error:  # what a handler returned cannot be stored
            self._listeners.report(error, "handle", item_of(item.state))
            return self._refused(item, error)

    def _refused(self, item: InFlightItem, error: BaseException) -> PendingOutcome:
        reject = Reject(failure_of(error))
        return PendingOutcome(item, reject, stored_outcome(item.state, reject))

    def _send(self, pending: list[PendingOutcome], *, in_doubt: bool = False) -> None:
        while True:
            try:
                answers = self._store.run(
                    self._store.queues.settle(self._queue, [each.stored for each in pending])
                )
            except Exception as error:  # whatever it is, other outcomes still have to be sent
                self._listeners.report(error, "settle")
                # It may have taken effect. Then the tokens are no longer valid, and a repeat
                # is answered "lost" and writes nothing; if not, the repeat settles it.
                in_doubt = in_doubt or isinstance(error, OutcomeUnknown)
                if not _is_temporary(error):
                    self._refuse(pending, error, in_doubt=in_doubt)
                elif not isinstance(error, StoreError):
                    self._postpone(pending, error, in_doubt=in_doubt)
                elif self._gives_up:
                    self._drop(pending)
                else:
                    self._retry_delay.pause()
                    continue
            else:
                self._retry_delay.reset()
                self._settled(pending, answers, in_doubt=in_doubt)
            return

    def _refuse(self, pending: list[PendingOutcome], error: Exception, *, in_doubt: bool) -> None:
        """One of them causes the error: send each alone."""
        if len(pending) > 1:
            for outcome in pending:
                self._send([outcome], in_doubt=in_doubt)
            return
        [outcome] = pending
        if outcome.stored.commits or outcome.stored.pushes or outcome.stored.payload is not None:
            self._send([self._refused(outcome.item, error)], in_doubt=in_doubt)
        else:
            self._drop(pending)

    def _postpone(self, pending: list[PendingOutcome], error: Exception, *, in_doubt: bool) -> None:
        """One of them is refused for now: only that one waits."""
        if len(pending) > 1:
            for part in _split(pending, getattr(error, "queue", None)):
                self._send(part, in_doubt=in_doubt)
            return
        [outcome] = pending
        if self._gives_up:
            self._drop(pending)
            return
        before = self._postponed.get(outcome.item)
        seconds = FIRST_WAIT_SECONDS
        if before is not None:
            seconds = min(before.seconds * 2, MAX_WAIT_SECONDS)
        at = monotonic() + seconds
        self._postponed[outcome.item] = PostponedOutcome(outcome, in_doubt, at, seconds)

    def _drop(self, pending: Sequence[PendingOutcome]) -> None:
        if self._postponed:
            for outcome in pending:
                self._postponed.pop(outcome.item, None)
        self._in_flight.remove(outcome.item for outcome in pending)

    def _settled(
        self, pending: Sequence[PendingOutcome], answers: Sequence[Settled], *, in_doubt: bool
    ) -> None:
        counts, listeners = self._counts, self._listeners
        has_listeners = listeners.has("data")
        for (item, outcome, _), answer in zip(pending, answers, strict=True):
            if answer.is_lost:
                # In doubt it may also have been settled by the first attempt.
                if not in_doubt:
                    counts.lost += 1
                    listeners.emit("lost", Lost(item=item_of(item.state)))
                continue
            if outcome is COMPLETE:
                # The common case, so it comes first.
                counts.done += 1
            elif not isinstance(outcome, Release | RetryAfter):
                counts.done += 1
                if isinstance(outcome, Reject | Kill):
                    counts.failed += 1
                    if answer.state == "dead":
                        listeners.log_death(item.state, outcome.error)
            if has_listeners:
                done = Done(item=item_of(item.state), outcome=outcome, settled=answer)
                listeners.emit("data", done)
        self._drop(pending)


def _split(pending: list[PendingOutcome], queue: str | None) -> list[list[PendingOutcome]]:
    """Two parts of several outcomes, one of which is refused because of a queue."""
    pushes = [any(push.queue == queue for push in outcome.stored.pushes) for outcome in pending]
    if any(pushes) and not all(pushes):
        others = [
            outcome for outcome, is_there in zip(pending, pushes, strict=True) if not is_there
        ]
        return [others, [p for p, is_there in zip(pending, pushes, strict=True) if is_there]]
    half = len(pending) // 2
    return [pending[:half], pending[half:]]


def _is_temporary(error: Exception) -> bool:
    """Whether the same settle may succeed later."""
    if isinstance(error, OutcomeUnknown):
        return True
    return isinstance(error, HeadraceError) and error.retryable
