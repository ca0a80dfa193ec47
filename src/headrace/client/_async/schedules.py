"""The schedules of a store: actions at due times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from headrace.contract.op import Op
from headrace.core import schedules as views
from headrace.core.requests.request import Request
from headrace.core.schedules import Coming, ScheduleInfo, ScheduleOptions
from headrace.errors import InvalidOption
from headrace.model.checks import positive, text
from headrace.model.names import check_schedule, writable_schedule
from headrace.model.schedules.schedule import Firing, Schedule

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


Infos = list[ScheduleInfo]
PAGE = 1000


class AsyncSchedules:
    """The schedules of a store, for async code.

    They fire wherever a worker, a node (``headrace up``) or ``headrace schedule run`` is running:
    each due time once, however many of them there are.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def add(
        self, name: str, *, replace: bool = False, **options: Unpack[ScheduleOptions]
    ) -> ScheduleInfo:
        """Add a schedule, unless there is one of that name with the same content.

        >>> hr.schedules.add("nightly", cron="30 2 * * *", zone="Europe/Berlin", push=Push("jobs", {}))

        It is due by ``cron`` (on the clocks of ``zone``, UTC unless given), ``every`` so often from
        now or from ``starts_at`` on, or once ``at`` a moment. Then it does one thing: ``push``,
        ``upsert``, ``commit``, or ``pause`` or ``resume`` a queue.

        ``overlap`` says what a push does while the item of an earlier firing waits or runs:
        ``skip``, ``queue`` one more, ``replace`` the one that waits, or ``allow`` several.
        ``misfire`` says what becomes of times that are over a minute late, since nothing was
        running: fire ``once`` for all of them, ``skip`` them, or fire ``all`` (the last 1000).
        ``spread`` makes it fire later by a part of that time, always the same.

        Another content under the name raises ``ScheduleExists``, or replaces it with ``replace``:
        it keeps its counts, stays paused if it is, and fires no time again.
        """
        return await self._add(name, options, is_replaced=replace, owner=None)

    async def _add(
        self, name: str, options: ScheduleOptions, *, is_replaced: bool, owner: str | None
    ) -> ScheduleInfo:
        writable_schedule(name)
        max_body = self._client._requests.max_body
        definition = views.define(options, max_body=max_body, owner=owner)
        views.warn(definition)
        store = self._client._open_store
        return await self._run(store.schedules.add(name, definition, is_replaced))

    async def get(self, name: str) -> ScheduleInfo:
        """A schedule; ``UnknownSchedule`` if there is none of that name."""
        return await self._run(self._client._open_store.schedules.info(check_schedule(name)))

    async def list(self, *, prefix: str = "", after: str = "", limit: int = PAGE) -> Infos:
        """Schedules by name; go on with ``after`` the last one."""
        op = self._client._open_store.schedules.list(
            text("prefix", prefix), text("after", after), positive("limit", limit, most=PAGE)
        )
        return await self._client._run(Request(op, views.infos_of))

    async def next(
        self, name: str | None = None, count: int = 5, **timing: Unpack[Coming]
    ) -> views.Moments:
        """The next times at which a schedule fires, or those of ``cron``, ``every`` or ``at``.

        They are in the time zone of the schedule. A paused schedule has none.
        """
        if (name is None) == (not timing):
            raise InvalidOption("give the name of a schedule, or cron, every or at.", option="name")
        count = views.check_count(count)
        if name is None:
            return views.coming(timing, count)
        op = self._client._open_store.schedules.info(check_schedule(name))
        return views.coming_of(await self._client._run(Request(op)), count)

    async def trigger(self, name: str) -> Firing:
        """Do what a schedule does, now, also if it is paused; its due times stay as they are.

        The rule on overlaps holds.
        """
        op = self._client._open_store.schedules.trigger(writable_schedule(name))
        return await self._client._run(Request(op))

    async def pause(self, name: str) -> ScheduleInfo:
        """Let a schedule not fire until it is resumed. Repeating it does no harm."""
        return await self._run(self._client._open_store.schedules.pause(writable_schedule(name)))

    async def resume(self, name: str) -> ScheduleInfo:
        """Let a paused schedule fire again; times during the pause are skipped and counted."""
        return await self._run(self._client._open_store.schedules.resume(writable_schedule(name)))

    async def remove(self, name: str) -> ScheduleInfo:
        """Remove a schedule; returns what it was last. Items that it has pushed stay."""
        return await self._run(self._client._open_store.schedules.remove(writable_schedule(name)))

    async def _run(self, op: Op[Schedule]) -> ScheduleInfo:
        return await self._client._run(Request(op, views.info_of))
