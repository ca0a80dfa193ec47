"""Handling items here and now, without a worker: for tests, and for scripts that drain a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.client.clients import Client
from headrace.contract.items import Settled, Take
from headrace.model.names import check_queue
from headrace.model.tokens import claim_token
from headrace.worker.events import Listeners
from headrace.worker.handlers import Handler
from headrace.worker.holding import Entry, Hold
from headrace.worker.items import Item, item_of
from headrace.worker.outcomes import Outcome, said
from headrace.worker.status import Switch


class Handled(msgspec.Struct, frozen=True):
    """An item that was handled, what its handler said, and what became of it."""

    item: Item
    outcome: Outcome
    settled: Settled


def handle_next(client: Client, queue: str, handler: Callable[..., Any]) -> Handled | None:
    """Handle the next item that is due, in this very thread; None if there is none."""
    store = client._store  # noqa: SLF001  # as part of the client as a worker is
    token = claim_token()
    taking = store.run(
        store.claim_items(Take(queue=check_queue(queue), token=token, count=1, worker="inline"))
    )
    if not taking.items:
        return None
    [state] = taking.items
    entry = Entry(state, Hold(token, 0, 0.0))
    outcome = _called(client, queue, handler, entry)
    max_body = client._calls.max_body  # noqa: SLF001  # as above
    [settled] = store.run(store.settle(queue, [said(state, outcome, max_body=max_body)]))
    return Handled(item_of(state), outcome, settled)


def _called(client: Client, queue: str, function: Callable[..., Any], entry: Entry) -> Outcome:
    handler = Handler(
        function,
        client=client,
        worker="inline",
        switch=Switch(lambda: False, lambda before, after: None),
        listeners=Listeners(queue),
        is_batch=False,
        backoff=None,
    )
    return asyncio.run(handler.arun(entry)) if handler.is_async else handler.run(entry)
