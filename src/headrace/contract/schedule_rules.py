"""Rules of schedules that every driver follows."""

from __future__ import annotations

from headrace.contract.items import PushCall, Pushed
from headrace.contract.values import CommitPart
from headrace.errors import HeadraceError
from headrace.model.failures import storable, words_of
from headrace.model.schedules.actions import CommitAction, PushAction, commit_headers, push_form
from headrace.model.schedules.schedule import Firing, Schedule


def push_call(schedule: Schedule, due: int, action: PushAction) -> PushCall:
    """What a schedule pushes at a due time."""
    form = push_form(schedule.name, due, action)
    return PushCall(
        queue=action.queue,
        documents=(form.document,),
        mode=form.mode,
        while_active=form.while_active,
    )


def commit_part(schedule: Schedule, due: int, action: CommitAction) -> CommitPart:
    """What a schedule commits at a due time."""
    return CommitPart(action.topic, 1, action.body, commit_headers(schedule.name, due, action))


def firing_of(schedule: Schedule, due: int, pushed: Pushed | None, index: int = 0) -> Firing:
    """What became of a due time whose action is done; ``pushed`` if that was a push."""
    name = schedule.name
    if pushed is None:
        return Firing(schedule=name, due=due, outcome="fired")
    item = pushed.ids[index] or None
    if any(note.index == index and note.outcome == "skipped" for note in pushed.notes):
        return Firing(schedule=name, due=due, outcome="skipped", reason="overlap", item=item)
    return Firing(schedule=name, due=due, outcome="fired", item=item)


def has_failed(schedule: Schedule, error: HeadraceError) -> Firing:
    """What became of a due time whose action raised an error."""
    assert schedule.due is not None
    words = "".join(char if char.isprintable() else " " for char in storable(words_of(error)))
    return Firing(schedule=schedule.name, due=schedule.due, outcome="failed", error=words)
