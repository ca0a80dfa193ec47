"""Helpers of the queue contracts: operations with short names, and a check of the counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from headrace.contract.items import (
    COUNTED,
    ClaimRequest,
    ClaimResponse,
    Counts,
    FinishedItem,
    Outcome,
    PushCall,
    Pushed,
    Settled,
)
from headrace.errors import UnknownItem
from headrace.model.failures import Failure
from headrace.model.queues.items import Document, ItemState
from headrace.model.queues.settings import QueueInfo
from headrace.testing.contract.base import Contract
from headrace.testing.sync_facade import SyncFacade

STATES = COUNTED[:5]
ALL = 1000
_numbers = itertools.count(1)


class RunningPart:
    """One part of a store whose operations run immediately."""

    def __init__(self, ops: StoreOps, name: str, part: Any) -> None:
        self._ops = ops
        self._name = name
        self._part = part

    def __getattr__(self, name: str) -> Any:
        build = getattr(self._part, name)

        def run(*args: Any, **options: Any) -> Any:
            op = build(*args, **options)
            # The name is that of its event, and the action in log lines: the same on all drivers.
            assert op.name == f"{self._name}.{name}"
            return self._ops.run(op)

        return run


class StoreOps:
    """The parts of a client's store, or of a transaction, with operations that run immediately."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.store = (client._inner if isinstance(client, SyncFacade) else client)._store

    def __getattr__(self, part: str) -> RunningPart:
        return RunningPart(self, part, getattr(self.store, part))

    def run(self, op: Any) -> Any:
        if isinstance(self._client, SyncFacade):
            return self._client._await(self.store.arun(op))
        return self.store.run(op)

    def is_woken(self, waiter: Any) -> bool:
        """Whether a waiter was notified."""
        if isinstance(self._client, SyncFacade):
            return bool(self._client._await(waiter.await_hint(1)))
        return bool(waiter.wait(1))


def slow_answers(hr: Any, monkeypatch: pytest.MonkeyPatch, *modules: str) -> list[float]:
    """Make every answer of the store take two seconds on the clock of some modules. Return that
    clock."""
    store = StoreOps(hr).store
    run, arun, clock = store.run, store.arun, [100.0]

    def slow_run(op: Any) -> Any:
        answer = run(op)
        clock[0] += 2
        return answer

    async def slow_arun(op: Any) -> Any:
        answer = await arun(op)
        clock[0] += 2
        return answer

    monkeypatch.setattr(store, "run", slow_run)
    monkeypatch.setattr(store, "arun", slow_arun)
    for module in modules:
        monkeypatch.setattr(f"headrace.client.{module}.monotonic", lambda: clock[0])
    return clock


class Queue:
    """One queue of a store, with short method names."""

    def __init__(self, ops: StoreOps, name: str = "q") -> None:
        self.ops = ops
        self.name = name

    def create(self, **changes: Any) -> QueueInfo:
        info: QueueInfo = self.ops.queues.create(self.name, changes, False)
        return info

    def update(self, **changes: Any) -> QueueInfo:
        info: QueueInfo = self.ops.queues.update(self.name, changes)
        return info

    def call(self, *documents: Any, **call: Any) -> PushCall:
        return PushCall(
            queue=self.name,
            documents=tuple(d if isinstance(d, Document) else doc(d) for d in documents),
            **call,
        )

    def push(self, *documents: Any, **call: Any) -> Pushed:
        [pushed] = self.ops.queues.push([self.call(*documents, **call)])
        assert isinstance(pushed, Pushed)
        return pushed

    def upsert(self, *documents: Any, **call: Any) -> Pushed:
        return self.push(*documents, mode="upsert", **call)

    def fill(self, count: int) -> list[int]:
        """Push numbered documents in one call. Return their ids."""
        return list(self.push(*range(count)).ids)

    def claim_response(
        self, count: int = 1, *, token: str | None = None, **options: Any
    ) -> ClaimResponse:
        token = token or f"token-{next(_numbers)}"
        response: ClaimResponse = self.ops.queues.claim(
            ClaimRequest(queue=self.name, token=token, count=count, **options)
        )
        return response

    def claim(self, count: int = 1, **options: Any) -> list[ItemState]:
        return list(self.claim_response(count, **options).items)

    def claim_one(self, **options: Any) -> ItemState:
        [item] = self.claim(1, **options)
        return item

    def claim_all(self) -> list[Any]:
        """The payloads of all due items, in claim order."""
        return payloads(self.claim(ALL))

    def settle(self, item: ItemState, kind: str, **outcome: Any) -> Settled:
        [settled] = self.ops.queues.settle(self.name, [outcome_of(item, kind, **outcome)])
        assert isinstance(settled, Settled)
        return settled

    def end(self, kind: str, **outcome: Any) -> ItemState:
        """Claim the next item and settle it. Return the item as it was claimed."""
        item = self.claim_one()
        assert self.settle(item, kind, **outcome).state != "lost"
        return item

    def item(self, item: int | str) -> Any:
        return self.ops.queues.item(self.name, item)

    def is_gone(self, item: int | str) -> bool:
        try:
            self.item(item)
        except UnknownItem:
            return True
        return False

    def in_state(self, state: int) -> list[Any]:
        found: list[Any] = self.ops.queues.items(self.name, state, 0, ALL)
        return found

    def dead(self) -> list[FinishedItem]:
        found: list[FinishedItem] = self.in_state(-1)
        return found

    def errors(self) -> list[Any]:
        found: list[Any] = self.ops.queues.logged_errors(self.name, None, 2**62, ALL)
        return found

    def counts(self) -> Counts:
        [backlog] = self.ops.queues.counts([self.name], False)
        counts: Counts = backlog.counts
        return counts


class QueueContract(Contract):
    """Gives each test a ``ops`` on an empty store, and a queue ``q`` that is not made yet.

    After each test the running counts of all queues are compared with what is there.
    """

    @pytest.fixture
    def ops(self, hr: Any) -> Iterator[StoreOps]:
        ops = StoreOps(hr)
        yield ops
        check_counts(ops)

    @pytest.fixture
    def q(self, ops: StoreOps) -> Queue:
        return Queue(ops)


def doc(payload: Any = None, **fields: Any) -> Document:
    """A document. Payload, headers and overrides are given as values."""
    for name in ("headers", "overrides"):
        if name in fields:
            fields[name] = json(fields[name])
    return Document(payload=json(payload), **fields)


def outcome_of(item: ItemState, kind: Any, **outcome: Any) -> Outcome:
    """An outcome for a claimed item. The payload is given as a value."""
    if "payload" in outcome:
        outcome["payload"] = json(outcome["payload"])
    if isinstance(outcome.get("failure"), str):
        outcome["failure"] = Failure(message=outcome["failure"])
    return Outcome(**{"item": item.id, "token": item.token, "kind": kind, **outcome})


def json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def payload(item: Any) -> Any:
    """The payload of a live or a finished item."""
    live = item.item if isinstance(item, FinishedItem) else item
    return msgspec.json.decode(live.payload)


def payloads(items: Any) -> list[Any]:
    return [payload(item) for item in items]


def ids(items: Any) -> list[int]:
    return [item.item.id if isinstance(item, FinishedItem) else item.id for item in items]


def check_counts(ops: StoreOps) -> None:
    """In every queue, the running counts equal the computed ones."""
    running, computed = ops.queues.counts(None, False), ops.queues.counts(None, True)
    for before, after in zip(running, computed, strict=True):
        for name in STATES:
            assert getattr(before.counts, name) == getattr(after.counts, name), (before, after)
        found = [len(ops.queues.items(before.queue, state, 0, ALL)) for state in (0, 1, 2, 3, -1)]
        assert found == [getattr(after.counts, name) for name in STATES]
