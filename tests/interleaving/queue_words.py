"""Short words for tests that step through operations on queues."""

from typing import Any

from headrace.contract.items import Take, Taking
from headrace.model.items import ItemState, State
from headrace.testing.contract.queue_base import STATES, Desk, Queue, payload, said

__all__ = ["STATES", "Queue", "Taking", "check_counts", "every", "payloads", "queue", "said"]

LIVE = (State.PLANNED, State.PENDING, State.ACTIVE)


def queue(client: Any, number: int) -> Queue:
    """The queue of one run, as a client has it."""
    return Queue(Desk(client), f"q{number}")


def every(q: Queue, *states: State) -> list[Any]:
    """All items in some states, live or ended."""
    return [item for state in states or tuple(State) for item in q.in_state(state)]


def payloads(q: Queue, *states: State) -> list[Any]:
    """What items in some states carry, in no particular order."""
    return sorted(payload(item) for item in every(q, *states))


def claim_in_transaction(client: Any, q: Queue, token: str, count: int) -> Taking:
    """A claim that is part of a transaction: no driver has a short way for that."""
    with client._store.transaction() as session:
        taking: Taking = session.run(
            session.claim_items(Take(queue=q.name, token=token, count=count))
        )
    return taking


def check_counts(q: Queue) -> None:
    """The running counts are what counting gives."""
    [running], [computed] = q.desk.backlogs([q.name], False), q.desk.backlogs([q.name], True)
    assert running.counts == computed.counts


def check_held(q: Queue, taken: list[ItemState]) -> None:
    """What was handed out is out, to whom it was handed out, and nothing else is."""
    claims = [sorted((item.id, item.token) for item in items) for items in (taken, q.in_state(2))]
    assert claims[0] == claims[1]
    check_counts(q)
