"""Items of a queue: the values that are stored, and their order. ``transitions`` changes them."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec

from headrace.model.queues.settings import Discipline, RetryPosition

JSON, BYTES = 0, 1
WORKER_LOST = "worker lost"


class State(IntEnum):
    """The state of an item, with FetchQ's numbers. As text it is its name: ``completed``."""

    DEAD = -1
    PLANNED = 0
    PENDING = 1
    ACTIVE = 2
    COMPLETED = 3

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of one item that override those of its queue."""

    max_attempts: int | None = None
    retry_position: RetryPosition | None = None
    updateable: bool | None = None
    lease: float | None = None


NO_OVERRIDES = Overrides()


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The content of a push. ``due`` is a time, ``delay`` milliseconds from now; neither: now.

    ``payload`` is JSON text, or base64 when ``format`` is ``BYTES``; ``headers`` and
    ``overrides`` are JSON text. ``key_values`` is the form of its channel's key-values.
    """

    payload: str
    format: int = JSON
    subject: str | None = None
    priority: int = 0
    due: int | None = None
    delay: int | None = None
    headers: str | None = None
    overrides: str | None = None
    key_values: str | None = None

    def due_at(self, now: int) -> int:
        """When the item is due, given the time of the database."""
        if self.due is not None:
            return self.due
        return now + (self.delay or 0)


class ItemState(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="item"):
    """The stored state of a live item.

    ``position`` orders it among the waiting items of its rank; None until it is due.
    ``waiting_since`` is when its current wait began: at its push, or when it returned.
    ``lease_until`` and ``token`` belong to its current claim. ``successor`` is the document
    (as JSON) that replaces it when the claim ends. ``key_values`` names its channel, if it
    is in one.
    """

    id: int
    queue: str
    payload: str
    format: int = JSON
    subject: str | None = None
    priority: int = 0
    state: int = State.PENDING
    position: int | None = None
    next_execution: int
    waiting_since: int
    created_at: int
    attempts: int = 0
    crashes: int = 0
    iterations: int = 0
    last_iteration: int | None = None
    headers: str | None = None
    overrides: str | None = None
    token: str | None = None
    lease_until: int | None = None
    claimed_at: int | None = None
    worker: str | None = None
    error: str | None = None
    successor: str | None = None
    key_values: str | None = None


Kind = Literal["complete", "reschedule", "reject", "kill", "drop", "release"]
Cause = Literal["completed", "rejected", "killed", "worker lost"]


class Ended(msgspec.Struct, frozen=True):
    """An item that reached the end of its life: ``state`` is COMPLETED or DEAD."""

    item: ItemState
    state: int
    cause: str


Verdict = ItemState | Ended | None
"""The next state of an item: it waits (or is active) as given, has ended, or is dropped."""


def overrides_of(item: ItemState | Document) -> Overrides:
    """The item's own settings."""
    if item.overrides is None:
        return NO_OVERRIDES
    return msgspec.json.decode(item.overrides, type=Overrides)


def successor_of(item: ItemState) -> Document | None:
    """The document that waits behind an active item."""
    if item.successor is None:
        return None
    return msgspec.json.decode(item.successor, type=Document)


def rank_of(discipline: Discipline, priority: int) -> int:
    """The first part of the order, before age: higher first."""
    return priority if discipline == "priority" else 0


def place_of(discipline: Discipline, number: int) -> int:
    """The position of an item with the ``number``-th turn: lowest first."""
    return -number if discipline == "lifo" else number


def is_before(discipline: Discipline, one: ItemState, other: ItemState) -> bool:
    """Whether one item is before another in line; an item without a position comes later."""
    later = float("-inf") if discipline == "lifo" else float("inf")
    places = [
        (-rank_of(discipline, item.priority), later if item.position is None else item.position)
        for item in (one, other)
    ]
    return places[0] <= places[1] if discipline != "lifo" else places[0] < places[1]
