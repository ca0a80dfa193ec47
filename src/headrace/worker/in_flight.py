"""The items that a worker has in flight, and the leases under which it has claimed them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from headrace.contract.items import ClaimResponse, Confirm
from headrace.model.queues.items import ItemState

EXTEND_AFTER = 1 / 3
"""The part of a lease after which it is extended: two more attempts fit into what is left."""


class InFlightItem:
    """One claimed item.

    ``is_finished``  its handler has returned an outcome.
    ``is_sent``      an outcome was sent to the store; any later outcome is ignored.
    ``is_lost``      the worker no longer has the claim.
    """

    __slots__ = ("is_finished", "is_lost", "is_sent", "lease", "state")

    def __init__(self, state: ItemState, lease: ClaimLease) -> None:
        self.state = state
        self.lease = lease
        self.is_finished = self.is_sent = self.is_lost = False

    @property
    def is_in_flight(self) -> bool:
        """Whether the store has not answered to an outcome of it yet."""
        return self.state.id in self.lease.items


class ClaimLease:
    """The items of one claim that have the same lease.

    ``confirm``  unless None, confirms the claim, before a handler begins with an item of it.
    ``is_void``  the claim could not be confirmed.
    """

    __slots__ = ("confirm", "extend_at", "is_void", "items", "lease_ms", "token")

    def __init__(
        self, token: str, lease_ms: int, since: float, *, confirm: Confirm | None = None
    ) -> None:
        self.token = token
        self.lease_ms = lease_ms
        self.confirm = confirm
        self.is_void = False
        self.items: dict[int, InFlightItem] = {}
        self.renewed(since)

    def renewed(self, since: float) -> None:
        """The lease began (again) at this moment."""
        self.extend_at = since + self.lease_ms / 1000 * EXTEND_AFTER


class InFlight:
    """All items in flight. The executor, the completer and the heartbeat share it.

    A claim under way counts, so that ``wait_empty`` does not miss the items it brings.
    """

    def __init__(self, emptied: Callable[[], None], expect: Callable[[float], None]) -> None:
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)
        self._leases: set[ClaimLease] = set()
        self._count = 0
        self._claims = 0
        self._notify_emptied = emptied
        self._expect = expect

    @property
    def is_empty(self) -> bool:
        return not self._count and not self._claims

    @property
    def has_items(self) -> bool:
        return bool(self._count)

    @property
    def is_claiming(self) -> bool:
        return bool(self._claims)

    def begin_claim(self) -> None:
        """A claim is under way, until ``end_claim``."""
        with self._lock:
            self._claims += 1

    def end_claim(self) -> None:
        with self._lock:
            self._claims -= 1
        self._check_empty()

    def add(self, response: ClaimResponse, since: float) -> list[InFlightItem]:
        """Add the items of a claim, which was sent at ``since``."""
        items: list[InFlightItem] = []
        leases: dict[int, ClaimLease] = {}
        for state in response.items:
            lease_ms = (state.lease_until or response.now) - response.now
            lease = leases.get(lease_ms)
            if lease is None:
                token = state.token or ""
                lease = leases[lease_ms] = ClaimLease(
                    token, lease_ms, since, confirm=response.confirm
                )
            item = lease.items[state.id] = InFlightItem(state, lease)
            items.append(item)
        with self._lock:
            self._leases.update(leases.values())
            self._count += len(items)
        for lease in leases.values():
            self._expect(lease.extend_at)
        return items

    def remove(self, items: Iterable[InFlightItem]) -> None:
        """Remove items that are settled, or that the worker gives up."""
        with self._lock:
            for item in items:
                lease = item.lease
                if lease.items.pop(item.state.id, None) is not None:
                    self._count -= 1
                    if not lease.items:
                        self._leases.discard(lease)
        self._check_empty()

    def of(self, lease: ClaimLease) -> list[InFlightItem]:
        """The items that are left of a claim."""
        with self._lock:
            return list(lease.items.values())

    def all(self) -> list[InFlightItem]:
        """All items in flight."""
        with self._lock:
            return [item for lease in self._leases for item in lease.items.values()]

    def next_extension(self) -> float | None:
        """When the next lease has to be extended."""
        with self._lock:
            return min((lease.extend_at for lease in self._leases), default=None)

    def to_extend(self, now: float) -> list[tuple[ClaimLease, list[InFlightItem]]]:
        """The leases that are due to be extended, with their items."""
        with self._lock:
            due = [lease for lease in self._leases if lease.extend_at <= now]
            return [(lease, list(lease.items.values())) for lease in due]

    def lose(self, items: Iterable[InFlightItem]) -> list[InFlightItem]:
        """The store says that the worker no longer has these claims; returns those it has lost.

        An item whose outcome is known is not lost: that outcome may have ended the claim.
        """
        lost = [item for item in items if not (item.is_finished or item.is_sent)]
        for item in lost:
            item.is_lost = True
        self.remove(lost)
        return lost

    def wait_empty(self, seconds_left: Callable[[], float]) -> bool:
        """Wait until nothing is in flight, or no seconds are left; whether nothing is."""
        with self._lock:
            while self._count or self._claims:
                left = seconds_left()
                if left <= 0:
                    return False
                self._emptied.wait(min(left, 1.0))
            return True

    def poke(self) -> None:
        """Let ``wait_empty`` ask again how many seconds are left."""
        with self._lock:
            self._emptied.notify_all()

    def _check_empty(self) -> None:
        if not self._count and not self._claims:
            with self._lock:
                self._emptied.notify_all()
            self._notify_emptied()


monotonic = time.monotonic
"""The clock for leases: it never steps."""
