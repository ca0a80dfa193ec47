"""How much a queue and its channels may hold."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import QueueFull
from headrace.model import refusals
from headrace.model.limiting import Limits, Room
from headrace.model.queues import NO_LIMIT, QueueSettings


def check_room(
    queue: str,
    settings: QueueSettings,
    *,
    held: int,
    news: Mapping[str | None, int],
    channels: Mapping[str, int],
) -> None:
    """Raise ``QueueFull`` if new items (by channel) do not fit beside what is held."""
    count = sum(news.values())
    if settings.max_items != NO_LIMIT and count and held + count > settings.max_items:
        raise refusals.queue_full(queue, settings.max_items, None)
    most = settings.max_channel_items
    for channel in sorted(name for name in news if name is not None):
        if most != NO_LIMIT and channels.get(channel, 0) + news[channel] > most:
            raise refusals.queue_full(queue, most, channel)


def limit_of(error: QueueFull) -> tuple[str, int, str | None, str | None]:
    """What a ``QueueFull`` is about: the queue, the limit, the channel, the rule."""
    details = error.details
    return details["queue"], details["limit"], details["channel"], details.get("rule")


def check_limits(queue: str, limits: Limits, room: Room, news: Mapping[str | None, int]) -> None:
    """Raise ``QueueFull`` if limits have no room for new items (by channel)."""
    for channel, count in sorted(news.items(), key=lambda pair: pair[0] or ""):
        bounds = limits.bounds(queue, channel, "enqueued")
        full = room.refusal(bounds, count)
        if full is not None:
            raise refusals.limit_reached(queue, full.rule, full.limit, full.bucket.key_values)
        room.take(bounds, count)
