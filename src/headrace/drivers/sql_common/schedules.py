"""Schedules in SQL."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from headrace.contract.items import PushCall
from headrace.contract.op import Op, Steps
from headrace.contract.schedule_rules import commit_part, firing_of, has_failed, push_call
from headrace.contract.schedules import SCHEDULES_CHANGED
from headrace.contract.values import CommitPart
from headrace.drivers.sql_common.statements import Many, NoReply, Notify, Row, Statement
from headrace.errors import HeadraceError, StoreError
from headrace.model.queues.items import Document
from headrace.model.schedules import schedule as rules
from headrace.model.schedules.actions import (
    CommitAction,
    PauseAction,
    PushAction,
    ResumeAction,
)
from headrace.model.schedules.schedule import Firing, Schedule, ScheduleDefinition, Skipped
from headrace.model.schedules.zones import zone_data

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

# One action: if it fails, it alone is undone.
_SAVE = NoReply((Statement("save_firing", "SAVEPOINT headrace_firing", {}),))
_RELEASE = NoReply((Statement("release_firing", "RELEASE SAVEPOINT headrace_firing", {}),))
_UNDO = NoReply((Statement("undo_firing", "ROLLBACK TO SAVEPOINT headrace_firing", {}),))


class PushGroup:
    """What several schedules push to one queue, in the same way."""

    def __init__(self, like: PushCall) -> None:
        self._like = like
        self._documents: list[Document] = []
        self.schedules: list[Schedule] = []

    def add(self, schedule: Schedule, call: PushCall) -> None:
        self._documents += call.documents
        self.schedules.append(schedule)

    @property
    def call(self) -> PushCall:
        return msgspec.structs.replace(self._like, documents=tuple(self._documents))


class SqlSchedules:
    """The operations on schedules over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def add(self, name: str, definition: ScheduleDefinition, replace: bool) -> Op[Schedule]:
        def steps() -> Steps[Schedule]:
            rows, [clock] = yield (
                self.sql.lock_schedule(name=name),
                self.sql.read_clock(now=self.clock()),
            )
            now = clock["now"]
            if not rows:
                schedule = rules.added(name, definition, now)
                if (yield self.sql.add_schedule(**_columns(schedule))):
                    yield from self._announce(schedule)
                    return schedule
                # Another caller was faster.
                rows = yield self.sql.lock_schedule(name=name)
            before = _schedule(rows, name)
            schedule = rules.same_or_redefined(before, definition, now, is_replaced=replace)
            return (yield from self._save(before, schedule))

        return Op("schedules.add", steps, repeatable=True)

    def info(self, name: str) -> Op[Schedule]:
        def steps() -> Steps[Schedule]:
            return _schedule((yield self.sql.find_schedule(name=name)), name)

        return Op("schedules.info", steps, writes=False)

    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[Schedule]]:
        def steps() -> Steps[list[Schedule]]:
            rows = yield self.sql.list_schedules(prefix=prefix, after=after, limit=limit)
            return [_of(row) for row in rows]

        return Op("schedules.list", steps, writes=False)

    def pause(self, name: str) -> Op[Schedule]:
        return Op(
            "schedules.pause",
            lambda: self._change(name, lambda schedule, now: rules.paused(schedule)),
            repeatable=True,
        )

    def resume(self, name: str) -> Op[Schedule]:
        return Op("schedules.resume", lambda: self._change(name, rules.resumed), repeatable=True)

    def _change(self, name: str, change: Callable[[Schedule, int], Schedule]) -> Steps[Schedule]:
        before, now = yield from self._locked(name)
        return (yield from self._save(before, change(before, now)))

    def _locked(self, name: str) -> Steps[tuple[Schedule, int]]:
        rows, [clock] = yield (
            self.sql.lock_schedule(name=name),
            self.sql.read_clock(now=self.clock()),
        )
        return _schedule(rows, name), clock["now"]

    def trigger(self, name: str) -> Op[Firing]:
        def steps() -> Steps[Firing]:
            schedule, now = yield from self._locked(name)
            return (yield from self._act(schedule, now))

        return Op("schedules.trigger", steps)

    def remove(self, name: str) -> Op[Schedule]:
        def steps() -> Steps[Schedule]:
            return _schedule((yield self.sql.remove_schedule(name=name)), name)

        return Op("schedules.remove", steps)

    def until_due(self) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            [row] = yield self.sql.until_due(now=self.clock())
            ms: int | None = row["ms"]
            return ms

        return Op("schedules.until_due", steps, writes=False)

    def fire(self, limit: int) -> Op[builtins.list[Firing]]:
        def steps() -> Steps[list[Firing]]:
            rows, [clock] = yield (
                self.sql.lock_due_schedules(now=self.clock(), limit=max(limit, 0)),
                self.sql.read_clock(now=self.clock()),
            )
            before = list(_known(rows))
            after = {one.name: rules.caught_up(one, clock["now"]) for one in before}
            firings: list[Firing] = []
            while due := rules.still_due(after.values(), clock["now"], limit - len(firings)):
                for schedule, firing in zip(due, (yield from self._fire(due)), strict=True):
                    after[schedule.name] = rules.after_firing(schedule, firing, clock["now"])
                    firings.append(firing)
            yield from self._save_all(before, after)
            return firings

        # A repeat fires nothing again.
        return Op("schedules.fire", steps, repeatable=True)

    def _fire(self, due: Sequence[Schedule]) -> Steps[builtins.list[Firing]]:
        """Fire one due time of each schedule: together, or one by one if an action fails."""
        if len(due) > 1:
            firings: list[Firing] | None = None
            yield _SAVE
            try:
                firings = yield from self._act_together(due)
            except HeadraceError:
                yield _UNDO
            yield _RELEASE
            if firings is not None:
                return firings
        return (yield from self._fire_singly(due))

    def _fire_singly(self, due: Sequence[Schedule]) -> Steps[builtins.list[Firing]]:
        firings = []
        for schedule in due:
            firings.append((yield from self._fire_one(schedule)))
        return firings

    def _fire_one(self, schedule: Schedule) -> Steps[Firing]:
        assert schedule.due is not None
        yield _SAVE
        try:
            firing = yield from self._act(schedule, schedule.due)
        except HeadraceError as error:
            yield _UNDO
            firing = has_failed(schedule, error)
        yield _RELEASE
        return firing

    def _act_together(self, due: Sequence[Schedule]) -> Steps[builtins.list[Firing]]:
        """Do what several schedules do, with one push for each queue and one commit."""
        firings: dict[str, Firing] = {}
        pushes: dict[tuple[str, ...], PushGroup] = {}
        parts: list[CommitPart] = []
        for schedule in due:
            action, time = schedule.definition.action, schedule.due or 0
            if isinstance(action, PushAction):
                call = push_call(schedule, time, action)
                kind = (call.queue, call.mode, call.while_active or "")
                pushes.setdefault(kind, PushGroup(call)).add(schedule, call)
            elif isinstance(action, CommitAction):
                parts.append(commit_part(schedule, time, action))
                firings[schedule.name] = firing_of(schedule, time, None)
            else:
                firings[schedule.name] = yield from self._act(schedule, time)
        for _, group in sorted(pushes.items()):
            pushed = yield from self._context.pushes.push_one(group.call)
            for index, schedule in enumerate(group.schedules):
                firings[schedule.name] = firing_of(schedule, schedule.due or 0, pushed, index)
        if parts:
            yield from self._context.topics.append(parts)
        return [firings[schedule.name] for schedule in due]

    def _act(self, schedule: Schedule, due: int) -> Steps[Firing]:
        """Do what a schedule does."""
        action = schedule.definition.action
        match action:
            case PushAction():
                # As a push by any client: a new item wakes workers.
                call = push_call(schedule, due, action)
                return firing_of(schedule, due, (yield from self._context.pushes.push_one(call)))
            case CommitAction():
                yield from self._context.topics.append([commit_part(schedule, due, action)])
            case PauseAction():
                yield from self._context.lifecycle.set_paused(
                    action.queue, f"schedule {schedule.name}", is_paused=True
                )
            case ResumeAction():
                yield from self._context.lifecycle.set_paused(action.queue, None, is_paused=False)
            case _:
                assert_never(action)
        return firing_of(schedule, due, None)

    def update_zones(self) -> Op[int]:
        def steps() -> Steps[int]:
            rows = yield self.sql.lock_zoned_schedules(version=zone_data())
            for row in rows:
                before = _of(row)
                yield from self._save(before, rules.rezoned(before))
            return len(rows)

        return Op("schedules.update_zones", steps, repeatable=True)

    def _save(self, before: Schedule, schedule: Schedule) -> Steps[Schedule]:
        yield from self._save_all([before], {schedule.name: schedule})
        return schedule

    def _save_all(self, before: builtins.list[Schedule], after: dict[str, Schedule]) -> Steps[None]:
        changed = [after[one.name] for one in before if after[one.name] != one]
        if changed:
            yield NoReply((Many.of(self.sql.save_schedule, [_saved(one) for one in changed]),))
            for schedule in changed:
                yield from self._announce(schedule)

    def _announce(self, schedule: Schedule) -> Steps[None]:
        if schedule.fire_at is not None:
            yield Notify(frozenset({SCHEDULES_CHANGED}))


def _columns(schedule: Schedule) -> dict[str, Any]:
    columns = msgspec.structs.asdict(schedule)
    columns["passed"] = columns.pop("after")
    columns["definition"] = _json(schedule.definition)
    columns["skipped"] = _json(schedule.skipped)
    return columns


def _saved(schedule: Schedule) -> dict[str, Any]:
    columns = _columns(schedule)
    del columns["created_at"]
    return columns


def _known(rows: builtins.list[Row]) -> Iterator[Schedule]:
    for row in rows:
        # Others are left to the newer release that has written them.
        with suppress(StoreError):
            yield _of(row)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _schedule(rows: builtins.list[Row], name: str) -> Schedule:
    if not rows:
        raise rules.unknown_schedule(name)
    return _of(rows[0])


def _of(row: Row) -> Schedule:
    columns = dict(row)
    columns["after"] = columns.pop("passed")
    try:
        columns["definition"] = _decode_definition(columns["definition"])
    except msgspec.ValidationError as error:
        raise StoreError(
            f"schedule {columns['name']!r} was stored by another release, which knows more of "
            f"schedules: update this one ({error})."
        ) from error
    columns["skipped"] = _decode_skipped(columns["skipped"])
    return Schedule(**columns)


_decode_definition = msgspec.json.Decoder(ScheduleDefinition).decode
_decode_skipped = msgspec.json.Decoder(Skipped).decode
