"""The two sides of the queue machine, and what must be equal on both.

Ids and positions rise on both sides in the same order but with different gaps: a crash or an item
that was rolled back uses some up. So ids are compared by number, in the order in which they first
appeared, and positions by their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from headrace.contract.items import (
    ClaimResponse,
    DeadGroup,
    FinishedItem,
    LoggedError,
    Pushed,
    QueuePosition,
    Settled,
)
from headrace.contract.limits import Usage
from headrace.errors import HeadraceError
from headrace.model.queues.dead_letter import PREFIX
from headrace.model.queues.items import ItemState, State
from headrace.testing.sync_facade import SyncFacade

ALL = 1000
NOBODY = 10**12
"""An id that no item has."""
STATES = (State.PLANNED, State.PENDING, State.ACTIVE, State.COMPLETED, State.DEAD)


class QueueSide:
    """A client's store, and the numbers of its items."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.ids: list[int] = []
        self._numbers: dict[int, int] = {}

    def run(self, operation: str, *args: Any) -> Any:
        """Run an operation of the store."""
        store = self.client._store
        if isinstance(self.client, SyncFacade):
            return self.client._await(store.arun(attrgetter(operation)(store)(*args)))
        return store.run(attrgetter(operation)(store)(*args))

    def learn(self, ids: Iterable[int]) -> None:
        """Number the ids that have not been seen before."""
        for id in sorted(set(ids) - set(self._numbers)):
            self._numbers[id] = len(self.ids)
            self.ids.append(id)

    def id(self, number: int) -> int:
        return self.ids[number] if number < len(self.ids) else NOBODY

    def number(self, id: int) -> Any:
        return self._numbers.get(id, f"unknown id {id}")

    def plain(self, value: Any) -> Any:
        """An answer in the form that must be equal on both sides."""
        match value:
            case ItemState():
                return self._item(value)
            case FinishedItem() | QueuePosition():
                return msgspec.to_builtins(value) | {"item": self._item(value.item)}
            case LoggedError():
                return msgspec.to_builtins(value) | {"id": None, "item": self.number(value.item)}
            case DeadGroup():
                return msgspec.to_builtins(value) | {"example": self.number(value.example)}
            case Pushed():
                ids = [self.number(id) if id else "taken" for id in value.ids]
                return {"pushed": ids, "notes": msgspec.to_builtins(value.notes)}
            case Settled():
                return msgspec.to_builtins(value) | {"item": self.number(value.item)}
            case Usage():
                holders = [
                    {
                        **msgspec.to_builtins(holder),
                        "item": holder.item and self.number(holder.item),
                    }
                    for holder in value.holders
                ]
                return msgspec.to_builtins(value) | {"holders": holders}
            case ClaimResponse():
                items = [self._item(item) for item in value.items]
                return msgspec.to_builtins(value) | {"items": items}
            case list():
                return [self.plain(one) for one in value]
            case HeadraceError():
                return type(value), value.code, self._words(value)
        return value

    def _item(self, item: ItemState) -> dict[str, Any]:
        headers = None if item.headers is None else msgspec.json.decode(item.headers)
        if headers and PREFIX + "id" in headers:
            headers[PREFIX + "id"] = self.number(int(headers[PREFIX + "id"]))
        return {
            **msgspec.to_builtins(item),
            "id": self.number(item.id),
            "position": item.position is not None,
            "headers": headers,
        }

    def _words(self, error: HeadraceError) -> str:
        item = error.details.get("item")
        return str(error) if item is None else str(error).replace(repr(item), "…")


class QueueView(NamedTuple):
    """A queue with all its items, live and finished."""

    info: Any
    items: list[ItemState | FinishedItem]
    backlog: Any
    channels: Any


def view_of(side: QueueSide, prefix: str = "") -> dict[str, QueueView]:
    """Everything that can be read of the queues of a side. Their ids are known from then on."""
    views = {}
    queues = side.run("queues.list", prefix, "", ALL)
    backlogs = side.run("queues.counts", [info.name for info in queues], False)
    for info, backlog in zip(queues, backlogs, strict=True):
        items = [
            item for state in STATES for item in side.run("queues.items", info.name, state, 0, ALL)
        ]
        channels = side.run("channels.list", info.name, None, "", ALL)
        views[info.name] = QueueView(info, items, backlog, channels)
    side.learn(live(item).id for view in views.values() for item in view.items)
    return views


def live(item: ItemState | FinishedItem) -> ItemState:
    """The item itself, finished or not."""
    return item.item if isinstance(item, FinishedItem) else item


def plain_view(side: QueueSide, view: QueueView) -> dict[str, Any]:
    """A queue in the form that must be equal on both sides."""
    waiting = [item for item in view.items if isinstance(item, ItemState)]
    line = sorted(item.position for item in waiting if item.position is not None)
    return {
        "info": view.info,
        "items": [side.plain(item) for item in view.items],
        "line": [None if item.position is None else line.index(item.position) for item in waiting],
        "backlog": view.backlog,
        "channels": view.channels,
    }


def plain_errors(side: QueueSide, queue: str) -> Any:
    """A queue's error log in the form that must be equal on both sides."""
    return side.plain(side.run("queues.logged_errors", queue, None, NOBODY, ALL))
