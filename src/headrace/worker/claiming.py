"""Claims: the items that come in, under the settings the queue has now."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.contract.items import Take, Taking
from headrace.contract.store import Store, Waiter
from headrace.core.channels import Choice
from headrace.errors import UnknownQueue
from headrace.model.queues import DEFAULTS, QueueInfo
from headrace.model.tokens import claim_token
from headrace.worker.events import Listeners
from headrace.worker.holding import Entry, Holds, monotonic
from headrace.worker.outcomes import Outcome, RetryAfter
from headrace.worker.pausing import Patience
from headrace.worker.securing import Securing
from headrace.worker.settling import Outbox
from headrace.worker.status import Switch

LONG = 3600.0
LONG_AGO = float("-inf")
# Long before a selection is forgotten.
REGISTER_SECONDS = 3600.0
SHORTEST = 0.001
# So many chunks may be claimed at once, and wait for the disk before no more are claimed.
MOST_CHUNKS = 3


def _always() -> bool:
    return True


class Wishes(NamedTuple):
    """What was asked for at registration; None follows the queue's settings."""

    chunk: int | None = None
    concurrency: int | None = None
    lease_ms: int | None = None
    choice: Choice = {}  # noqa: RUF012  # never changed


class Intake:
    """Claims items into a buffer. One thread at a time fills it; any may take from it.

    Nothing is claimed while something in the buffer waits to be started: at most a chunk is
    held back from other workers. Except where handlers are done with a chunk in less time than
    it takes to claim the next one: then it may be claimed meanwhile, or a few at once if they are
    quicker than that, too; and a few more while they wait for the disk, as others would have to.
    A chunk of one says that nothing is to be held back, and is taken at its word.
    """

    def __init__(
        self,
        store: Store,
        queue: str,
        *,
        worker: str,
        wishes: Wishes,
        holds: Holds,
        switch: Switch,
        listeners: Listeners,
        loaded: Callable[[QueueInfo], None],
        paused: Callable[[], None],
    ) -> None:
        self.buffer: deque[Entry] = deque()
        self.chunk = wishes.chunk or DEFAULTS.worker_chunk
        self.version = 0
        self._store = store
        self._queue = queue
        self._worker = worker
        self._wishes = wishes
        self._holds = holds
        self._switch = switch
        self._listeners = listeners
        self._loaded = loaded
        self._paused = paused
        self._leading = threading.Lock()
        self._securing = Securing(store, queue, listeners)
        self._may_be_loose = False
        self._waiter: Waiter | None = None
        self._patience = Patience()
        self._info: QueueInfo | None = None
        self._must_load = True
        self._is_missing = self._is_paused = False
        self._registers_at = 0.0
        # When the last chunk came, and whether handlers wait for the next most of the time.
        self._taken_at = LONG_AGO
        self._is_outrun = False
        # How many are claimed ahead at once: one more each time that they wait for it.
        self._at_once = 1
        # Whether enough chunks wait for the disk, and how long others did until the last claim.
        self._is_behind = False
        self._on_disk = 0.0
        # Whether one could not be brought there, and none since.
        self._is_failing = False
        # Items that are neither in the buffer nor begun with.
        self._beginning: set[Entry] = set()
        self._are_idle = _always
        # Items whose channel must not run now, until the store knows: by that channel.
        self._put_off: dict[str, Entry] = {}
        self.outbox: Outbox

    def watch(self, are_idle: Callable[[], bool], *, may_be_loose: bool = False) -> None:
        """``are_idle`` says whether no handler runs. Claims may be loose if whoever takes items
        out of the buffer asks whether he ``may_begin`` with them."""
        self._are_idle = are_idle
        self._may_be_loose = may_be_loose

    @property
    def may_run_ahead(self) -> bool:
        """Whether to claim while there still is something to be started."""
        return self._is_outrun and self._switch.may_claim

    def fill(self, wanted: Callable[[], int]) -> None:
        """Wait for items, until there are some or claiming is not wanted any more.

        ``wanted`` says how many could be started at once.
        """
        with self._lead():
            self._at_once = 1
            while not self.buffer and self._switch.may_claim:
                self._try(wanted)

    def run_ahead(self, wanted: Callable[[], int]) -> None:
        """Claim once, without waiting for items."""
        with self._lead():
            if self.may_run_ahead:
                self._is_outrun = False
                if not self._is_behind or self._caught_up():
                    self._try(wanted, chunks=self._at_once, waits=False)
                    # If they are still waiting when that comes, it was not enough.
                    self._at_once = min(self._at_once + 1, MOST_CHUNKS)

    def _caught_up(self) -> bool:
        """Wait for the disk; whether handlers are still waiting, and not for too much."""
        self._securing.wait()
        self._taken_at = monotonic()
        return self._are_idle() and len(self.buffer) <= (MOST_CHUNKS - 1) * self.chunk

    @contextlib.contextmanager
    def _lead(self) -> Iterator[None]:
        """Be the only one who claims."""
        with self._leading:
            try:
                yield
            finally:
                if self._switch.is_ended:
                    self._drop_waiter()

    def may_begin(self, entry: Entry) -> bool:
        """Whether to begin with an item that is out of the buffer: its claim is on the disk."""
        if entry.hold.is_loose:
            return bool(self._secured([entry]))
        return not (entry.is_lost or entry.hold.is_void)

    def to_begin(self, entries: list[Entry]) -> list[Entry]:
        """Those of several to begin with, all at once."""
        if any(entry.hold.is_loose for entry in entries):
            return self._secured(entries)
        return [entry for entry in entries if self.may_begin(entry)]

    def _secured(self, entries: list[Entry]) -> list[Entry]:
        self._beginning.update(entries)
        try:
            standing = [entry for entry in entries if self._stands(entry)]
            # Looked at when all is waited for: who hands items back does not find these.
            late = [entry for entry in standing if self._is_unwanted(entry)]
        finally:
            self._beginning.difference_update(entries)
        if late:
            self.outbox.release(late)
        return [entry for entry in standing if entry not in late and not entry.is_lost]

    def _stands(self, entry: Entry) -> bool:
        if entry.is_lost or self._securing.secure(entry):
            return not entry.is_lost
        hold = entry.hold
        self.outbox.release(self._holds.of(hold) if hold.is_void else [entry])
        # The next claim waits for the disk itself, and if that fails, for better times.
        self._is_failing, self._is_outrun = True, False
        return False

    def _is_unwanted(self, entry: Entry) -> bool:
        return not self._switch.may_claim or entry.state.key_values in self._put_off

    def hand_back(self) -> None:
        """Give up all that has not been started."""
        self._is_outrun = False
        entries = []
        # Lanes take from it at the same time.
        with contextlib.suppress(IndexError):
            while True:
                entries.append(self.buffer.popleft())
        if entries:
            self.outbox.release(entries)

    def put(self, entry: Entry, outcome: Outcome) -> None:
        """Take what became of an item to the outbox."""
        put_off = entry.state.key_values if type(outcome) is RetryAfter else None
        if put_off is not None:
            # Known before the store is told: a claim under way may bring more of it.
            self._put_off[put_off] = entry
        self.outbox.put(entry, outcome)
        if put_off is not None:
            self._hand_back_channel(put_off)

    def _hand_back_channel(self, channel: str) -> None:
        """Give up what has not been started of a channel that must not run now."""
        entries = []
        for entry in [entry for entry in list(self.buffer) if entry.state.key_values == channel]:
            # Not if a lane has taken it meanwhile.
            with contextlib.suppress(ValueError, IndexError):
                self.buffer.remove(entry)
                entries.append(entry)
        if entries:
            self.outbox.release(entries)

    def reload(self) -> None:
        """Look at the queue's settings before the next claim."""
        self._must_load = True

    def wake(self) -> None:
        """End a wait: something may have changed."""
        self._patience.nudge()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    def close(self, patience: float) -> None:
        """Release what it waits with; who fills it for longer than that does so at the end."""
        self.wake()
        if self._leading.acquire(timeout=patience):
            try:
                self._drop_waiter()
            finally:
                self._leading.release()

    def _try(self, wanted: Callable[[], int], *, chunks: int = 1, waits: bool = True) -> None:
        try:
            seconds = self._look(wanted, chunks)
            self._patience.restore()
            if seconds and waits and self._waiter is not None:
                self._waiter.wait(seconds)
        except Exception as error:  # whatever it is, a worker that gives up is deaf for ever
            self._listeners.trouble(error, "claim")
            self._drop_waiter()
            self._patience.pause()

    def _look(self, wanted: Callable[[], int], chunks: int) -> float:
        """Claim once; how long to wait before the next time."""
        if self._waiter is None:
            # Before the claim, so that a push behind it is not missed.
            self._waiter = self._store.waiter(f"queue/{self._queue}")
        try:
            if self._must_load or monotonic() >= self._registers_at:
                self._load()
            taking = self._claim(wanted, chunks)
        except UnknownQueue as error:
            return self._missing(error)
        if taking is None or taking.state == "claimed":
            self._is_paused = False
            return 0.0
        if taking.state == "stale":
            self._must_load = True
            return 0.0
        if taking.state == "paused" and not self._is_paused:
            # Held for an update, perhaps: then there are orders.
            self._paused()
        self._is_paused = taking.state == "paused"
        if taking.next_due is None:
            return LONG
        return max((taking.next_due - taking.now) / 1000, SHORTEST)

    def _claim(self, wanted: Callable[[], int], chunks: int) -> Taking | None:
        least = max(self.chunk, wanted())
        count = max(least, chunks * self.chunk)
        self.outbox.wait_room(2 * least, lambda: self._switch.may_claim)
        take = Take(
            queue=self._queue,
            token=claim_token(),
            count=count,
            lease_ms=self._wishes.lease_ms,
            version=self.version,
            worker=self._worker,
            may_be_loose=self._may_be_loose and self._taken_at > LONG_AGO and not self._is_failing,
            **self._wishes.choice,
        )
        self._holds.begin_claim()
        try:
            # Looked at only now: who waits for empty hands has seen that a claim is under way.
            if not self._switch.may_claim:
                return None
            if self._put_off:
                self._forget_told()
            since = monotonic()
            taking = self._store.run(self._store.claim_items(take))
            self._is_failing = self._is_failing and take.may_be_loose
            self._compare(since, is_full=len(taking.items) >= count)
            if taking.items:
                self._take_in(self._holds.add(taking, since))
        finally:
            self._holds.end_claim()
        return taking

    def _forget_told(self) -> None:
        """Channels of which the store knows by now that they must not run: from here on no claim
        brings anything of them."""
        # Whoever is about to begin with an item has not looked yet.
        awaited = {entry.state.key_values for entry in list(self._beginning)}
        for channel, entry in list(self._put_off.items()):
            is_told = not entry.is_held and channel not in awaited
            if is_told and self._put_off.get(channel) is entry:
                del self._put_off[channel]

    def _compare(self, since: float, *, is_full: bool) -> None:
        """Find out who waits for whom: the last chunk is worked off, and that took no longer than
        the claim of the next one, sent at ``since``, and the disk."""
        # Where no other process does the work, a claim ahead would take its time from handlers.
        if not is_full or self.chunk == 1 or not self._store.capabilities.is_served:
            self._taken_at, self._is_outrun = LONG_AGO, False
            return
        now = monotonic()
        self._is_behind = len(self.buffer) > (MOST_CHUNKS - 1) * self.chunk
        is_begun = not self.buffer or self._securing.is_under_way
        on_disk, self._on_disk = self._securing.seconds - self._on_disk, self._securing.seconds
        is_faster = is_begun and since - self._taken_at - on_disk <= now - since + on_disk
        self._is_outrun = is_faster and self._are_idle()
        self._taken_at = now

    def _take_in(self, entries: list[Entry]) -> None:
        if self._put_off:
            late = [entry for entry in entries if entry.state.key_values in self._put_off]
            if late:
                self.outbox.release(late)
                entries = [entry for entry in entries if entry not in late]
        self.buffer.extend(entries)
        # Who has put one off just now did not find them there.
        for channel in list(self._put_off):
            self._hand_back_channel(channel)
        if not self._switch.may_claim:
            # Whoever has just stopped it found the buffer empty.
            self.hand_back()

    def _load(self) -> None:
        """Learn the queue's settings; a queue that nobody has made yet is made."""
        store, name = self._store, self._queue
        is_first = self._info is None
        op = store.create_queue(name, {}, False) if is_first else store.queue_info(name)
        info = store.run(op)
        if monotonic() >= self._registers_at:
            info = self._register(info)
        if self._is_missing:
            self._is_missing = False
            self._listeners.log(logging.INFO, "the queue is there again", "claim")
        self._info = info
        self.version = info.version
        self.chunk = self._wishes.chunk or info.settings.worker_chunk
        self._must_load = False
        self._loaded(info)

    def _register(self, info: QueueInfo) -> QueueInfo:
        """Say which channels are wanted, so that claims need not look at all others.

        Not whenever the settings have changed: that changes them for others, too.
        """
        choice = self._wishes.choice
        select = choice.get("select")
        self._registers_at = monotonic() + REGISTER_SECONDS
        if select is None or choice.get("order") != "fair":
            return info
        self._store.run(self._store.register_selection(self._queue, select))
        return self._store.run(self._store.queue_info(self._queue))

    def _missing(self, error: UnknownQueue) -> float:
        """The queue was dropped. A push makes it again, and wakes us."""
        self._must_load = True
        if not self._is_missing:
            self._is_missing = True
            self._listeners.trouble(error, "claim")
        return LONG

    def _drop_waiter(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()
