"""Handlers of many items at once."""

import asyncio
from typing import Any

import pytest
from workshop import Gate, Shop, Signal, heard

from headrace.worker import Context, Drop, Item, Kill, Reject, Reschedule

KINDS = ["sync", "async"]


def handler_of(kind: str, function: Any) -> Any:
    if kind == "sync":
        return function

    async def handle(items: list[Item]) -> Any:
        await asyncio.sleep(0)
        return function(items)

    return handle


def states(shop: Shop, kind: str, function: Any, count: int = 4) -> list[str]:
    """What becomes of some items that are handled together, in their order."""
    shop.create(reject_delay=60)
    worker = shop.work(handler_of(kind, function), batch=True, chunk=count)
    data = heard(worker, "data")
    shop.push(*range(count))
    found = {done.item.payload: done.settled.state for done in data.wait(count)}
    return [found[payload] for payload in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_at_most_a_chunk(shop: Shop, kind: str) -> None:
    seen = Signal()
    worker = shop.work(
        handler_of(kind, lambda items: seen([i.payload for i in items])), batch=True, chunk=3
    )
    shop.push(*range(7))
    seen.wait_for(lambda seen: sum(map(len, seen)) == 7)
    worker.stop()
    assert [payload for batch in seen.seen for payload in batch] == list(range(7))
    assert max(map(len, seen.seen)) == 3
    assert worker.done == 7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [None, True, [], {}, "words"], ids=repr)
def test_what_is_not_mentioned_is_complete(shop: Shop, kind: str, result: Any) -> None:
    assert states(shop, kind, lambda items: result) == ["completed"] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_outcomes(shop: Shop, kind: str) -> None:
    def handle(items: list[Item]) -> Any:
        return [None, Kill("x"), ValueError("as a value"), Drop]

    assert states(shop, kind, handle) == ["completed", "dead", "planned", "dropped"]


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_by_id(shop: Shop, kind: str) -> None:
    def handle(items: list[Item]) -> Any:
        return {items[1].id: Reschedule(delay=60), items[3].id: Reject("no")}

    assert states(shop, kind, handle) == ["completed", "planned", "completed", "planned"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_outcome_for_all(shop: Shop, kind: str) -> None:
    assert states(shop, kind, lambda items: Drop()) == ["dropped"] * 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [[None] * 5, {99: None}, [Drop, False]], ids=repr)
def test_an_answer_that_does_not_fit_rejects_all(shop: Shop, kind: str, result: Any) -> None:
    assert states(shop, kind, lambda items: result) == ["planned"] * 4
    assert len(shop.errors()) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_raising_rejects_all(shop: Shop, kind: str) -> None:
    def handle(items: list[Item]) -> Any:
        raise LookupError("all of them")

    assert states(shop, kind, handle) == ["planned"] * 4
    assert {error.failure.type for error in shop.errors()} == {"LookupError"}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_side_by_side(shop: Shop, kind: str) -> None:
    """Busy is counted in items."""
    gate = Gate()

    async def ahandle(items: list[Item]) -> None:
        await asyncio.to_thread(gate, items)

    worker = shop.work(gate if kind == "sync" else ahandle, batch=True, chunk=2, concurrency=2)
    shop.push(*range(4))
    gate.arrived.wait(2)
    assert worker.busy == 4
    gate.open()


def test_a_batch_has_one_context(shop: Shop) -> None:
    seen = Signal()
    shop.work(lambda items, context: seen(context), batch=True, chunk=3)
    shop.push(1)
    [context] = seen.wait()
    assert isinstance(context, Context)
    assert context.lost == frozenset()
