"""The items in a worker's hands: which they are, and until when their claims stand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from headrace.contract.items import Taking
from headrace.model.items import ItemState

EXTEND_AFTER = 1 / 3
"""The part of a lease after which it is extended: two more tries fit into what is left."""


class Entry:
    """One item in hand.

    ``is_finished``  its handler has said what becomes of it.
    ``is_out``       that was taken to the store; whatever else is said of it comes too late.
    ``is_lost``      its claim does not stand any more.
    """

    __slots__ = ("hold", "is_finished", "is_lost", "is_out", "state")

    def __init__(self, state: ItemState, hold: Hold) -> None:
        self.state = state
        self.hold = hold
        self.is_finished = self.is_out = self.is_lost = False

    @property
    def is_held(self) -> bool:
        """Whether it still is in hand: what was said of it has not come to the store yet."""
        return self.state.id in self.hold.entries


class Hold:
    """The items of one claim that have the same lease.

    ``is_loose``  the claim may not be on the disk yet, and has to be before they are begun with.
    ``is_void``   it could not be brought there.
    """

    __slots__ = ("entries", "extend_at", "is_loose", "is_void", "lease_ms", "token")

    def __init__(self, token: str, lease_ms: int, since: float, *, is_loose: bool = False) -> None:
        self.token = token
        self.lease_ms = lease_ms
        self.is_loose = is_loose
        self.is_void = False
        self.entries: dict[int, Entry] = {}
        self.renewed(since)

    def renewed(self, since: float) -> None:
        """The lease began (again) at this moment."""
        self.extend_at = since + self.lease_ms / 1000 * EXTEND_AFTER


class Holds:
    """All that is in hand, and who waits for it to be settled.

    Lanes, the outbox and the heartbeat share it. A claim under way counts as something in hand,
    so that who waits for empty hands does not miss what it brings.
    """

    def __init__(self, changed: Callable[[], None], expect: Callable[[float], None]) -> None:
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)
        self._holds: set[Hold] = set()
        self._count = 0
        self._claims = 0
        self._changed = changed
        self._expect = expect

    @property
    def is_empty(self) -> bool:
        return not self._count and not self._claims

    def begin_claim(self) -> None:
        """A claim is under way, until ``end_claim``."""
        with self._lock:
            self._claims += 1

    def end_claim(self) -> None:
        with self._lock:
            self._claims -= 1
        self._tell()

    def add(self, taking: Taking, since: float) -> list[Entry]:
        """Take the items of a claim in hand; it was sent at ``since``."""
        entries: list[Entry] = []
        holds: dict[int, Hold] = {}
        for state in taking.items:
            lease = (state.lease_until or taking.now) - taking.now
            hold = holds.get(lease)
            if hold is None:
                token = state.token or ""
                hold = holds[lease] = Hold(token, lease, since, is_loose=taking.is_loose)
            entry = hold.entries[state.id] = Entry(state, hold)
            entries.append(entry)
        with self._lock:
            self._holds.update(holds.values())
            self._count += len(entries)
        for hold in holds.values():
            self._expect(hold.extend_at)
        return entries

    def drop(self, entries: Iterable[Entry]) -> None:
        """They are in nobody's hands, or in somebody else's."""
        with self._lock:
            for entry in entries:
                hold = entry.hold
                if hold.entries.pop(entry.state.id, None) is not None:
                    self._count -= 1
                    if not hold.entries:
                        self._holds.discard(hold)
        self._tell()

    def of(self, hold: Hold) -> list[Entry]:
        """What is left of a claim."""
        with self._lock:
            return list(hold.entries.values())

    def all(self) -> list[Entry]:
        """Everything in hand."""
        with self._lock:
            return [entry for hold in self._holds for entry in hold.entries.values()]

    def next_extension(self) -> float | None:
        """When a lease is to be extended."""
        with self._lock:
            return min((hold.extend_at for hold in self._holds), default=None)

    def to_extend(self, now: float) -> list[tuple[Hold, list[Entry]]]:
        """The leases whose time has come, and what they hold."""
        with self._lock:
            due = [hold for hold in self._holds if hold.extend_at <= now]
            return [(hold, list(hold.entries.values())) for hold in due]

    def lose(self, entries: Iterable[Entry]) -> list[Entry]:
        """These are not ours any more, say those who know; returns those it is news of.

        What has been taken to the store is no loss: it may have ended there by that.
        """
        lost = [entry for entry in entries if not (entry.is_finished or entry.is_out)]
        for entry in lost:
            entry.is_lost = True
        self.drop(lost)
        return lost

    def wait_empty(self, is_over: Callable[[], float]) -> bool:
        """Wait until nothing is in hand; ``is_over`` says how many seconds are left."""
        with self._lock:
            while self._count or self._claims:
                left = is_over()
                if left <= 0:
                    return False
                self._emptied.wait(min(left, 1.0))
            return True

    def poke(self) -> None:
        """Let those who wait look at their time again."""
        with self._lock:
            self._emptied.notify_all()

    def _tell(self) -> None:
        if not self._count and not self._claims:
            with self._lock:
                self._emptied.notify_all()
            self._changed()


monotonic = time.monotonic
"""The clock for leases: it never steps."""
