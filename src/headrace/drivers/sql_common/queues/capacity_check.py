"""Whether a push fits into its queue, its channels and the limits, in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace.contract.op import Steps
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import NoReply, Statements
from headrace.errors import QueueFull
from headrace.model.limits.limit_set import CounterKey, FreeSlots, LimitSet
from headrace.model.queues.capacity import check_capacity, check_limits


class CapacityCheck:
    """The check of one push against ``max_items``, ``max_channel_items`` and limits.

    A push that does not fit is refused before it writes. Its limits are checked again when it has
    written, on the counters that it has changed and thereby locked: other pushes may have used the
    slots meanwhile. Counters are locked only then, since a transaction that has locked one must
    not wait for anything else.
    """

    def __init__(self, sql: Statements, queue: QueueRow, limits: LimitSet | None) -> None:
        self._sql = sql
        self._queue = queue
        self._limits = limits
        self._used: dict[CounterKey, int] = {}
        self._has_savepoint = False
        self._must_check_sizes = False

    def before_write(self, news: Counter[str | None], moved: Counter[str | None]) -> Steps[None]:
        """Raise ``QueueFull`` if there is no capacity for the new items, by channel.

        ``moved`` says how the number of existing items changes, by channel.
        """
        if self._queue.settings.is_limited:
            yield from self._check_sizes(news, moved)
        if self._limits is not None and news:
            yield from self._read_counters(news)
            slots = FreeSlots(self._used)
            for channel, count in moved.items():
                slots.acquire(self._limits.bounds(self._queue.name, channel, "enqueued"), count)
            check_limits(self._queue.name, self._limits, slots, news)
            yield from self._set_savepoint()

    def defer(self, channels: Iterable[str | None]) -> Steps[None]:
        """Leave the whole check to the end, for a push whose new items are not known yet."""
        self._must_check_sizes = self._queue.settings.is_limited
        if self._limits is not None:
            yield from self._read_counters(channels)
        yield from self._set_savepoint()

    def after_write(self, news: Counter[str | None], used: Mapping[CounterKey, int]) -> Steps[None]:
        """Raise ``QueueFull``, and undo what the push has written, if it exceeds a limit.

        ``used`` has the values of the counters that it has changed.
        """
        if not self._has_savepoint:
            return
        written = Counter({channel: -count for channel, count in news.items()})
        try:
            if self._must_check_sizes:
                yield from self._check_sizes(news, written)
            if self._limits is not None:
                slots = FreeSlots({**self._used, **used})
                for channel, count in written.items():
                    slots.acquire(self._limits.bounds(self._queue.name, channel, "enqueued"), count)
                check_limits(self._queue.name, self._limits, slots, news)
        except QueueFull:
            yield self._sql.undo_push()
            raise

    def _set_savepoint(self) -> Steps[None]:
        self._has_savepoint = True
        yield NoReply((self._sql.save_push(),))

    def _read_counters(self, channels: Iterable[str | None]) -> Steps[None]:
        assert self._limits is not None
        wanted = {
            counter.name: counter
            for channel in channels
            for counter in self._limits.bounds(self._queue.name, channel, "enqueued").counters
        }
        if wanted:
            rows = yield self._sql.read_limit_counters(names=sorted(wanted))
            self._used = {wanted[row["name"]]: row["used"] for row in rows}

    def _check_sizes(self, news: Counter[str | None], moved: Counter[str | None]) -> Steps[None]:
        sql, queue = self._sql, self._queue
        if queue.settings.metrics:
            [row] = yield sql.sum_tallies(queue=queue.id)
            live = row["planned"] + row["pending"] + row["active"]
        else:
            counted = yield sql.count_items(queue=queue.id)
            live = sum(row["count"] for row in counted)
        live += sum(moved.values())
        names = sorted(name for name in news if name is not None)
        sizes: dict[str, int] = {}
        if names:
            found = yield sql.channel_sizes(queue=queue.id, names=names)
            stored = {row["key_values"]: row["size"] for row in found}
            sizes = {name: stored.get(name, 0) + moved[name] for name in names}
        check_capacity(queue.name, queue.settings, live=live, news=news, channels=sizes)
