"""Schedules: what every driver implements. See ``contract.store`` for the rules of all parts."""

from __future__ import annotations

import builtins
from typing import Protocol

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.model.schedules.schedule import Firing, Schedule, ScheduleDefinition

SCHEDULES_CHANGED = "schedule/*"
"""The notification for services that fire schedules: one may be due earlier than before."""


class ScheduleStore(Protocol):
    """Actions at due times: pushes, commits, and queues that are paused or resumed.

    ``model.schedules`` decides when a schedule is due and what becomes of it. Every operation that
    names a schedule raises ``UnknownSchedule`` if there is none. Operations by which one may be due
    earlier notify the waiters for ``SCHEDULES_CHANGED``.
    """

    @writes(repeatable=True)
    def add(self, name: str, definition: ScheduleDefinition, replace: bool) -> Op[Schedule]:
        """Add a schedule. One with the same definition is returned as it is.

        Another definition under that name replaces the one before with ``replace``; without,
        ``ScheduleExists``. A schedule that is replaced keeps its counts, stays paused if it is,
        and does not fire again what it has fired.
        """
        ...

    @reads
    def info(self, name: str) -> Op[Schedule]:
        """A schedule as it is."""
        ...

    @reads
    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[Schedule]]:
        """Schedules by name: those with the prefix, behind ``after``, up to ``limit``."""
        ...

    @writes(repeatable=True)
    def pause(self, name: str) -> Op[Schedule]:
        """Let a schedule not fire. One that is paused or has ended stays as it is."""
        ...

    @writes(repeatable=True)
    def resume(self, name: str) -> Op[Schedule]:
        """Let a paused schedule fire again. Due times during the pause are skipped and counted."""
        ...

    @writes(repeatable=False)
    def trigger(self, name: str) -> Op[Firing]:
        """Do what a schedule does, now, also if it is paused or has ended.

        The rule on overlaps holds. Nothing is counted, and its due times stay. An action that
        fails raises its error.
        """
        ...

    @writes(repeatable=False)
    def remove(self, name: str) -> Op[Schedule]:
        """Remove a schedule; returns what it was last."""
        ...

    @reads
    def until_due(self) -> Op[int | None]:
        """In how many milliseconds the next schedule fires, by the store's clock.

        Zero or less: at least one is due. None if none will ever be. Costs one index look-up.
        """
        ...

    @writes(repeatable=True)
    def fire(self, limit: int) -> Op[builtins.list[Firing]]:
        """Fire due schedules, the longest due first: up to ``limit`` due times.

        All in one transaction: the actions, and what becomes of their schedules. So each due time is
        fired once, however many callers there are, whatever becomes of them, and whatever the
        clock does: the next due time is always later than the last. Schedules that another caller
        is firing are left to it.

        Of each schedule that is over a minute late, due times are skipped and counted by its rule on
        misfires. Then its due times are fired in order. An action that raises a ``HeadraceError``
        leaves nothing written, and the others go on; it is tried again ``RETRY_MS`` later, up to
        three times, and then skipped with its error. Due times behind it wait.
        """
        ...

    @writes(repeatable=True)
    def update_zones(self) -> Op[int]:
        """Compute due times again that follow older time zone data than the caller's; returns how
        many schedules there were."""
        ...
