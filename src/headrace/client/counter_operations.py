"""Counters: how a client acquires slots, and sets and lists what is counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.client.calls import Call
from headrace.client.counters import AsyncSlots, Slots
from headrace.client.limit_operations import AsyncLimitOperations, LimitOperations
from headrace.client.locks import DEFAULT_LEASE
from headrace.client.queue_calls import same
from headrace.client.running import documented
from headrace.contract.store import Store
from headrace.core.channels import form_of
from headrace.core.counters import CounterInfo, info_of
from headrace.core.times import Duration
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query

MOST_COUNTERS = 1000


class CounterOperations(LimitOperations):
    """Counters for blocking code."""

    def acquire(
        self,
        key_values: Mapping[str, Any],
        n: int = 1,
        *,
        lease: Duration = DEFAULT_LEASE,
        wait: float | None = 0.0,
        heartbeat: bool = True,
    ) -> Slots:
        """Count ``n`` more of some key-values, if all limits that apply have room for them.

        For work that is no item of a queue, under the same rules: those without a queue apply, as
        if this were a running item in a channel with these key-values. ``LimitReached`` names the
        limit that has no room, after ``wait`` seconds (None: for ever). Whoever holds slots has a
        ``lease``, which a heartbeat extends unless told otherwise: when the process dies, they are
        given back after that time.
        """
        _ = self._calls
        return Slots(self, key_values, n, lease)._acquire(wait, heartbeat=heartbeat)

    def set_counter(self, key_values: Mapping[str, Any], count: int) -> int:
        """Say how many of some key-values there are, whatever the limits say and without a lease,
        in place of what was set before; returns that. What is acquired counts besides."""
        _ = self._calls
        return self._run(_setting(self._store, key_values, count))

    def counters(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MOST_COUNTERS,
    ) -> list[CounterInfo]:
        """What user code counts, by key-values, or those that a query selects, by their form.

        Go on with ``after`` the key-values of the last one.
        """
        _ = self._calls
        return self._run(_listing(self._store, select, after, limit))


class AsyncCounterOperations(AsyncLimitOperations):
    """Counters for async code."""

    async def acquire(
        self,
        key_values: Mapping[str, Any],
        n: int = 1,
        *,
        lease: Duration = DEFAULT_LEASE,
        wait: float | None = 0.0,
        heartbeat: bool = True,
    ) -> AsyncSlots:
        _ = self._calls
        return await AsyncSlots(self, key_values, n, lease)._acquire(wait, heartbeat=heartbeat)

    async def set_counter(self, key_values: Mapping[str, Any], count: int) -> int:
        _ = self._calls
        return await self._run(_setting(self._store, key_values, count))

    async def counters(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MOST_COUNTERS,
    ) -> list[CounterInfo]:
        _ = self._calls
        return await self._run(_listing(self._store, select, after, limit))


def _setting(store: Store, key_values: Mapping[str, Any], count: int) -> Call[int]:
    form = KeyValues.of(key_values, "key_values").form
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InvalidOption(
            f"count is {count!r:.80}: use a whole number from 0 on.", option="count"
        )
    return Call(store.set_counter(form, count), same)


def _listing(
    store: Store, select: Query | None, after: KeyValues | None, limit: int
) -> Call[list[CounterInfo]]:
    chosen = None if select is None else form_of(select)
    last = "" if after is None else KeyValues.of(after, "after").form
    op = store.counters(chosen, last, positive("limit", limit))
    return Call(op, lambda rows: [info_of(row) for row in rows])


documented(AsyncCounterOperations, CounterOperations)
