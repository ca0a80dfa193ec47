"""Items of a queue: what is stored of them, and every rule by which they change.

A driver loads an ``ItemState`` under a lock, asks a function here what comes next, and stores
the answer. So all drivers decide alike.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec
from msgspec.structs import replace

from headrace.model.failures import Failure, encode_failure
from headrace.model.queues import NO_LIMIT, Discipline, QueueSettings, RetryPosition

JSON, BYTES = 0, 1
WORKER_LOST = "worker lost"


class State(IntEnum):
    """Where an item is in its life, in FetchQ's numbers."""

    DEAD = -1
    PLANNED = 0
    PENDING = 1
    ACTIVE = 2
    COMPLETED = 3


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of one item that go before those of its queue."""

    max_attempts: int | None = None
    retry_position: RetryPosition | None = None
    updateable: bool | None = None
    timeout: float | None = None


NO_OVERRIDES = Overrides()


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What somebody pushes. ``due`` is a time, ``delay`` milliseconds from now; neither: now.

    ``payload`` is JSON text, or base64 when ``format`` is ``BYTES``; ``headers`` and
    ``overrides`` are JSON text. ``key_values`` is the form of those of its channel.
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
        """When the item may run, given the time of the database."""
        if self.due is not None:
            return self.due
        return now + (self.delay or 0)


class ItemState(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag="item"):
    """All that is stored of a live item.

    ``position`` is its place among the waiting items of its rank; None until it is due.
    ``waiting_since`` is when its present wait began: at its push, or when it came back.
    ``lease_until`` and ``token`` belong to its present claim. ``successor`` is the document
    (as JSON) that takes its place when the claim ends. ``key_values`` names its channel, if it
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
"""What becomes of an item: it waits (or is active) as given, has ended, or is gone."""


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
    """The part of the order that comes before age: higher first."""
    return priority if discipline == "priority" else 0


def place_of(discipline: Discipline, number: int) -> int:
    """The place for an item that gets the ``number``-th turn: lowest first."""
    return -number if discipline == "lifo" else number


def is_before(discipline: Discipline, one: ItemState, other: ItemState) -> bool:
    """Whether one item stands before another in line; one without a place gets it later."""
    later = float("-inf") if discipline == "lifo" else float("inf")
    places = [
        (-rank_of(discipline, item.priority), later if item.position is None else item.position)
        for item in (one, other)
    ]
    return places[0] <= places[1] if discipline != "lifo" else places[0] < places[1]


def lease_ms(settings: QueueSettings, asked: int | None, item: ItemState) -> int:
    """How long a claim on the item lasts."""
    timeout = overrides_of(item).timeout
    if timeout is not None:
        return round(timeout * 1000)
    return asked if asked is not None else round(settings.lock_duration * 1000)


def claimed(
    item: ItemState, *, token: str, lease_until: int, worker: str | None, now: int
) -> ItemState:
    """The item is handed out; it keeps its place for when it comes back."""
    return replace(
        item,
        state=State.ACTIVE,
        attempts=item.attempts + 1,
        token=token,
        lease_until=lease_until,
        claimed_at=now,
        worker=worker,
    )


def rescheduled(item: ItemState, due: int, now: int, payload: tuple[str, int] | None) -> ItemState:
    """The item waits for its next iteration, its attempts at zero."""
    return _superseded(
        replace(
            _settled(item, now, payload),
            attempts=0,
            crashes=0,
            next_execution=due,
            position=None,
            error=None,
        ),
        now,
    )


def completed(item: ItemState, now: int, payload: tuple[str, int] | None) -> Ended:
    """The item is done."""
    return Ended(
        replace(_settled(item, now, payload), attempts=0, error=None, state=State.COMPLETED),
        State.COMPLETED,
        "completed",
    )


def killed(
    item: ItemState, now: int, payload: tuple[str, int] | None, failure: Failure | None
) -> Ended:
    """The item is dead because its worker said so."""
    return Ended(
        replace(_settled(item, now, payload), error=_text(failure) or item.error, state=State.DEAD),
        State.DEAD,
        "killed",
    )


def rejected(
    item: ItemState,
    settings: QueueSettings,
    *,
    now: int,
    due: int | None,
    chance: float,
    failure: Failure | None,
    payload: tuple[str, int] | None,
) -> ItemState | Ended:
    """The item failed: it comes back later, or it is dead when it had all its attempts."""
    after = replace(_settled(item, now, payload), error=_text(failure) or item.error)
    if _is_spent(item, settings):
        return Ended(replace(after, state=State.DEAD), State.DEAD, "rejected")
    if due is None:
        due = now + retry_delay_ms(settings, item.attempts, chance)
    return _superseded(_back(after, settings, due), now)


def retry_delay_ms(settings: QueueSettings, attempts: int, chance: float) -> int:
    """How long a rejected item waits."""
    if settings.reject_delay is not None:
        return round(settings.reject_delay * 1000)
    return settings.backoff.delay_ms(attempts, chance)


def expired(item: ItemState, settings: QueueSettings, now: int) -> ItemState | Ended:
    """The claim ran out of time: whoever had it crashed, or was cut off.

    The attempt was counted when it was claimed; the crash is counted now. It comes back at
    once, at its old place, unless it has killed too many workers.
    """
    after = replace(
        item,
        crashes=item.crashes + 1,
        error=_text(crash_of(item)),
        token=None,
        lease_until=None,
        worker=None,
        waiting_since=now,
    )
    is_poison = settings.max_crashes != NO_LIMIT and after.crashes >= settings.max_crashes
    if is_poison or _is_spent(item, settings):
        return Ended(replace(after, state=State.DEAD), State.DEAD, WORKER_LOST)
    return _superseded(replace(after, state=State.PENDING, next_execution=now), now)


def crash_of(item: ItemState) -> Failure:
    """What is told of an active item whose claim ran out of time."""
    worker = f" {item.worker}" if item.worker else ""
    return Failure(
        type="WorkerLost",
        message=f"worker{worker} did not settle it within its lease (attempt {item.attempts})",
    )


def released(item: ItemState, now: int) -> ItemState:
    """The item was not touched: it goes back to its place as if it had not been claimed."""
    return _superseded(
        replace(
            item,
            state=State.PENDING,
            attempts=max(item.attempts - 1, 0),
            token=None,
            lease_until=None,
            worker=None,
        ),
        now,
    )


def held_back(item: ItemState, until: int, now: int) -> ItemState:
    """Released, and not to run before a time; where it is in a channel, that sees to it."""
    back = released(item, now)
    if item.key_values is not None or until <= now:
        return back
    return replace(back, state=State.PLANNED, next_execution=max(until, back.next_execution))


def revived(item: ItemState, now: int) -> ItemState:
    """A dead or waiting item made to run now, with all its attempts before it."""
    return replace(
        item,
        state=State.PENDING,
        attempts=0,
        crashes=0,
        position=None,
        next_execution=now,
        waiting_since=now,
        token=None,
        lease_until=None,
        worker=None,
    )


def fresh(document: Document, *, id: int, queue: str, now: int) -> ItemState:
    """A new item. Its place is given by the driver when it is due."""
    due = document.due_at(now)
    return ItemState(
        id=id,
        queue=queue,
        payload=document.payload,
        format=document.format,
        subject=document.subject,
        priority=document.priority,
        state=State.PENDING if due <= now else State.PLANNED,
        next_execution=due,
        waiting_since=now,
        created_at=now,
        headers=document.headers,
        overrides=document.overrides,
        key_values=document.key_values,
    )


def dated(document: Document, due: int) -> Document:
    """A document with a fixed time."""
    return replace(document, due=due, delay=None)


def replaced(item: ItemState, document: Document, due: int, now: int) -> ItemState:
    """A waiting item with newer content.

    It keeps its place if it was due and still is, and has not gone to another channel.
    """
    is_due = due <= now
    stays = item.state == State.PENDING and item.key_values == document.key_values
    return replace(
        item,
        payload=document.payload,
        format=document.format,
        priority=document.priority,
        headers=document.headers,
        overrides=document.overrides,
        next_execution=due,
        state=State.PENDING if is_due else State.PLANNED,
        position=item.position if is_due and stays else None,
        key_values=document.key_values,
    )


def renewed(item: ItemState, document: Document, due: int, now: int) -> ItemState:
    """A waiting item with newer content, that has not failed yet."""
    return replace(replaced(item, document, due, now), attempts=0, crashes=0, error=None)


def followed(item: ItemState, document: Document, due: int) -> ItemState:
    """An active item with the document that comes next, in place of an earlier one.

    Its time is fixed now: a delay counts from the push, not from the end of the claim.
    """
    following = msgspec.json.encode(dated(document, due)).decode()
    return replace(item, successor=following)


def edited(
    item: ItemState,
    now: int,
    *,
    payload: tuple[str, int] | None,
    priority: int | None,
    due: int | None,
) -> ItemState:
    """An item with some changes. A waiting one that was due and still is keeps its place."""
    content, form = payload or (item.payload, item.format)
    after = replace(
        item,
        payload=content,
        format=form,
        priority=item.priority if priority is None else priority,
        next_execution=item.next_execution if due is None else due,
    )
    if due is None or item.state not in (State.PLANNED, State.PENDING):
        return after
    state = _waiting(due, now)
    is_in_line = item.state == State.PENDING == state
    return replace(after, state=state, position=item.position if is_in_line else None)


def debounced(waiting_since: int, now: int, debounce: int, max_wait: int | None) -> int:
    """When an item runs that is pushed again and again: after a pause, or a longest wait."""
    due = now + debounce
    return due if max_wait is None else min(due, max(waiting_since + max_wait, now))


def without_claim(item: ItemState) -> ItemState:
    """An item as it is kept after its end: nobody has it, and nothing comes after it."""
    return replace(item, token=None, lease_until=None, successor=None)


def _settled(item: ItemState, now: int, payload: tuple[str, int] | None) -> ItemState:
    """What every outcome has in common."""
    content, form = payload or (item.payload, item.format)
    return replace(
        item,
        payload=content,
        format=form,
        iterations=item.iterations + 1,
        last_iteration=now,
        waiting_since=now,
        token=None,
        lease_until=None,
        worker=None,
    )


def _back(item: ItemState, settings: QueueSettings, due: int) -> ItemState:
    where = overrides_of(item).retry_position or settings.retry_position
    return replace(
        item,
        state=State.PLANNED,
        next_execution=due,
        position=item.position if where == "front" else None,
    )


def _superseded(item: ItemState, now: int) -> ItemState:
    """What waits again, with the newer content that came while it was active; then placed."""
    after = replace(item, state=_waiting(item.next_execution, now))
    document = successor_of(item)
    if document is None:
        return after
    return replace(
        replaced(replace(after, position=None), document, document.due_at(now), now),
        attempts=0,
        crashes=0,
        error=None,
        successor=None,
    )


def _waiting(due: int, now: int) -> State:
    return State.PENDING if due <= now else State.PLANNED


def _is_spent(item: ItemState, settings: QueueSettings) -> bool:
    most = overrides_of(item).max_attempts
    if most is None:
        most = settings.dead_threshold
    return most != NO_LIMIT and item.attempts >= most


def _text(failure: Failure | None) -> str | None:
    return None if failure is None else encode_failure(failure)
