"""Slots, apart from what is asked of the store."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from headrace.client.lock_view import MAX_WAIT_SECONDS, wait_seconds
from headrace.client.workflows import Plan
from headrace.contract.counters import CounterAnswer, CounterCall
from headrace.contract.store import Store
from headrace.core.counters import limit_reached
from headrace.core.requests.request import caller
from headrace.errors import LimitReached
from headrace.model.checks import positive
from headrace.model.query.key_values import KeyValues
from headrace.model.times import Duration, duration_ms
from headrace.model.tokens import claim_token

MAX_ENDED = 1000


class SlotsView:
    """Slots of some key-values, as their holder sees them."""

    def __init__(
        self,
        key_values: Mapping[str, Any],
        n: int,
        *,
        lease: Duration,
        wait: float | None,
        heartbeat: bool,
    ) -> None:
        self.key_values = KeyValues.of(key_values, "key_values")
        self.n = positive("n", n)
        self.lease_ms = duration_ms("lease", lease, least=1)
        self.wait = wait_seconds(wait)
        self.heartbeat = heartbeat
        self._renew()

    def _renew(self) -> None:
        """Before they are acquired, perhaps again: they are not those of before."""
        self.session = claim_token()
        self._is_held = self._is_lost = False
        self._sure_until = 0.0

    @property
    def held(self) -> bool:
        """Whether they were acquired, not released yet, and are not known to be lost."""
        return self._is_held and not self.lost

    @property
    def lost(self) -> bool:
        """Whether they may have been released: the store said so, or no heartbeat succeeded for as
        long as the lease is. In the second case ``extend`` finds out, and may still keep them."""
        return self._is_lost or (self._is_held and monotonic() >= self._sure_until)

    def _call(self, *, waits: bool) -> CounterCall:
        return CounterCall(
            key_values=self.key_values.form,
            session=self.session,
            count=self.n,
            lease_ms=self.lease_ms,
            holder=caller(),
            waits=waits,
        )

    def _key(self) -> tuple[str, int]:
        """Equal for all waiters that want the same."""
        return self.key_values.form, self.n

    def _begun(self, asked_at: float) -> None:
        """They were granted."""
        self._is_held = True
        # By our own clock, from before the store's began: never longer than the store thinks.
        self._sure_until = asked_at + self.lease_ms / 1000

    def _refused(self, answer: CounterAnswer) -> LimitReached:
        """The error if there are not enough free slots."""
        assert answer.refusal is not None
        return limit_reached(self.key_values, self.n, answer.refusal)

    def __repr__(self) -> str:
        state = "lost" if self.lost else "held" if self._is_held else "not held"
        return f"<{type(self).__name__} {self.n} of {self.key_values.words}, {state}>"


class Pauses:
    """How long to wait for free slots."""

    def __init__(self, wait: float | None) -> None:
        self._end = None if wait is None else monotonic() + wait

    @property
    def is_over(self) -> bool:
        return self._end is not None and monotonic() >= self._end

    def length(self, answer: CounterAnswer) -> float:
        """Until a lease or a period ends, or the time is over."""
        if answer.next_at is None:
            return self.left
        return min(self.left, max(answer.next_at - answer.now, 1) / 1000)

    @property
    def left(self) -> float:
        """How many seconds there are."""
        return MAX_WAIT_SECONDS if self._end is None else max(self._end - monotonic(), 0.0)


def asking(store: Store, call: CounterCall) -> Plan[CounterAnswer]:
    """Ask for slots; if there are not enough, end expired leases and ask once more."""
    answer: CounterAnswer = yield store.counters.acquire(call)
    is_due = answer.next_at is not None and answer.next_at <= answer.now
    if answer.state == "full" and is_due and (yield store.counters.end(MAX_ENDED)):
        answer = yield store.counters.acquire(call)
    return answer
