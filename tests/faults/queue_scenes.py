"""One operation on queues at a time, as ``faults.scenes`` has it for topics.

Each scene plays on a queue of its own, named after it, by the store's operations. What is
answered and what shows are ids of items as texts.
"""

import secrets
from typing import Any

from faults.scene import Client, Scene
from headrace.client.calls import Call
from headrace.contract.items import Filter, Outcome, PushCall, Take
from headrace.contract.values import CommitCall, Part
from headrace.drivers.postgres.receipts import MOST_ON_A_RECEIPT
from headrace.model.failures import Failure
from headrace.model.items import Document, State

OLD, NEW = '{"is":"old"}', '{"is":"new"}'
MANY = MOST_ON_A_RECEIPT + 1
"""More documents than a receipt lists."""
ALL = 20 * MANY


def run(hr: Client, operation: str, *args: Any) -> Any:
    """Run an operation of a client's store, blocking or async, as its methods do."""
    return hr._run(Call(getattr(hr._store, operation)(*args), lambda answer: answer))


def text(id: int) -> str:
    """An id so that texts are in the order of ids."""
    return f"{id:08}"


def push(hr: Client, name: str, *documents: Document, **call: Any) -> list[str]:
    [pushed] = run(hr, "push", [PushCall(queue=name, documents=documents, **call)])
    return [text(id) for id in pushed.ids]


def claim(hr: Client, name: str, token: str, count: int, lease_ms: int = 600_000) -> list[str]:
    take = Take(queue=name, token=token, count=count, lease_ms=lease_ms)
    return [text(item.id) for item in run(hr, "claim_items", take).items]


def ids(hr: Client, name: str, *states: State, payload: str = "") -> list[str]:
    """Items in some states, perhaps with some content; none if there is no such queue."""
    if name not in [info.name for info in run(hr, "queues", "", "", ALL)]:
        return []
    found = [item for state in states for item in run(hr, "items", name, state, 0, ALL)]
    live = [getattr(item, "item", item) for item in found]
    return sorted(text(item.id) for item in live if payload in item.payload)


def new_ones(hr: Client, name: str) -> list[str]:
    return ids(hr, name, State.PENDING, State.PLANNED, payload=NEW)


def out(hr: Client, name: str) -> list[str]:
    return ids(hr, name, State.ACTIVE)


def _nothing(hr: Client, name: str) -> None:
    pass


def _waiting(hr: Client, name: str) -> None:
    """Two items without a subject, and one with."""
    run(hr, "create_queue", name, {"reject_delay": 0, "lock_duration": 600.0}, True)
    push(hr, name, Document(payload=OLD), Document(payload=OLD))
    push(hr, name, Document(payload=OLD, subject="s"))


def _claimed(hr: Client, name: str) -> None:
    """Two items are out."""
    _waiting(hr, name)
    claim(hr, name, name, 2)


def _overdue(hr: Client, name: str) -> None:
    """Two items are out, and their leases are over at once."""
    _waiting(hr, name)
    claim(hr, name, name, 2, lease_ms=0)


def _dead(hr: Client, name: str) -> None:
    _claimed(hr, name)
    _say(hr, name, "kill")


def _push(hr: Client, name: str) -> list[str]:
    return push(hr, name, Document(payload=NEW))


def _push_several(hr: Client, name: str) -> list[str]:
    return push(
        hr,
        name,
        Document(payload=NEW),
        Document(payload=NEW, subject=secrets.token_hex(8)),
        Document(payload=NEW, delay=60_000),
    )


def _push_payloads(hr: Client, name: str) -> list[str]:
    return push(hr, name, *[Document(payload=NEW)] * 3)


def _push_subject(hr: Client, name: str) -> list[str]:
    return push(hr, name, Document(payload=NEW, subject="t"))


def _push_many(hr: Client, name: str) -> list[str]:
    return sorted(push(hr, name, *[Document(payload=NEW)] * MANY))


def _push_key(hr: Client, name: str) -> list[str]:
    return push(hr, name, Document(payload=NEW), key=name, digest="d")


def _upsert(hr: Client, name: str) -> list[str]:
    return push(hr, name, Document(payload=NEW, subject="s"), mode="upsert")


def _claim(hr: Client, name: str) -> list[str]:
    return claim(hr, name, name, 2)


def _claim_overdue(hr: Client, name: str) -> list[str]:
    """A claim that has to end leases first, and takes all there is."""
    return sorted(claim(hr, name, f"{name}-next", 3))


def _held_next(hr: Client, name: str) -> list[str]:
    items = run(hr, "items", name, State.ACTIVE, 0, ALL)
    mine = [item for item in items if item.token == f"{name}-next"]
    assert sum(item.crashes for item in mine) == (2 if mine else 0)
    return sorted(text(item.id) for item in mine)


def _say(hr: Client, name: str, kind: Any, **outcome: Any) -> list[str]:
    """Settle what is out; the ids of those that counted."""
    known = [int(id) for id in ids(hr, name, *State)][:2]
    said = [Outcome(item=id, token=name, kind=kind, **outcome) for id in known]
    settled = run(hr, "settle", name, said)
    return sorted(text(one.item) for one in settled if one.state != "lost")


def _complete(hr: Client, name: str) -> list[str]:
    return _say(hr, name, "complete")


def _first_two(hr: Client, name: str) -> list[str]:
    """Those that were pushed just before the one that is always there."""
    last = run(hr, "item", name, "s").id
    return [text(last - 2), text(last - 1)]


def _completed(hr: Client, name: str) -> list[str]:
    """The first two are gone, and were counted once."""
    [backlog] = run(hr, "backlogs", [name], False)
    done = backlog.counts.processed
    assert len(ids(hr, name, State.ACTIVE, State.PENDING)) + done == 3
    return _first_two(hr, name)[:done]


def _pass_on(hr: Client, name: str) -> list[str]:
    """Rejected, with commits and pushes that go with it."""
    commit = CommitCall(parts=(Part(f"{name}-said", 1, NEW),))
    more = PushCall(queue=f"{name}-more", documents=(Document(payload=NEW),))
    failure = Failure(message="no")
    return _say(hr, name, "reject", failure=failure, commits=(commit,), pushes=(more,))


def _passed_on(hr: Client, name: str) -> list[str]:
    topic = f"{name}-said"
    records = hr.range(topic) if hr.topics(prefix=topic) else []
    items = run(hr, "items", name, State.PENDING, 0, ALL)
    back = sorted(text(item.id) for item in items if item.error)
    assert len(records) == len(new_ones(hr, f"{name}-more")) == len(back)
    return back


def _expire(hr: Client, name: str) -> list[str]:
    return sorted(map(text, run(hr, "expire_leases", name, ALL)))


def _expired(hr: Client, name: str) -> list[str]:
    items = run(hr, "items", name, State.PENDING, 0, ALL)
    errors = run(hr, "logged_errors", name, None, 2**62, ALL)
    back = sorted(text(item.id) for item in items if item.crashes == 1)
    assert sorted(text(error.item) for error in errors) == back
    return back


def _redrive(hr: Client, name: str) -> list[str]:
    dead = ids(hr, name, State.DEAD)
    return dead[: run(hr, "redrive", name, Filter(), f"{name}-again", ALL)]


def _redriven(hr: Client, name: str) -> list[str]:
    again = ids(hr, f"{name}-again", State.PENDING)
    assert len(ids(hr, name, State.DEAD)) + len(again) == 2
    return _first_two(hr, name)[: len(again)]


QUEUE_SCENES = {
    "push to a new queue": Scene("push", _nothing, _push, new_ones),
    "push": Scene("push", _waiting, _push, new_ones),
    "push several": Scene("push", _waiting, _push_several, new_ones),
    "push payloads": Scene("push", _waiting, _push_payloads, new_ones),
    "push with a subject": Scene("push", _waiting, _push_subject, new_ones),
    "push many": Scene("push", _waiting, _push_many, new_ones),
    "push with a key": Scene("push", _waiting, _push_key, new_ones),
    "upsert": Scene("push", _waiting, _upsert, new_ones),
    "claim items": Scene("claim_items", _waiting, _claim, out),
    "claim what is overdue": Scene("claim_items", _overdue, _claim_overdue, _held_next),
    "complete": Scene("settle", _claimed, _complete, _completed),
    "settle": Scene("settle", _claimed, _pass_on, _passed_on),
    "expire": Scene("expire_leases", _overdue, _expire, _expired),
    "redrive": Scene("redrive", _dead, _redrive, _redriven),
}
IN_TRANSACTION = {"push many"}
"""Scenes of which the words of a simple statement are not the end."""
