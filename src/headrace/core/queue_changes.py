"""What has happened to a queue, found by comparing it with what it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from headrace.model.queues.settings import QueueInfo

StoreEvent = Literal["pushed", "updated", "paused", "resumed", "dropped"]


class QueueChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a client did to a queue, whichever client that was.

    ``info`` is the queue as it is now, or was when it was dropped. ``count`` is how many items
    entered it, where the event is ``pushed``.
    """

    event: StoreEvent
    queue: str
    info: QueueInfo
    count: int = 0


class QueueState(msgspec.Struct, frozen=True):
    """A queue at one moment: ``info`` is None if there is none; how many items ever entered it."""

    info: QueueInfo | None
    entered: int = 0


def changes_between(before: QueueState, after: QueueState) -> Iterator[QueueChange]:
    """What has happened between two moments, in an order in which it may have happened."""
    old, new = before.info, after.info
    entered = before.entered
    if old is not None and (new is None or new.created_at != old.created_at):
        yield QueueChange(event="dropped", queue=old.name, info=old)
        old, entered = None, 0
    if new is None:
        return
    if old is not None and new.settings != old.settings:
        yield QueueChange(event="updated", queue=new.name, info=new)
    if after.entered > entered:
        count = after.entered - entered
        yield QueueChange(event="pushed", queue=new.name, info=new, count=count)
    if new.is_paused != (old is not None and old.is_paused):
        event: StoreEvent = "paused" if new.is_paused else "resumed"
        yield QueueChange(event=event, queue=new.name, info=new)
