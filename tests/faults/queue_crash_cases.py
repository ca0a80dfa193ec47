"""One operation on queues at a time, as ``faults.crash_cases`` has it for topics.

Each case uses a queue named after it, through the operations of the store. Answers and effects are
ids of items as texts.
"""

import secrets
from operator import attrgetter
from typing import Any

from faults.crash_case import Client, CrashCase
from headrace.contract.items import ClaimRequest, ItemFilter, Outcome, PushCall
from headrace.contract.values import CommitCall, CommitPart
from headrace.core.requests.request import Request
from headrace.drivers.postgres.fastpath.receipts import MAX_ITEMS
from headrace.model.failures import Failure
from headrace.model.queues.items import Document, State

OLD, NEW = '{"is":"old"}', '{"is":"new"}'
MANY = MAX_ITEMS + 1
"""More documents than a receipt lists."""
ALL = 9 * MANY
"""More than any case has, and no more than a node accepts in one call."""


def run(hr: Client, operation: str, *args: Any) -> Any:
    """Run an operation of a client's store, blocking or async, as its methods do."""
    return hr._run(Request(attrgetter(operation)(hr._store)(*args), lambda answer: answer))


def text(id: int) -> str:
    """An id as a text, such that texts sort like ids."""
    return f"{id:08}"


def push(hr: Client, name: str, *documents: Document, **call: Any) -> list[str]:
    [pushed] = run(hr, "queues.push", [PushCall(queue=name, documents=documents, **call)])
    return [text(id) for id in pushed.ids]


def claim(hr: Client, name: str, token: str, count: int, lease_ms: int = 600_000) -> list[str]:
    take = ClaimRequest(queue=name, token=token, count=count, lease_ms=lease_ms)
    return [text(item.id) for item in run(hr, "queues.claim", take).items]


def ids(hr: Client, name: str, *states: State, payload: str = "") -> list[str]:
    """Items in some states, optionally with some content. None if there is no such queue."""
    if name not in [info.name for info in run(hr, "queues.list", "", "", ALL)]:
        return []
    found = [item for state in states for item in run(hr, "queues.items", name, state, 0, ALL)]
    live = [getattr(item, "item", item) for item in found]
    return sorted(text(item.id) for item in live if payload in item.payload)


def new_ones(hr: Client, name: str) -> list[str]:
    return ids(hr, name, State.PENDING, State.PLANNED, payload=NEW)


def out(hr: Client, name: str) -> list[str]:
    return ids(hr, name, State.ACTIVE)


def _nothing(hr: Client, name: str) -> None:
    pass


def _waiting(hr: Client, name: str) -> None:
    """Two items without a subject, and one with a subject."""
    run(hr, "queues.create", name, {"reject_delay": 0, "lease": 600.0}, True)
    push(hr, name, Document(payload=OLD), Document(payload=OLD))
    push(hr, name, Document(payload=OLD, subject="s"))


def _key_used(hr: Client, name: str) -> None:
    _waiting(hr, name)
    push(hr, name, Document(payload=OLD), key=f"{name} old", digest=f"{name} old")


def _claimed(hr: Client, name: str) -> None:
    """Two items are in flight."""
    _waiting(hr, name)
    claim(hr, name, name, 2)


def _overdue(hr: Client, name: str) -> None:
    """Two items are in flight, and their leases expire immediately."""
    _waiting(hr, name)
    claim(hr, name, name, 2, lease_ms=0)


def _dead(hr: Client, name: str) -> None:
    _claimed(hr, name)
    _settle_all(hr, name, "kill")


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


def _push_mixed(hr: Client, name: str) -> list[str]:
    """Calls with and without keys; one key was used before."""
    calls = [
        PushCall(queue=name, documents=(Document(payload=payload),), key=key, digest=key)
        for payload, key in ((NEW, None), (OLD, f"{name} old"), (NEW, f"{name} new"), (NEW, None))
    ]
    pushed = run(hr, "queues.push", calls)
    return [text(id) for index in (0, 2, 3) for id in pushed[index].ids]


def _upsert(hr: Client, name: str) -> list[str]:
    return push(hr, name, Document(payload=NEW, subject="s"), mode="upsert")


def _claim(hr: Client, name: str) -> list[str]:
    return claim(hr, name, name, 2)


def _claim_overdue(hr: Client, name: str) -> list[str]:
    """A claim that has to end leases first, and returns all items."""
    return sorted(claim(hr, name, f"{name}-next", 3))


def _held_next(hr: Client, name: str) -> list[str]:
    items = run(hr, "queues.items", name, State.ACTIVE, 0, ALL)
    mine = [item for item in items if item.token == f"{name}-next"]
    assert sum(item.crashes for item in mine) == (2 if mine else 0)
    return sorted(text(item.id) for item in mine)


def _settle_all(hr: Client, name: str, kind: Any, **outcome: Any) -> list[str]:
    """Settle the items in flight. Return the ids of those that were not lost."""
    known = [int(id) for id in ids(hr, name, *State)][:2]
    said = [Outcome(item=id, token=name, kind=kind, **outcome) for id in known]
    settled = run(hr, "queues.settle", name, said)
    return sorted(text(one.item) for one in settled if one.state != "lost")


def _complete(hr: Client, name: str) -> list[str]:
    return _settle_all(hr, name, "complete")


def _first_two(hr: Client, name: str) -> list[str]:
    """The items that were pushed just before the one that is always there."""
    last = run(hr, "queues.item", name, "s").id
    return [text(last - 2), text(last - 1)]


def _completed(hr: Client, name: str) -> list[str]:
    """The first two are gone, and were counted once."""
    [backlog] = run(hr, "queues.counts", [name], False)
    done = backlog.counts.processed
    assert len(ids(hr, name, State.ACTIVE, State.PENDING)) + done == 3
    return _first_two(hr, name)[:done]


def _reject_with_follow_ups(hr: Client, name: str) -> list[str]:
    """A rejection with commits and pushes."""
    commit = CommitCall(parts=(CommitPart(f"{name}-said", 1, NEW),))
    more = PushCall(queue=f"{name}-more", documents=(Document(payload=NEW),))
    failure = Failure(message="no")
    return _settle_all(hr, name, "reject", failure=failure, commits=(commit,), pushes=(more,))


def _passed_on(hr: Client, name: str) -> list[str]:
    topic = f"{name}-said"
    records = hr.range(topic) if hr.topics.list(prefix=topic) else []
    items = run(hr, "queues.items", name, State.PENDING, 0, ALL)
    back = sorted(text(item.id) for item in items if item.error)
    assert len(records) == len(new_ones(hr, f"{name}-more")) == len(back)
    return back


def _expire(hr: Client, name: str) -> list[str]:
    return sorted(map(text, run(hr, "queues.expire_leases", name, ALL)))


def _expired(hr: Client, name: str) -> list[str]:
    items = run(hr, "queues.items", name, State.PENDING, 0, ALL)
    errors = run(hr, "queues.logged_errors", name, None, 2**62, ALL)
    back = sorted(text(item.id) for item in items if item.crashes == 1)
    assert sorted(text(error.item) for error in errors) == back
    return back


def _redrive(hr: Client, name: str) -> list[str]:
    dead = ids(hr, name, State.DEAD)
    return dead[: run(hr, "queues.redrive", name, ItemFilter(), f"{name}-again", ALL)]


def _redriven(hr: Client, name: str) -> list[str]:
    again = ids(hr, f"{name}-again", State.PENDING)
    assert len(ids(hr, name, State.DEAD)) + len(again) == 2
    return _first_two(hr, name)[: len(again)]


QUEUE_CASES = {
    "push to a new queue": CrashCase("queues.push", _nothing, _push, new_ones),
    "push": CrashCase("queues.push", _waiting, _push, new_ones),
    "push several": CrashCase("queues.push", _waiting, _push_several, new_ones),
    "push payloads": CrashCase("queues.push", _waiting, _push_payloads, new_ones),
    "push with a subject": CrashCase("queues.push", _waiting, _push_subject, new_ones),
    "push many": CrashCase("queues.push", _waiting, _push_many, new_ones),
    "push with a key": CrashCase("queues.push", _waiting, _push_key, new_ones),
    "push with some keys": CrashCase("queues.push", _key_used, _push_mixed, new_ones),
    "upsert": CrashCase("queues.push", _waiting, _upsert, new_ones),
    "claim items": CrashCase("queues.claim", _waiting, _claim, out),
    "claim what is overdue": CrashCase("queues.claim", _overdue, _claim_overdue, _held_next),
    "complete": CrashCase("queues.settle", _claimed, _complete, _completed),
    "settle": CrashCase("queues.settle", _claimed, _reject_with_follow_ups, _passed_on),
    "expire": CrashCase("queues.expire_leases", _overdue, _expire, _expired),
    "redrive": CrashCase("queues.redrive", _dead, _redrive, _redriven),
}
IN_TRANSACTION = {"push many"}
"""Scenes of which the words of a simple statement are not the end."""
