"""Why an item is not running, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.contract.items import FinishedItem, QueuePosition, WorkerRow
from headrace.core.limits import LimitUsage
from headrace.core.views import is_alive
from headrace.model.failures import Failure
from headrace.model.fields import shown
from headrace.model.queues.dead_letter import failure_in
from headrace.model.queues.items import State
from headrace.model.queues.settings import QueueInfo
from headrace.model.times import moment_of


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why an item is not running, or how it ended. Times are in seconds.

    ``reasons`` say it in words, and so does ``str()``. ``before`` is how many items are claimed
    before it. ``is_frozen`` means that the queue waits for an update of its settings,
    ``channel_delayed_for`` for how long the item's channel is delayed. ``limits`` are those that
    apply to it, with their usage and the holders.
    """

    id: int
    queue: str
    subject: str | None
    state: str
    reasons: tuple[str, ...]
    priority: int
    attempts: int
    due_in: float | None = None
    before: int | None = None
    is_paused: bool = False
    paused_by: str | None = None
    is_frozen: bool = False
    channel_delayed_for: float | None = None
    leased_by: str | None = None
    lease_ends_in: float | None = None
    workers: int = 0
    limits: tuple[LimitUsage, ...] = ()
    last_error: Failure | None = None

    def __str__(self) -> str:
        subject = f" ({self.subject})" if self.subject is not None else ""
        head = f"item {self.id}{subject} of queue {shown(self.queue)} is {self.state}"
        return f"{head}: {'; '.join(self.reasons)}." if self.reasons else f"{head}."


def why_ended(ended: FinishedItem) -> Why:
    """How an item ended that is no longer live."""
    item = ended.item
    error = failure_in(item)
    words = [f"it ended at {moment_of(ended.ended_at).isoformat()}, {ended.cause}"]
    if error is not None:
        words.append(f"its last error was {error.summary}")
    if item.state == State.DEAD:
        words.append(f"it was claimed {_times(item.attempts)}; retry or redrive it to run again")
    return Why(
        id=item.id,
        queue=item.queue,
        subject=item.subject,
        state=State(item.state).name.lower(),
        reasons=tuple(words),
        priority=item.priority,
        attempts=item.attempts,
        last_error=error,
    )


def why_live(
    place: QueuePosition,
    info: QueueInfo,
    workers: Sequence[WorkerRow],
    *,
    is_frozen: bool,
    limits: Sequence[LimitUsage] = (),
) -> Why:
    """What a live item waits for."""
    item, now = place.item, place.now
    is_active = item.state == State.ACTIVE
    due_in = max(item.next_execution - now, 0) / 1000
    left = None if item.lease_until is None else (item.lease_until - now) / 1000
    there = [row for row in workers if is_alive(row, now)]
    state = State.PENDING if item.state == State.PLANNED and not due_in else State(item.state)
    return Why(
        id=item.id,
        queue=item.queue,
        subject=item.subject,
        state=state.name.lower(),
        reasons=(
            *_limited(limits, is_active=is_active),
            *_reasons(place, info, len(there), due_in, left, is_frozen=is_frozen),
        ),
        priority=item.priority,
        attempts=item.attempts,
        due_in=None if is_active else due_in,
        before=None if is_active else place.before,
        is_paused=info.is_paused,
        paused_by=info.paused_by,
        is_frozen=is_frozen,
        channel_delayed_for=None if is_active else _delayed_for(place),
        leased_by=item.worker if is_active else None,
        lease_ends_in=left if is_active else None,
        workers=len(there),
        limits=tuple(limits),
        last_error=failure_in(item),
    )


def _limited(limits: Sequence[LimitUsage], *, is_active: bool) -> list[str]:
    return [] if is_active else [str(usage) for usage in limits if usage.is_full]


def _reasons(
    place: QueuePosition,
    info: QueueInfo,
    workers: int,
    due_in: float,
    lease_left: float | None,
    *,
    is_frozen: bool,
) -> list[str]:
    item = place.item
    words = []
    if item.state == State.ACTIVE:
        words.append(f"{item.worker or 'a client'} has claimed it, {_lease(lease_left or 0.0)}")
        if item.successor is not None:
            words.append("newer content waits for the end of this claim")
    else:
        if info.is_paused:
            words.append(
                "the queue is paused" + (f" by {info.paused_by}" if info.paused_by else "")
            )
        if is_frozen:
            words.append("the queue is frozen until an update of its settings is done")
        delayed_for = _delayed_for(place)
        if delayed_for is not None:
            until = moment_of(place.delayed_until or 0).isoformat()
            words.append(f"its channel is delayed for {delayed_for:g} s, until {until}")
        if due_in:
            words.append(f"it is due in {due_in:g} s")
        words.append(_line(place, info))
        if not workers:
            words.append("no worker of the queue is alive")
    error = failure_in(item)
    if error is not None:
        words.append(f"it was claimed {_times(item.attempts)}, the last error was {error.summary}")
    return words


def _delayed_for(place: QueuePosition) -> float | None:
    return None if place.delayed_until is None else (place.delayed_until - place.now) / 1000


def _line(place: QueuePosition, info: QueueInfo) -> str:
    if not place.before:
        return "it is the next one"
    ranked = f", its priority is {place.item.priority}"
    by_priority = ranked if info.settings.discipline == "priority" else ""
    others = "1 item is" if place.before == 1 else f"{place.before} items are"
    return f"{others} claimed before it{by_priority}"


def _lease(left: float) -> str:
    if left < 0:
        return f"its lease ended {-left:g} s ago and the next claim may get it"
    return f"its lease ends in {left:g} s"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
