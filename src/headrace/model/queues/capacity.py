"""Checks of a push against ``max_items``, ``max_channel_items`` and limits."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import QueueFull
from headrace.model import error_messages
from headrace.model.limits.limit_set import FreeSlots, LimitSet
from headrace.model.queues.settings import NO_LIMIT, QueueSettings


def check_capacity(
    queue: str,
    settings: QueueSettings,
    *,
    live: int,
    news: Mapping[str | None, int],
    channels: Mapping[str, int],
) -> None:
    """Raise ``QueueFull`` if the queue or a channel would have too many items.

    ``news`` counts the new items by channel, ``live`` the live items of the queue, ``channels``
    those of each channel.
    """
    count = sum(news.values())
    if settings.max_items != NO_LIMIT and count and live + count > settings.max_items:
        raise error_messages.queue_full(queue, settings.max_items, None)
    limit = settings.max_channel_items
    for channel in sorted(name for name in news if name is not None):
        if limit != NO_LIMIT and channels.get(channel, 0) + news[channel] > limit:
            raise error_messages.queue_full(queue, limit, channel)


def limit_of(error: QueueFull) -> tuple[str, int, str | None, str | None]:
    """The queue, the limit, the channel and the rule of a ``QueueFull``."""
    details = error.details
    return details["queue"], details["limit"], details["channel"], details.get("rule")


def check_limits(
    queue: str, limits: LimitSet, slots: FreeSlots, news: Mapping[str | None, int]
) -> None:
    """Raise ``QueueFull`` if a limit does not have enough free slots for new items (by channel)."""
    for channel, count in sorted(news.items(), key=lambda pair: pair[0] or ""):
        bounds = limits.bounds(queue, channel, "enqueued")
        full = slots.first_exceeded(bounds, count)
        if full is not None:
            raise error_messages.limit_reached(
                queue, full.rule, full.limit, full.counter.key_values
            )
        slots.acquire(bounds, count)
