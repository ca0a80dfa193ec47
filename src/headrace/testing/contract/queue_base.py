"""What the contracts of queues share: the operations in short words, and a check of counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from headrace.contract.items import (
    COUNTED,
    Counts,
    EndedItem,
    Outcome,
    PushCall,
    Pushed,
    Settled,
    Take,
    Taking,
)
from headrace.errors import UnknownItem
from headrace.model.failures import Failure
from headrace.model.items import Document, ItemState
from headrace.model.queues import QueueInfo
from headrace.testing.contract.base import Contract
from headrace.testing.faces import BlockingFace

STATES = COUNTED[:5]
ALL = 1000
_numbers = itertools.count(1)


class Desk:
    """The operations of a client's store (or of a transaction), each run at once."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.store = (client._inner if isinstance(client, BlockingFace) else client)._store

    def __getattr__(self, name: str) -> Any:
        build = getattr(self.store, name)

        def call(*args: Any) -> Any:
            if isinstance(self._client, BlockingFace):
                return self._client._await(self.store.arun(build(*args)))
            return self.store.run(build(*args))

        return call

    def is_woken(self, waiter: Any) -> bool:
        """Whether a hint came for somebody who waits."""
        if isinstance(self._client, BlockingFace):
            return bool(self._client._await(waiter.await_hint(1)))
        return bool(waiter.wait(1))


class Queue:
    """One queue of a store, in short words."""

    def __init__(self, desk: Desk, name: str = "q") -> None:
        self.desk = desk
        self.name = name

    def create(self, **changes: Any) -> QueueInfo:
        info: QueueInfo = self.desk.create_queue(self.name, changes, False)
        return info

    def update(self, **changes: Any) -> QueueInfo:
        info: QueueInfo = self.desk.update_queue(self.name, changes)
        return info

    def call(self, *documents: Any, **call: Any) -> PushCall:
        return PushCall(
            queue=self.name,
            documents=tuple(d if isinstance(d, Document) else doc(d) for d in documents),
            **call,
        )

    def push(self, *documents: Any, **call: Any) -> Pushed:
        [pushed] = self.desk.push([self.call(*documents, **call)])
        assert isinstance(pushed, Pushed)
        return pushed

    def upsert(self, *documents: Any, **call: Any) -> Pushed:
        return self.push(*documents, mode="upsert", **call)

    def fill(self, count: int) -> list[int]:
        """Push numbered documents in one call; their ids."""
        return list(self.push(*range(count)).ids)

    def take(self, count: int = 1, *, token: str | None = None, **options: Any) -> Taking:
        token = token or f"token-{next(_numbers)}"
        taking: Taking = self.desk.claim_items(
            Take(queue=self.name, token=token, count=count, **options)
        )
        return taking

    def claim(self, count: int = 1, **options: Any) -> list[ItemState]:
        return list(self.take(count, **options).items)

    def claim_one(self, **options: Any) -> ItemState:
        [item] = self.claim(1, **options)
        return item

    def claim_all(self) -> list[Any]:
        """The payloads of all that is due, in the order in which they are handed out."""
        return payloads(self.claim(ALL))

    def settle(self, item: ItemState, kind: str, **outcome: Any) -> Settled:
        [settled] = self.desk.settle(self.name, [said(item, kind, **outcome)])
        assert isinstance(settled, Settled)
        return settled

    def end(self, kind: str, **outcome: Any) -> ItemState:
        """Claim the next item and settle it; the item as it was claimed."""
        item = self.claim_one()
        assert self.settle(item, kind, **outcome).state != "lost"
        return item

    def item(self, item: int | str) -> Any:
        return self.desk.item(self.name, item)

    def is_gone(self, item: int | str) -> bool:
        try:
            self.item(item)
        except UnknownItem:
            return True
        return False

    def in_state(self, state: int) -> list[Any]:
        found: list[Any] = self.desk.items(self.name, state, 0, ALL)
        return found

    def dead(self) -> list[EndedItem]:
        found: list[EndedItem] = self.in_state(-1)
        return found

    def errors(self) -> list[Any]:
        found: list[Any] = self.desk.logged_errors(self.name, None, 2**62, ALL)
        return found

    def counts(self) -> Counts:
        [backlog] = self.desk.backlogs([self.name], False)
        counts: Counts = backlog.counts
        return counts


class QueueContract(Contract):
    """Gives each test a ``desk`` on an empty store, and a queue ``q`` that is not made yet.

    After each test the running counts of all queues are compared with what is there.
    """

    @pytest.fixture
    def desk(self, hr: Any) -> Iterator[Desk]:
        desk = Desk(hr)
        yield desk
        check_counts(desk)

    @pytest.fixture
    def q(self, desk: Desk) -> Queue:
        return Queue(desk)


def doc(payload: Any = None, **fields: Any) -> Document:
    """A document; payload, headers and overrides are given as values."""
    for name in ("headers", "overrides"):
        if name in fields:
            fields[name] = json(fields[name])
    return Document(payload=json(payload), **fields)


def said(item: ItemState, kind: Any, **outcome: Any) -> Outcome:
    """What the one who claimed an item says of it; a payload is given as a value."""
    if "payload" in outcome:
        outcome["payload"] = json(outcome["payload"])
    if isinstance(outcome.get("failure"), str):
        outcome["failure"] = Failure(message=outcome["failure"])
    return Outcome(**{"item": item.id, "token": item.token, "kind": kind, **outcome})


def json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def payload(item: Any) -> Any:
    """What an item, live or ended, carries."""
    live = item.item if isinstance(item, EndedItem) else item
    return msgspec.json.decode(live.payload)


def payloads(items: Any) -> list[Any]:
    return [payload(item) for item in items]


def ids(items: Any) -> list[int]:
    return [item.item.id if isinstance(item, EndedItem) else item.id for item in items]


def check_counts(desk: Desk) -> None:
    """The running counts are what counting gives, in every queue."""
    running, computed = desk.backlogs(None, False), desk.backlogs(None, True)
    for before, after in zip(running, computed, strict=True):
        for name in STATES:
            assert getattr(before.counts, name) == getattr(after.counts, name), (before, after)
        found = [len(desk.items(before.queue, state, 0, ALL)) for state in (0, 1, 2, 3, -1)]
        assert found == [getattr(after.counts, name) for name in STATES]
