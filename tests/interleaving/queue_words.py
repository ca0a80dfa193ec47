"""Short helpers for tests that step through operations on queues."""

from typing import Any

from headrace.contract.items import ClaimRequest, ClaimResponse
from headrace.model.queues.items import ItemState, State
from headrace.testing.contract.queue_base import STATES, Queue, StoreOps, outcome_of, payload

__all__ = [
    "STATES",
    "ClaimResponse",
    "Queue",
    "check_counts",
    "every",
    "outcome_of",
    "payloads",
    "queue",
]

LIVE = (State.PLANNED, State.PENDING, State.ACTIVE)


def queue(client: Any, number: int) -> Queue:
    """The queue of one run, through a client."""
    return Queue(StoreOps(client), f"q{number}")


def every(q: Queue, *states: State) -> list[Any]:
    """All items in some states, live or finished."""
    return [item for state in states or tuple(State) for item in q.in_state(state)]


def payloads(q: Queue, *states: State) -> list[Any]:
    """The payloads of items in some states, in no particular order."""
    return sorted(payload(item) for item in every(q, *states))


def claim_in_transaction(client: Any, q: Queue, token: str, count: int) -> ClaimResponse:
    """A claim inside a transaction, for which no driver has a fast path."""
    with client._store.transaction() as session:
        response: ClaimResponse = session.run(
            session.queues.claim(ClaimRequest(queue=q.name, token=token, count=count))
        )
    return response


def check_counts(q: Queue) -> None:
    """The running counts equal the computed ones."""
    [running], [computed] = (
        q.ops.queues.counts([q.name], False),
        q.ops.queues.counts([q.name], True),
    )
    assert running.counts == computed.counts


def check_held(q: Queue, claimed: list[ItemState]) -> None:
    """The items in flight are exactly those that the claims returned."""
    claims = [sorted((item.id, item.token) for item in items) for items in (claimed, q.in_state(2))]
    assert claims[0] == claims[1]
    check_counts(q)
