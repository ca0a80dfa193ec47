"""Audit logs of producers and consumers, compared with the items in the queues.

See ``headrace.testing.audit_log``. A push intends ``documents``, made by ``content``, and its
outcome has their ``ids``. A settlement intends the ``items`` of a claim as (call, place), under a
``token`` and with a ``kind``. Sent is its ``settle``. Its outcome has their ``states``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from headrace.contract.items import FinishedItem
from headrace.model.queues.items import WORKER_LOST, ItemState, State
from headrace.testing.audit_log import AuditEntry
from headrace.testing.model_pair import live

Place = tuple[str, int]
ENDS = {"complete": "completed", "kill": "dead", "drop": "dropped"}


class Sums(NamedTuple):
    """What became of all documents. Done includes items whose settling process died before its
    answer."""

    pushed: int
    done: int
    waiting: int
    dead: int


def content(name: str, place: int) -> str:
    """The content of the document at ``place`` of a push."""
    return msgspec.json.encode({"call": name, "place": place}).decode()


def place_of(item: ItemState) -> Place:
    """The document from which an item came."""
    found = msgspec.json.decode(item.payload)
    return found["call"], found["place"]


def check_items(entries: Iterable[AuditEntry], found: Iterable[ItemState | FinishedItem]) -> Sums:
    """Each document is one item, or was settled once. Acknowledged documents are not lost."""
    everything = list(entries)
    pushes = [entry for entry in everything if "documents" in entry.intent]
    settlements = [entry for entry in everything if "token" in entry.intent]
    there = _there(found)
    ends = _ends(settlements)
    doubts = _doubts(settlements)
    seen = {(call, place) for entry in settlements for call, place in entry.intent["items"]}
    known = {(entry.name, n) for entry in pushes for n in range(entry.intent["documents"])}
    assert set(there) | seen <= known, f"never pushed: {(set(there) | seen) - known}"
    pushed = 0
    for entry in pushes:
        places = [(entry.name, n) for n in range(entry.intent["documents"])]
        came = [place in there or place in seen for place in places]
        assert all(came) or (entry.outcome is None and not any(came)), f"{entry} is not whole"
        for place in places if any(came) else ():
            pushed += 1
            _check(place, there.get(place), ends.get(place), doubts[place])
    states = Counter(State(live(item).state) for item in there.values())
    dead = states[State.DEAD]
    waiting = len(there) - dead - states[State.COMPLETED]
    return Sums(pushed, done=pushed - waiting - dead, waiting=waiting, dead=dead)


def _there(found: Iterable[ItemState | FinishedItem]) -> dict[Place, ItemState | FinishedItem]:
    there: dict[Place, ItemState | FinishedItem] = {}
    for item in found:
        place = place_of(live(item))
        assert place not in there, f"{place} is there twice"
        there[place] = item
    return there


def _ends(settlements: Iterable[AuditEntry]) -> dict[Place, str]:
    """How items ended, according to the answers that consumers got."""
    ends: dict[Place, str] = {}
    settled: Counter[tuple[str, Place]] = Counter()
    for entry in settlements:
        if entry.outcome is None:
            continue
        for (call, n), state in zip(entry.intent["items"], entry.outcome["states"], strict=True):
            place, token = (call, n), entry.intent["token"]
            if state == "lost":
                continue
            settled[token, place] += 1
            assert settled[token, place] == 1, f"{place} was settled twice with one token"
            if state in ENDS.values():
                assert place not in ends, f"{place} ended twice: {ends[place]}, {state}"
                ends[place] = state
    return ends


def _doubts(settlements: Iterable[AuditEntry]) -> Counter[Place]:
    """How often items may have ended although no process lived to get the answer."""
    return Counter(
        (call, place)
        for entry in settlements
        if entry.is_sent and entry.outcome is None and entry.intent["kind"] in ENDS
        for call, place in entry.intent["items"]
    )


def _check(
    place: Place, item: ItemState | FinishedItem | None, end: str | None, doubts: int
) -> None:
    """What became of one document."""
    state = None if item is None else State(live(item).state)
    if end == "completed":
        assert state in (None, State.COMPLETED), f"{place} was completed, and is {state!r}"
    elif end == "dropped":
        assert state is None, f"{place} was dropped, and is {state!r}"
    elif end == "dead":
        assert state == State.DEAD, f"{place} is dead, and yet {state!r}"
    elif state is None:
        assert doubts, f"{place} is lost"
    elif isinstance(item, FinishedItem):
        assert doubts or item.cause == WORKER_LOST, f"{place} ended without a cause: {item.cause}"
