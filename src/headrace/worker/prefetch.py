"""Prefetch: claims items into a buffer, from which the executor starts handlers."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator

from headrace.contract.items import ClaimRequest, ClaimResponse
from headrace.contract.store import Store, Waiter
from headrace.errors import AccessError, UnknownQueue
from headrace.model.queues.settings import QueueInfo
from headrace.model.tokens import claim_token
from headrace.worker.claim_ahead import ClaimAhead
from headrace.worker.completer import Completer
from headrace.worker.confirmation import ClaimConfirmer
from headrace.worker.events import Listeners
from headrace.worker.in_flight import InFlight, InFlightItem, monotonic
from headrace.worker.outcomes import HandlerOutcome, RetryAfter
from headrace.worker.queue_settings import CurrentSettings, PrefetchOptions
from headrace.worker.retry_delay import RetryDelay
from headrace.worker.status import Switch

MAX_WAIT_SECONDS = 3600.0
MIN_WAIT_SECONDS = 0.001
# How often a worker checks whether it is registered, if it was not notified.
REGISTRATION_SECONDS = 1.0


def _always() -> bool:
    return True


class Prefetcher:
    """Claims items into a buffer. One thread at a time fills it; any may pop items from it."""

    def __init__(
        self,
        store: Store,
        queue: str,
        *,
        worker: str,
        options: PrefetchOptions,
        in_flight: InFlight,
        switch: Switch,
        listeners: Listeners,
        loaded: Callable[[QueueInfo], None],
        paused: Callable[[], None],
        refused: Callable[[AccessError], None],
    ) -> None:
        self.buffer: deque[InFlightItem] = deque()
        self.settings = CurrentSettings(
            store, queue, options=options, listeners=listeners, loaded=loaded
        )
        # Whether the store has the worker's row: an update stops only the workers it finds there.
        self.is_registered = False
        # A refusal before the first claim ends the worker: nothing says that it may ever claim.
        self.has_claimed = False
        self.completer: Completer
        self._store = store
        self._queue = queue
        self._worker = worker
        self._options = options
        self._in_flight = in_flight
        self._switch = switch
        self._listeners = listeners
        self._paused = paused
        self._refused = refused
        self._is_paused = False
        self._claiming = threading.Lock()
        self._waiter: Waiter | None = None
        self._retry_delay = RetryDelay()
        self._is_idle = _always
        self._can_confirm = False
        self._confirmer = ClaimConfirmer(store, listeners)
        # Whether a claim could not be confirmed, and none has been since.
        self._is_failing = False
        self._ahead = ClaimAhead(
            self.buffer, self._confirmer, is_served=store.capabilities.has_server
        )
        # Items that have left the buffer while their claims are being confirmed.
        self._confirming: set[InFlightItem] = set()
        # By channel, the item whose handler has delayed it, until the store knows.
        self._delayed: dict[str, InFlightItem] = {}

    def attach(self, is_idle: Callable[[], bool], *, can_confirm: bool = False) -> None:
        """Attach the executor. ``is_idle`` says whether no handler runs. With ``can_confirm`` the
        executor asks ``may_begin`` for each item, so that claims may be confirmed there."""
        self._is_idle = is_idle
        self._can_confirm = can_confirm

    @property
    def may_run_ahead(self) -> bool:
        """Whether to claim while items still wait to be started."""
        return self._ahead.is_wanted and self._switch.may_claim

    def fill(self, wanted: Callable[[], int]) -> None:
        """Wait for items, until there are some or the worker may no longer claim.

        ``wanted`` says how many could be started immediately.
        """
        with self._exclusively():
            self._ahead.reset()
            while not self.buffer and self._switch.may_claim:
                self._try_claim(wanted)

    def run_ahead(self, wanted: Callable[[], int]) -> None:
        """Claim once, without waiting for items."""
        with self._exclusively():
            if self.may_run_ahead:
                chunks = self._ahead.next_chunks(self.settings.chunk, self._is_idle)
                if chunks:
                    self._try_claim(wanted, chunks=chunks, waits=False)

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Be the only thread that claims."""
        with self._claiming:
            try:
                yield
            finally:
                if self._switch.is_ended:
                    self._close_waiter()

    def may_begin(self, item: InFlightItem) -> bool:
        """Whether a handler may begin with an item: its claim is confirmed and not lost."""
        if item.lease.confirm is not None:
            return bool(self._confirmed([item]))
        return not (item.is_lost or item.lease.is_void)

    def to_begin(self, items: list[InFlightItem]) -> list[InFlightItem]:
        """The items of a batch with which a handler may begin."""
        if any(item.lease.confirm is not None for item in items):
            return self._confirmed(items)
        return [item for item in items if self.may_begin(item)]

    def _confirmed(self, items: list[InFlightItem]) -> list[InFlightItem]:
        self._confirming.update(items)
        try:
            valid = [item for item in items if self._confirm(item)]
            # Checked after all of them: ``release_buffer`` does not find these items.
            unwanted = [item for item in valid if self._is_unwanted(item)]
        finally:
            self._confirming.difference_update(items)
        if unwanted:
            self.completer.release(unwanted)
        return [item for item in valid if item not in unwanted and not item.is_lost]

    def _confirm(self, item: InFlightItem) -> bool:
        if item.is_lost or self._confirmer.confirm(item):
            return not item.is_lost
        lease = item.lease
        self.completer.release(self._in_flight.of(lease) if lease.is_void else [item])
        # The next claim is confirmed by the store; if that fails, it is retried with a delay.
        self._is_failing = True
        self._ahead.stop()
        return False

    def _is_unwanted(self, item: InFlightItem) -> bool:
        return not self._switch.may_claim or item.state.key_values in self._delayed

    def release_buffer(self) -> None:
        """Release all items that have not been started."""
        self._ahead.stop()
        items = []
        # The executor pops from it at the same time.
        with contextlib.suppress(IndexError):
            while True:
                items.append(self.buffer.popleft())
        if items:
            self.completer.release(items)

    def put(self, item: InFlightItem, outcome: HandlerOutcome) -> None:
        """Pass the outcome of an item on to the completer."""
        delayed = item.state.key_values if type(outcome) is RetryAfter else None
        if delayed is not None:
            # Before the store knows: a claim under way may bring more items of the channel.
            self._delayed[delayed] = item
        self.completer.put(item, outcome)
        if delayed is not None:
            self._release_channel(delayed)

    def _release_channel(self, channel: str) -> None:
        """Release the items of a delayed channel that have not been started."""
        items = []
        for item in [item for item in list(self.buffer) if item.state.key_values == channel]:
            # Not if the executor has popped it meanwhile.
            with contextlib.suppress(ValueError, IndexError):
                self.buffer.remove(item)
                items.append(item)
        if items:
            self.completer.release(items)

    def registered(self) -> None:
        """The store has the worker's row, so it may claim."""
        if not self.is_registered:
            self.is_registered = True
            self.wake()

    def wake(self) -> None:
        """End a wait: something may have changed."""
        self._retry_delay.nudge()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    def close(self, timeout: float) -> None:
        """Close the waiter. A thread that claims for longer than that closes it itself."""
        self.wake()
        if self._claiming.acquire(timeout=timeout):
            try:
                self._close_waiter()
            finally:
                self._claiming.release()

    def _try_claim(self, wanted: Callable[[], int], *, chunks: int = 1, waits: bool = True) -> None:
        try:
            seconds = self._claim(wanted, chunks)
            self._retry_delay.reset()
            if seconds and waits and self._waiter is not None:
                self._waiter.wait(seconds)
        except Exception as error:  # a worker that has claimed once never gives up claiming
            self._listeners.report(error, "claim")
            if isinstance(error, AccessError):
                self._refused(error)
            self._close_waiter()
            self._retry_delay.pause()

    def _claim(self, wanted: Callable[[], int], chunks: int) -> float:
        """Claim once; how many seconds to wait before the next time."""
        if self._waiter is None:
            # Before the claim, so that a push behind it is not missed.
            self._waiter = self._store.waiter(f"queue/{self._queue}")
        try:
            self.settings.refresh()
            if not self.is_registered:
                return REGISTRATION_SECONDS
            response = self._claim_items(wanted, chunks)
        except UnknownQueue as error:
            self.settings.missing(error)
            return MAX_WAIT_SECONDS
        if response is None or response.state == "claimed":
            self._is_paused = False
            return 0.0
        if response.state == "stale":
            self.settings.reload()
            return 0.0
        if response.state == "paused" and not self._is_paused:
            # Perhaps for an update: then the next heartbeat brings orders.
            self._paused()
        self._is_paused = response.state == "paused"
        if response.next_due is None:
            return MAX_WAIT_SECONDS
        return max((response.next_due - response.now) / 1000, MIN_WAIT_SECONDS)

    def _claim_items(self, wanted: Callable[[], int], chunks: int) -> ClaimResponse | None:
        chunk = self.settings.chunk
        least = max(chunk, wanted())
        self.completer.wait_for_capacity(2 * least, lambda: self._switch.may_claim)
        request = self._request(max(least, chunks * chunk))
        self._in_flight.begin_claim()
        try:
            # Checked only now: ``InFlight.wait_empty`` has seen that a claim is under way.
            if not self._switch.may_claim:
                return None
            if self._delayed:
                self._forget_delayed()
            since = monotonic()
            response = self._store.run(self._store.queues.claim(request))
            self.has_claimed = True
            self._is_failing = self._is_failing and request.may_confirm
            is_full = len(response.items) >= request.count
            self._ahead.compare(since, chunk, self._is_idle, is_full=is_full)
            if response.items:
                self._add(self._in_flight.add(response, since))
        finally:
            self._in_flight.end_claim()
        return response

    def _request(self, count: int) -> ClaimRequest:
        return ClaimRequest(
            queue=self._queue,
            token=claim_token(),
            count=count,
            lease_ms=self._options.lease_ms,
            version=self.settings.version,
            worker=self._worker,
            may_confirm=self._can_confirm and self._ahead.is_steady and not self._is_failing,
            **self._options.choice,
        )

    def _forget_delayed(self) -> None:
        """Forget channels whose delay the store knows by now: no claim brings items of them."""
        # An item that is being confirmed has not been checked against the channels yet.
        confirming = {item.state.key_values for item in list(self._confirming)}
        for channel, item in list(self._delayed.items()):
            is_known = not item.is_in_flight and channel not in confirming
            if is_known and self._delayed.get(channel) is item:
                del self._delayed[channel]

    def _add(self, items: list[InFlightItem]) -> None:
        if self._delayed:
            late = [item for item in items if item.state.key_values in self._delayed]
            if late:
                self.completer.release(late)
                items = [item for item in items if item not in late]
        self.buffer.extend(items)
        # A handler that has delayed a channel just now did not find them in the buffer.
        for channel in list(self._delayed):
            self._release_channel(channel)
        if not self._switch.may_claim:
            # It was stopped just now, when the buffer was empty.
            self.release_buffer()

    def _close_waiter(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()
