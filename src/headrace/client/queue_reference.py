"""A queue by name and its events, apart from what is asked of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from headrace.client.events import Callback, Emitter
from headrace.client.items import Item
from headrace.contract.items import Settled
from headrace.errors import InvalidOption, ItemLost
from headrace.model import error_messages
from headrace.model.fields import shown
from headrace.model.times import Duration, duration_ms

WORKER_EVENTS = ("data", "error", "state", "lost")
STORE_EVENTS = ("pushed", "updated", "paused", "resumed", "dropped")
QUEUE_EVENTS = (*STORE_EVENTS, *WORKER_EVENTS)


Scope = Literal["client", "all"]


def check_event(event: object, scope: object) -> None:
    if scope not in ("client", "all"):
        raise InvalidOption(f"scope is {shown(scope)}: use client or all.", option="scope")
    known = QUEUE_EVENTS if scope == "client" else STORE_EVENTS
    if event not in known:
        where = " of all clients" if scope == "all" else ""
        raise InvalidOption(
            f"a queue has no event {shown(event)}{where}: use {', '.join(known)}.", option="event"
        )


class ClaimingWorker(Protocol):
    """What a queue needs of a worker."""

    def on(self, event: Any, callback: Any) -> Callable[[], None]:
        """Call back for an event; returns the function that ends it."""
        ...


class ClaimCallbacks(NamedTuple):
    """A callback for an event, and how to remove it."""

    event: str
    callback: Callback
    offs: list[Callable[[], None]]

    def listen(self, worker: ClaimingWorker) -> None:
        """Call back for the events of a worker, too."""
        if self.event in WORKER_EVENTS:
            self.offs.append(worker.on(self.event, self.callback))


class QueueReference:
    """A queue by name. It lives in the store; this is only a handle."""

    def __init__(self, name: str, *, is_async: bool) -> None:
        self.name = name
        self._emitter = Emitter(is_async=is_async)
        # Read for each push: no event is emitted where no callback listens.
        self._callbacks: list[ClaimCallbacks] = []
        self._worker: ClaimingWorker | None = None
        self._stops = 0

    def _listen(self, event: str, callback: Callback) -> Callable[[], None]:
        """Call back for what this client does; returns the function that ends it."""
        added = ClaimCallbacks(event, callback, [self._emitter.add(event, callback)])
        self._callbacks.append(added)
        if self._worker is not None:
            added.listen(self._worker)

        def end() -> None:
            if added in self._callbacks:
                self._callbacks.remove(added)
                for off in added.offs:
                    off()

        return end

    def _attach(self, worker: ClaimingWorker) -> None:
        """Call back for the events of the queue's worker, too."""
        self._worker = worker
        for added in self._callbacks:
            added.listen(worker)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.name)}>"


def by_claim(items: Iterable[Item], lease: Duration | None) -> dict[tuple[str, int], Sequence[int]]:
    """Ids by the claim they belong to, and how many milliseconds it shall last."""
    given = None if lease is None else duration_ms("lease", lease, least=1)
    found: dict[tuple[str, int], list[int]] = {}
    for item in items:
        claim_of(item)
        if item.token is None:
            raise error_messages.item_lost(item.queue, item.id)
        found.setdefault((item.token, given or item.lease_ms), []).append(item.id)
    return dict(found)


def claim_of(item: Item) -> Any:
    if not isinstance(item, Item):
        raise InvalidOption(f"{shown(item)} is not an item.", option="items")
    return item


def kept(queue: str, settled: Settled) -> Settled:
    """The answer, unless the item was lost."""
    if settled.state == "gone":
        raise error_messages.item_gone(queue, settled.item)
    if settled.state == "lost":
        raise error_messages.item_lost(queue, settled.item)
    return settled


def lost_or_gone(queue: str, item: int, gone: list[int]) -> ItemLost:
    """The error for an item whose claim is lost."""
    return (
        error_messages.item_gone(queue, item)
        if item in gone
        else error_messages.item_lost(queue, item)
    )
