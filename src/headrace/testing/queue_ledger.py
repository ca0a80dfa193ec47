"""Ledgers of those who push and of those who work, joined with what the queues hold.

See ``headrace.testing.ledger``. A push intends ``documents``, made by ``content``, and its
outcome has their ``ids``. A settlement intends the ``items`` of a claim as (call, place), under
a ``token`` and with a ``kind``; sent is its ``settle``; its outcome has their ``states``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from headrace.contract.items import EndedItem
from headrace.model.items import WORKER_LOST, ItemState, State
from headrace.testing.ledger import Entry
from headrace.testing.queue_sides import live

Place = tuple[str, int]
ENDS = {"complete": "completed", "kill": "dead", "drop": "dropped"}


class Sums(NamedTuple):
    """What became of all that was pushed; done is also what was settled by one who died over it."""

    pushed: int
    done: int
    waiting: int
    dead: int


def content(name: str, place: int) -> str:
    """What the document at ``place`` of a push looks like."""
    return msgspec.json.encode({"call": name, "place": place}).decode()


def place_of(item: ItemState) -> Place:
    """Which document an item came from."""
    found = msgspec.json.decode(item.payload)
    return found["call"], found["place"]


def check_items(entries: Iterable[Entry], found: Iterable[ItemState | EndedItem]) -> Sums:
    """Each document is an item once, or was settled once; acknowledged ones are not lost."""
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


def _there(found: Iterable[ItemState | EndedItem]) -> dict[Place, ItemState | EndedItem]:
    there: dict[Place, ItemState | EndedItem] = {}
    for item in found:
        place = place_of(live(item))
        assert place not in there, f"{place} is there twice"
        there[place] = item
    return there


def _ends(settlements: Iterable[Entry]) -> dict[Place, str]:
    """How items ended, as those were told who settled them: nobody else was."""
    ends: dict[Place, str] = {}
    told: Counter[tuple[str, Place]] = Counter()
    for entry in settlements:
        if entry.outcome is None:
            continue
        for (call, n), state in zip(entry.intent["items"], entry.outcome["states"], strict=True):
            place, token = (call, n), entry.intent["token"]
            if state == "lost":
                continue
            told[token, place] += 1
            assert told[token, place] == 1, f"{place} was settled twice with one token"
            if state in ENDS.values():
                assert place not in ends, f"{place} ended twice: {ends[place]}, {state}"
                ends[place] = state
    return ends


def _doubts(settlements: Iterable[Entry]) -> Counter[Place]:
    """How often items may have ended although nobody lived to be told."""
    return Counter(
        (call, place)
        for entry in settlements
        if entry.is_sent and entry.outcome is None and entry.intent["kind"] in ENDS
        for call, place in entry.intent["items"]
    )


def _check(place: Place, item: ItemState | EndedItem | None, end: str | None, doubts: int) -> None:
    """What became of a document that was pushed."""
    state = None if item is None else State(live(item).state)
    if end == "completed":
        assert state in (None, State.COMPLETED), f"{place} was completed, and is {state!r}"
    elif end == "dropped":
        assert state is None, f"{place} was dropped, and is {state!r}"
    elif end == "dead":
        assert state == State.DEAD, f"{place} is dead, and yet {state!r}"
    elif state is None:
        assert doubts, f"{place} is lost"
    elif isinstance(item, EndedItem):
        assert doubts or item.cause == WORKER_LOST, f"{place} ended by itself: {item.cause}"
