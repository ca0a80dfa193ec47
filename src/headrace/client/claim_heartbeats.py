"""Heartbeats for claimed items: extend their leases until they are settled."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from headrace.client.lease_keeper import LeaseKeeper
from headrace.contract.items import Outcome
from headrace.contract.store import Store
from headrace.errors import InvalidOption, OutcomeUnknown, UnknownQueue
from headrace.model.failures import words_of
from headrace.model.fields import shown

if TYPE_CHECKING:
    import asyncio

    from headrace.client._async.items import AsyncClaimedItem
    from headrace.client._sync.items import ClaimedItem

OnLost = Callable[[Any], object]
Call = Callable[[OnLost, Any], object]

_log = logging.getLogger("headrace")


class ClaimKeeper:
    """Extends the leases of the items of one claim, each until it is settled, lost or collected.

    Its references are weak: an item that the program drops goes back when its lease ends.
    """

    def __init__(
        self,
        store: Store,
        items: Sequence[ClaimedItem | AsyncClaimedItem],
        asked_at: float,
        lost: OnLost,
    ) -> None:
        self.token = items[0].token or ""
        self.lease_ms = min(item.lease_ms for item in items)
        self._store = store
        self._queue = items[0].queue
        self._lost = lost
        self._items: WeakValueDictionary[int, ClaimedItem | AsyncClaimedItem] = (
            WeakValueDictionary()
        )
        # Settled in a transaction that is still open: they cannot be extended meanwhile.
        self._entrusted: WeakValueDictionary[int, ClaimedItem | AsyncClaimedItem] = (
            WeakValueDictionary()
        )
        self._lost_ids: set[int] = set()
        self._settling: set[int] = set()
        for item in items:
            self._items[item.id] = item
            item._keeper = self  # a keeper is part of its items
        self._sure_until = {item.id: asked_at + item.lease_ms / 1000 for item in items}

    @property
    def is_over(self) -> bool:
        return not self._items and not self._entrusted

    def has_lost(self, id: int) -> bool:
        """Whether another client may have claimed an item: the store reported the loss, or no
        heartbeat has succeeded for as long as its lease is."""
        if id in self._lost_ids:
            return True
        return id in self._items and monotonic() >= self._sure_until[id]

    def settling(self, id: int) -> None:
        """An item is being settled: if an extension does not find it then, it is not lost."""
        self._settling.add(id)

    def unsettled(self, id: int) -> None:
        """Settling an item has failed."""
        self._settling.discard(id)

    def settled(self, id: int) -> None:
        self._items.pop(id, None)
        self._entrusted.pop(id, None)

    def entrust(self, id: int) -> None:
        """An item is settled in a transaction that is still open."""
        item = self._items.pop(id, None)
        if item is not None:
            self._entrusted[id] = item

    def regain(self, id: int) -> None:
        """That transaction was rolled back."""
        item = self._entrusted.pop(id, None)
        if item is not None:
            self._items[id] = item

    def extend(self) -> bool:
        """Extend all leases; whether any item is left."""
        for lease_ms, ids in self._by_lease().items():
            self._extend(ids, lease_ms)
        return not self.is_over

    def _by_lease(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for id, item in list(self._items.items()):
            found.setdefault(item.lease_ms, []).append(id)
        return found

    def _extend(self, ids: list[int], lease_ms: int) -> None:
        asked_at = monotonic()
        try:
            op = self._store.queues.extend(self._queue, self.token, ids, lease_ms)
            still = self._store.run(op)
        except UnknownQueue:
            still = []
        except Exception:
            # The store is unavailable: the next heartbeat may succeed before the lease ends.
            return
        for id in ids:
            if id in still:
                self._sure_until[id] = asked_at + lease_ms / 1000
            elif id not in self._settling:
                self._lose(id)

    def _lose(self, id: int) -> None:
        item = self._items.pop(id, None)
        if item is not None:
            self._lost_ids.add(id)
            with suppress(Exception):  # a log handler of the user may raise
                _log.warning(
                    "item %s of queue %r was lost: its claim no longer stands",
                    id,
                    self._queue,
                    extra={"action": "item_lost"},
                )
            self._lost(item)


Kept = list[tuple[ClaimKeeper, int]]


class ClaimKeepers:
    """The claims that a client extends by heartbeats, in a thread of their own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leases = LeaseKeeper()
        self.keepers: dict[str, ClaimKeeper] = {}
        self._is_used = False

    def keep(
        self,
        items: Sequence[ClaimedItem | AsyncClaimedItem],
        asked_at: float,
        on_lost: OnLost | None,
        call: Call,
    ) -> None:
        """Extend the items of a claim that was requested at ``asked_at``."""

        def lost(item: Any) -> None:
            if on_lost is not None:
                call(on_lost, item)

        self._is_used = True
        keeper = ClaimKeeper(self._store, items, asked_at, lost)

        def extend() -> bool:
            has_items = keeper.extend()
            if not has_items:
                self.keepers.pop(keeper.token, None)
            return has_items

        self.keepers[keeper.token] = keeper
        self._leases.begin(keeper, keeper.lease_ms, extend)

    @contextmanager
    def settling(self, outcomes: Iterable[Outcome]) -> Iterator[None]:
        """While items are being settled: then they are kept no longer, unless that fails."""
        kept = self._kept(outcomes)
        for keeper, id in kept:
            keeper.settling(id)
        try:
            yield
        except OutcomeUnknown:
            raise  # they may be settled: if an extension does not find them, they are not lost
        except BaseException:
            for keeper, id in kept:
                keeper.unsettled(id)
            raise
        self._settled(kept)

    def entrust(self, outcomes: Iterable[Outcome]) -> Kept:
        """Items are settled in a transaction; ``decide`` follows when it ends."""
        kept = self._kept(outcomes)
        for keeper, id in kept:
            keeper.entrust(id)
        return kept

    def decide(self, kept: Kept, error: BaseException | None) -> None:
        """That transaction has been committed, or has failed with an error."""
        if error is None:
            self._settled(kept)
        elif not isinstance(error, OutcomeUnknown):
            for keeper, id in kept:
                keeper.regain(id)

    def _kept(self, outcomes: Iterable[Outcome]) -> Kept:
        return [
            (keeper, outcome.item)
            for outcome in outcomes
            if (keeper := self.keepers.get(outcome.token)) is not None
        ]

    def _settled(self, kept: Kept) -> None:
        for keeper, id in kept:
            keeper.settled(id)
            if keeper.is_over:
                self.keepers.pop(keeper.token, None)
                self._leases.end(keeper)

    def close(self) -> None:
        """End all heartbeats, and wait for the one that is under way."""
        self.keepers.clear()
        self._leases.close()

    async def aclose(self) -> None:
        """``close`` without blocking the event loop."""
        from headrace.contract.threads import in_thread

        if self._is_used:
            await in_thread(self.close)


def check(heartbeat: object, on_lost: object) -> None:
    """Raise ``InvalidOption`` for options that make no sense."""
    if not isinstance(heartbeat, bool):
        raise InvalidOption(
            f"heartbeat is {shown(heartbeat)}: use True or False.", option="heartbeat"
        )
    if on_lost is None:
        return
    if not callable(on_lost):
        raise InvalidOption(f"{shown(on_lost)} cannot be called back.", option="on_lost")
    if not heartbeat:
        raise InvalidOption("only heartbeats notice a loss: use heartbeat=True.", option="on_lost")


def call(callback: OnLost, item: Any) -> object:
    """Call back from the thread of the heartbeats; log what is raised."""
    try:
        return callback(item)
    except BaseException as error:  # the heartbeats of all other items go on
        _log.error("on_lost raised %s", words_of(error), extra={"action": "item_lost"})
        return None


async def _awaited(answer: Awaitable[object]) -> None:
    """Await what a callback returned; log what is raised."""
    try:
        await answer
    except Exception as error:  # as in ``call``
        _log.error("on_lost raised %s", words_of(error), extra={"action": "item_lost"})


def call_on(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Future[Any]]) -> Call:
    """Call back on an event loop; the callback may be a coroutine function."""

    def here(callback: OnLost, item: Any) -> None:
        answer = call(callback, item)
        if inspect.isawaitable(answer):
            # Kept, because the event loop has only weak references to its tasks.
            task = loop.create_task(_awaited(answer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def threadsafe(callback: OnLost, item: Any) -> None:
        try:
            loop.call_soon_threadsafe(here, callback, item)
        except RuntimeError:
            return  # the event loop is closed, and nothing there can be called

    return threadsafe
