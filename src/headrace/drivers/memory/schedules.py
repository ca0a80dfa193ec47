"""Schedules in memory."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, assert_never

from headrace.contract.items import Pushed
from headrace.contract.op import Op
from headrace.contract.schedule_rules import commit_part, firing_of, has_failed, push_call
from headrace.contract.schedules import SCHEDULES_CHANGED
from headrace.drivers.memory.topics import immediate
from headrace.errors import HeadraceError
from headrace.model.schedules import schedule as rules
from headrace.model.schedules.actions import (
    CommitAction,
    PauseAction,
    PushAction,
    ResumeAction,
)
from headrace.model.schedules.schedule import Firing, Schedule, ScheduleDefinition
from headrace.model.schedules.zones import zone_data

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemorySchedules:
    """The operations on schedules."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def add(self, name: str, definition: ScheduleDefinition, replace: bool) -> Op[Schedule]:
        def act() -> Schedule:
            found, now = self.data.schedules.get(name), self.now()
            if found is None:
                return self._put(rules.added(name, definition, now))
            return self._put(rules.same_or_redefined(found, definition, now, is_replaced=replace))

        return immediate("schedules.add", act)

    def info(self, name: str) -> Op[Schedule]:
        return immediate("schedules.info", lambda: self._schedule(name), writes=False)

    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[Schedule]]:
        def act() -> list[Schedule]:
            names = sorted(n for n in self.data.schedules if n.startswith(prefix) and n > after)
            return [self.data.schedules[name] for name in names[:limit]]

        return immediate("schedules.list", act, writes=False)

    def pause(self, name: str) -> Op[Schedule]:
        return immediate("schedules.pause", lambda: self._put(rules.paused(self._schedule(name))))

    def resume(self, name: str) -> Op[Schedule]:
        def act() -> Schedule:
            return self._put(rules.resumed(self._schedule(name), self.now()))

        return immediate("schedules.resume", act)

    def trigger(self, name: str) -> Op[Firing]:
        return immediate("schedules.trigger", lambda: self._act(self._schedule(name), self.now()))

    def remove(self, name: str) -> Op[Schedule]:
        def act() -> Schedule:
            schedule = self._schedule(name)
            self._context.topics.put(self.data.schedules, name, None)
            return schedule

        return immediate("schedules.remove", act)

    def until_due(self) -> Op[int | None]:
        def act() -> int | None:
            times = [s.fire_at for s in self.data.schedules.values() if s.fire_at is not None]
            return min(times) - self.now() if times else None

        return immediate("schedules.until_due", act, writes=False)

    def fire(self, limit: int) -> Op[builtins.list[Firing]]:
        def act() -> list[Firing]:
            now, firings = self.now(), list[Firing]()
            stored = sorted(self.data.schedules.values(), key=lambda s: (s.fire_at or 0, s.name))
            after = {s.name: rules.caught_up(s, now) for s in rules.still_due(stored, now, limit)}
            while due := rules.still_due(after.values(), now, limit - len(firings)):
                for schedule in due:
                    firing = self._fire(schedule)
                    after[schedule.name] = rules.after_firing(schedule, firing, now)
                    firings.append(firing)
            for schedule in after.values():
                self._put(schedule)
            return firings

        return immediate("schedules.fire", act)

    def _fire(self, schedule: Schedule) -> Firing:
        """Fire a due time; an action that fails is undone alone."""
        assert schedule.due is not None
        mark = len(self.data.undo)
        try:
            return self._act(schedule, schedule.due)
        except HeadraceError as error:
            self.data.undo_to(mark)
            return has_failed(schedule, error)

    def _act(self, schedule: Schedule, due: int) -> Firing:
        """Do what a schedule does."""
        action = schedule.definition.action
        match action:
            case PushAction():
                pushed = self._context.pushes.push_one(push_call(schedule, due, action))
                assert isinstance(pushed, Pushed)
                return firing_of(schedule, due, pushed)
            case CommitAction():
                self._context.topics.append([commit_part(schedule, due, action)])
            case PauseAction():
                self._context.lifecycle.set_paused(
                    action.queue, f"schedule {schedule.name}", is_paused=True
                )
            case ResumeAction():
                self._context.lifecycle.set_paused(action.queue, None, is_paused=False)
            case _:
                assert_never(action)
        return firing_of(schedule, due, None)

    def update_zones(self) -> Op[int]:
        def act() -> int:
            ours = zone_data()
            older = [
                schedule
                for schedule in self.data.schedules.values()
                if schedule.due is not None and (schedule.zone_data or ours) < ours
            ]
            for schedule in older:
                self._put(rules.rezoned(schedule))
            return len(older)

        return immediate("schedules.update_zones", act)

    def _schedule(self, name: str) -> Schedule:
        if name not in self.data.schedules:
            raise rules.unknown_schedule(name)
        return self.data.schedules[name]

    def _put(self, schedule: Schedule) -> Schedule:
        before = self.data.schedules.get(schedule.name)
        if schedule is not before:
            self._context.topics.put(self.data.schedules, schedule.name, schedule)
            if schedule.fire_at is not None:
                self.data.announced.add(SCHEDULES_CHANGED)
        return schedule
