"""Willow's items: enqueue, dequeue, ack and heartbeat."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from headrace.client._runtime.aio import undo_if_cancelled
from headrace.client.waiters import MAX_WAIT_SECONDS, Deadline, Waiters
from headrace.contract.items import ClaimRequest, ClaimResponse, Outcome
from headrace.core.documents import Doc, document
from headrace.core.pushes import push_call, result_of
from headrace.core.requests.request import caller
from headrace.errors import InvalidInput
from headrace.model.checks import MAX_COUNT
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.fields import refuse, shown
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.queues.items import BYTES, NO_OVERRIDES, ItemState, Overrides
from headrace.model.queues.settings import NO_LIMIT, RetryPosition
from headrace.model.tokens import claim_token
from headrace.node.guarded_store import GuardedStore
from headrace.node.http import Response
from headrace.node.resources.long_polls import LeftBehind, while_connected
from headrace.node.willow.delivery import ItemDelivery, check_of, gone, lost, read_delivery
from headrace.node.willow.numbers import nanoseconds
from headrace.node.willow.objects import MAX_UINT64, Fields, Object, whole
from headrace.node.willow.route import Call, WillowRoute, wait_of

OUTCOME = b"headrace-outcome"
"""The header that says what became of an item: ``dropped``, for example."""

_PROPERTIES: Fields = {
    "Data": ("Item",),
    "Updateable": (),
    "RetryAttempts": (),
    "RetryPosition": (),
    "TimeoutDuration": (),
}
_HEARTBEAT: Fields = {"ItemID": (), "KeyValues": ()}
_ACK: Fields = {**_HEARTBEAT, "Passed": ("Success",)}

_overrides = msgspec.json.Decoder(Overrides).decode


async def enqueue_item(call: Call) -> None:
    about, properties = whole(call.body, {"KeyValues": ()}, _PROPERTIES)
    doc = Doc(
        properties.data("Data"),
        channel=about.key_values("KeyValues"),
        updateable=properties.flag("Updateable"),
        max_attempts=_max_attempts(properties.number("RetryAttempts", 0, MAX_UINT64)),
        retry_position=_retry_position(properties),
        lease=properties.milliseconds("TimeoutDuration") / 1000,
    )
    push = push_call(call["queue"], (document(doc, max_body=DEFAULT_MAX_BODY),))
    # A push alone would create the queue.
    [outcome] = await call.store.arun_on(push.queue, call.store.queues.push([push]))
    result_of(outcome)


def _max_attempts(retries: int) -> int:
    return retries + 1 if retries < MAX_COUNT else NO_LIMIT


def _retry_position(properties: Object) -> RetryPosition:
    match properties.get("RetryPosition"):
        case "front":
            return "front"
        case "back":
            return "back"
        case other:
            reason = f"{shown(other)}: use front or back."
            refuse(InvalidInput, f"{properties.path}.RetryPosition", reason)


async def dequeue_item(call: Call) -> Any:
    """Wait until there is an item, for as long as the client stays."""
    name, select, wait = call["queue"], Query.from_json(call.body).form, wait_of(call)
    try:
        response = await while_connected(call, _claimed(call.store, name, select, wait))
    except LeftBehind as left:
        await _release(call.store, name, left.work.result())
        raise
    return _shown(response.items[0]) if response.items else Response(status=204)


async def _claimed(
    store: GuardedStore, queue: str, select: str, wait: float | None
) -> ClaimResponse:
    async def claim() -> ClaimResponse:
        request = ClaimRequest(
            queue=queue, token=claim_token(), count=1, worker=caller(), select=select
        )
        op = store.queues.claim(request)
        # A claim for a client that has gone is undone, and no attempt is counted.
        return await undo_if_cancelled(store.arun(op), lambda got: _release(store, queue, got))

    deadline = Deadline(wait)
    response = await claim()
    if not (response.items or deadline.is_over):
        with Waiters(store).waiting(queue) as waiter:
            while not (response.items or deadline.is_over):
                longest = deadline.at_most(MAX_WAIT_SECONDS)
                await waiter.await_hint(deadline.pause(response), longest)
                # UnknownQueue if the queue was deleted, which wakes us, too.
                response = await claim()
    return response


async def _release(store: GuardedStore, queue: str, claimed: ClaimResponse) -> None:
    outcomes = [
        Outcome(item=state.id, token=state.token or "", kind="release") for state in claimed.items
    ]
    if outcomes:
        await store.arun(store.queues.settle(queue, outcomes))


async def ack_item(call: Call) -> Response:
    """Settle a delivery. The answer says what became of the item."""
    ack = Object(call.body, _ACK)
    passed = ack.flag("Passed")
    delivery = read_delivery(ack.text("ItemID"), ack.key_values("KeyValues"))
    outcome = Outcome(
        item=delivery.item, token=delivery.token, kind="complete" if passed else "reject"
    )
    [settled] = await call.store.arun(call.store.queues.settle(call["queue"], [outcome]))
    if settled.is_lost:
        raise gone() if settled.state == "gone" else lost()
    return Response(headers=[(OUTCOME, settled.state.encode())])


async def heartbeat_item(call: Call) -> None:
    beat = Object(call.body, _HEARTBEAT)
    delivery = read_delivery(beat.text("ItemID"), beat.key_values("KeyValues"))
    op = call.store.queues.extend(call["queue"], delivery.token, [delivery.item], delivery.lease_ms)
    if not await call.store.arun(op):
        raise lost()


def _shown(state: ItemState) -> Any:
    overrides = NO_OVERRIDES if state.overrides is None else _overrides(state.overrides)
    form = state.key_values or ""
    lease_ms = _lease_ms(state, overrides)
    attempts = overrides.max_attempts
    properties = {
        "Data": state.payload if state.format == BYTES else _base64(state.payload),
        "Updateable": bool(overrides.updateable),
        "RetryAttempts": MAX_UINT64 if attempts == NO_LIMIT else (attempts or 1) - 1,
        "RetryPosition": overrides.retry_position or "back",
        "TimeoutDuration": nanoseconds(lease_ms),
    }
    delivery = ItemDelivery(state.id, state.token or "", lease_ms, check_of(form))
    return {
        "Spec": {
            "DBDefinition": {"KeyValues": KeyValues.read(form).to_json()},
            "Properties": properties,
        },
        "State": {"ID": delivery.id},
    }


def _lease_ms(state: ItemState, overrides: Overrides) -> int:
    if overrides.lease is not None:
        return round(overrides.lease * 1000)
    return (state.lease_until or 0) - (state.claimed_at or 0)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_QUEUE = "/v1/queues/{queue}"
_ITEMS = f"{_QUEUE}/channels/items"

ROUTES = [
    WillowRoute(
        ways=(
            ("POST", _ITEMS),
            # As Willow's own document writes them.
            ("POST", f"{_QUEUE}/channels/item"),
            ("POST", "/v1/brokers/queues/{queue}/channels/items"),
        ),
        handle=enqueue_item,
        status=201,
    ),
    WillowRoute(ways=(("GET", _ITEMS), ("POST", f"{_ITEMS}/dequeue")), handle=dequeue_item),
    WillowRoute(
        ways=(
            ("POST", f"{_ITEMS}/ack"),
            ("POST", f"{_QUEUE}/channel/items/ack"),
            ("POST", "/v1/queus/{queue}/channels/items/ack"),
            ("POST", "/v1/queus/{queue}/channel/items/ack"),
        ),
        handle=ack_item,
        keeps_work=True,
    ),
    WillowRoute(
        ways=(("POST", f"{_ITEMS}/heartbeat"), ("POST", f"{_QUEUE}/channel/items/heartbeat")),
        handle=heartbeat_item,
        keeps_work=True,
    ),
]
