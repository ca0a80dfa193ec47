"""Locks: how a client makes and lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.client.beating import AsyncBeats, Beats
from headrace.client.calls import Call
from headrace.client.kind_operations import AsyncKindOperations, KindOperations
from headrace.client.locks import DEFAULT_LEASE, AsyncLock, Lock
from headrace.client.running import documented
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.core.channels import form_of
from headrace.core.locks import LockInfo, info_of
from headrace.core.times import Duration
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query

MOST_LOCKS = 1000


class LockOperations(KindOperations):
    """Locks for blocking code."""

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._beats = Beats()

    def lock(
        self,
        key_values: Mapping[str, Any],
        *,
        lease: Duration = DEFAULT_LEASE,
        wait: float | None = None,
        heartbeat: bool = True,
        on_lost: Callable[[], object] | None = None,
        session: str | None = None,
    ) -> Lock:
        """A lock named by key-values, to be acquired: in a ``with`` block, or by ``acquire``.

        At most one holder has it, in whichever process. ``wait`` is how many seconds to stand in
        line for it, None for ever. Whoever holds it has a ``lease``, which a heartbeat extends
        unless told otherwise: when the process dies, the next one gets the lock after that time.
        Should it be lost (the process stood still, or the store was away for longer than the
        lease), ``lock.lost`` says so, ``on_lost`` is called by the heartbeat, and ``LockLost`` is
        raised at the end of the block. ``lock.token`` tells old holders from new ones.

        With the ``session`` of a lock that was acquired before, perhaps by a process that is gone,
        it is the same lock, and ``acquire`` goes on with it if nobody has taken it.
        """
        _ = self._calls
        return Lock(
            self,
            key_values,
            lease=lease,
            wait=wait,
            heartbeat=heartbeat,
            on_lost=on_lost,
            session=session,
        )

    def locks(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MOST_LOCKS,
    ) -> list[LockInfo]:
        """The locks that somebody has or waits for, or those that a query selects, by their form.

        Go on with ``after`` the key-values of the last one.
        """
        _ = self._calls
        return self._run(_listing(self._store, select, after, limit))

    def release_lock(self, key_values: Mapping[str, Any], *, token: int | None = None) -> LockInfo:
        """Take a lock away from whoever has it; what it was. ``UnknownLock`` if nobody has it, or
        by another ``token`` than is given. Its holder finds it lost at its next heartbeat."""
        _ = self._calls
        return self._run(_breaking(self._store, key_values, token))


class AsyncLockOperations(AsyncKindOperations):
    """Locks for async code."""

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._beats = AsyncBeats()

    def lock(
        self,
        key_values: Mapping[str, Any],
        *,
        lease: Duration = DEFAULT_LEASE,
        wait: float | None = None,
        heartbeat: bool = True,
        on_lost: Callable[[], object] | None = None,
        session: str | None = None,
    ) -> AsyncLock:
        _ = self._calls
        return AsyncLock(
            self,
            key_values,
            lease=lease,
            wait=wait,
            heartbeat=heartbeat,
            on_lost=on_lost,
            session=session,
        )

    async def locks(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MOST_LOCKS,
    ) -> list[LockInfo]:
        _ = self._calls
        return await self._run(_listing(self._store, select, after, limit))

    async def release_lock(
        self, key_values: Mapping[str, Any], *, token: int | None = None
    ) -> LockInfo:
        _ = self._calls
        return await self._run(_breaking(self._store, key_values, token))


def _listing(
    store: Store, select: Query | None, after: KeyValues | None, limit: int
) -> Call[list[LockInfo]]:
    chosen = None if select is None else form_of(select)
    last = "" if after is None else KeyValues.of(after, "after").form
    op: Op[Any] = store.locks(chosen, last, positive("limit", limit))
    return Call(op, lambda rows: [info_of(row) for row in rows])


def _breaking(store: Store, key_values: Mapping[str, Any], token: int | None) -> Call[LockInfo]:
    form = KeyValues.of(key_values, "key_values").form
    if token is not None and (not isinstance(token, int) or isinstance(token, bool)):
        raise InvalidOption(f"token is {token!r:.80}: use the number of a lock.", option="token")
    return Call(store.break_lock(form, token), info_of)


documented(AsyncLockOperations, LockOperations)
