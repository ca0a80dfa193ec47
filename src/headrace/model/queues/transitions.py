"""Every rule by which an item changes, as pure functions.

A driver loads an ``ItemState`` under a lock, asks a function here for the next state, and stores
the answer. So all drivers decide alike.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from headrace.model.failures import Failure, encode_failure
from headrace.model.queues.items import (
    WORKER_LOST,
    Document,
    Ended,
    ItemState,
    State,
    overrides_of,
    successor_of,
)
from headrace.model.queues.settings import NO_LIMIT, QueueSettings, RetryPosition


def lease_ms(settings: QueueSettings, asked: int | None, item: ItemState) -> int:
    """How long a claim on the item lasts."""
    lease = overrides_of(item).lease
    if lease is not None:
        return round(lease * 1000)
    return asked if asked is not None else round(settings.lease * 1000)


def claimed(
    item: ItemState, *, token: str, lease_until: int, worker: str | None, now: int
) -> ItemState:
    """The item after a claim; it keeps its position in case it returns."""
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
    """The item waits for its next iteration, with its attempts reset."""
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
    """The item is dead by decision of its worker."""
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
    """The item failed: it is retried later, or it is dead after its last attempt."""
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


def max_attempts_of(item: ItemState, settings: QueueSettings) -> int:
    """How many times an item is claimed before it is dead: its own number, or its queue's."""
    own = overrides_of(item).max_attempts
    return settings.max_attempts if own is None else own


def is_death(verdict: ItemState | Ended) -> bool:
    """Whether a verdict makes the item dead."""
    return isinstance(verdict, Ended) and verdict.state == State.DEAD


def expired(item: ItemState, settings: QueueSettings, now: int) -> ItemState | Ended:
    """The lease expired: the worker crashed, or lost its connection.

    The claim has counted the attempt; the crash is counted now. The item returns immediately,
    unless it has crashed too many workers: to its old position, or behind all others if
    ``retry_position`` says so.
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
    position = item.position if _where(item, settings) != "back" else None
    return _superseded(
        replace(after, state=State.PENDING, next_execution=now, position=position), now
    )


def crash_of(item: ItemState) -> Failure:
    """The failure of an item whose lease expired."""
    worker = f" {item.worker}" if item.worker else ""
    return Failure(
        type="WorkerLost",
        message=f"worker{worker} did not settle it within its lease (attempt {item.attempts})",
    )


def released(item: ItemState, now: int) -> ItemState:
    """The item was not processed: it returns to its position as if it had not been claimed."""
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


def released_until(item: ItemState, until: int, now: int) -> ItemState:
    """Released, and not due before a time; for an item in a channel, the channel is delayed."""
    back = released(item, now)
    if item.key_values is not None or until <= now:
        return back
    return replace(back, state=State.PLANNED, next_execution=max(until, back.next_execution))


def revived(item: ItemState, now: int) -> ItemState:
    """A dead or waiting item that is due now, with its attempts reset."""
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
    """A new item. The driver assigns its position when it is due."""
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

    It keeps its position if it was due and still is, and stays in its channel.
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
    """A waiting item with newer content and its attempts reset."""
    return replace(replaced(item, document, due, now), attempts=0, crashes=0, error=None)


def followed(item: ItemState, document: Document, due: int) -> ItemState:
    """An active item with a successor document, which replaces an earlier one.

    Its due time is fixed now: a delay counts from the push, not from the end of the claim.
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
    """An item with some changes. A waiting item that was due and still is keeps its position."""
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
    """When an item that is pushed repeatedly is due: after a pause, or after ``max_wait``."""
    due = now + debounce
    return due if max_wait is None else min(due, max(waiting_since + max_wait, now))


def without_claim(item: ItemState) -> ItemState:
    """An item as it is kept after its end: without claim and successor."""
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
    return replace(
        item,
        state=State.PLANNED,
        next_execution=due,
        position=item.position if _where(item, settings) == "front" else None,
    )


def _where(item: ItemState, settings: QueueSettings) -> RetryPosition | None:
    """The position to which the item returns: its own setting, or that of its queue."""
    return overrides_of(item).retry_position or settings.retry_position


def _superseded(item: ItemState, now: int) -> ItemState:
    """An item that waits again, with its successor's content if it has one."""
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
    max_attempts = max_attempts_of(item, settings)
    return max_attempts != NO_LIMIT and item.attempts >= max_attempts


def _text(failure: Failure | None) -> str | None:
    return None if failure is None else encode_failure(failure)
