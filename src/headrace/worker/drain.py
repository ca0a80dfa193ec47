"""Handles items in the calling thread, without a worker: for tests and for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.client._sync.client import Client
from headrace.contract.items import ClaimRequest, Settled
from headrace.model.failures import failure_of
from headrace.model.names import check_queue
from headrace.model.tokens import claim_token
from headrace.worker.events import Listeners
from headrace.worker.handlers import Handler
from headrace.worker.in_flight import ClaimLease, InFlightItem
from headrace.worker.items import Item, item_of
from headrace.worker.outcomes import HandlerOutcome, Reject, stored_outcome
from headrace.worker.status import Switch


class Handled(msgspec.Struct, frozen=True):
    """An item that was handled, the outcome, and the item's new state."""

    item: Item
    outcome: HandlerOutcome
    settled: Settled


def handle_next(client: Client, queue: str, handler: Callable[..., Any]) -> Handled | None:
    """Handle the next item that is due, in the calling thread; None if there is none."""
    store = client._store  # noqa: SLF001  # part of the client, as a worker is
    token = claim_token()
    response = store.run(
        store.queues.claim(
            ClaimRequest(queue=check_queue(queue), token=token, count=1, worker="inline")
        )
    )
    if not response.items:
        return None
    [state] = response.items
    entry = InFlightItem(state, ClaimLease(token, 0, 0.0))
    outcome = _called(client, queue, handler, entry)
    max_body = client._requests.max_body  # noqa: SLF001  # as above
    try:
        stored = stored_outcome(state, outcome, max_body=max_body)
    except BaseException as error:  # what a handler returned cannot be stored
        outcome = Reject(failure_of(error))
        stored = stored_outcome(state, outcome)
    [settled] = store.run(store.queues.settle(queue, [stored]))
    return Handled(item_of(state), outcome, settled)


def _called(
    client: Client, queue: str, function: Callable[..., Any], entry: InFlightItem
) -> HandlerOutcome:
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
