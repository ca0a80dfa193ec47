"""Errors that several drivers raise, with their messages."""

from __future__ import annotations

from headrace.errors import (
    ClaimLost,
    InvalidOption,
    ItemActive,
    ItemGone,
    ItemLost,
    LimitExists,
    LockLost,
    NothingClaimed,
    ProcAlreadyActive,
    ProcAlreadyDisabled,
    ProcDisabled,
    ProcError,
    ProcNameTaken,
    ProcOvertaken,
    QueueExists,
    QueueFull,
    SlotsLost,
    SubjectTaken,
    UnknownItem,
    UnknownLimit,
    UnknownLock,
    UnknownPipeline,
    UnknownProc,
    UnknownQueue,
    UnknownSeq,
    UnknownTopic,
)
from headrace.model.fields import shown
from headrace.model.query.key_values import words_of
from headrace.model.topics.procs import Status


def unknown_topic(topic: str) -> UnknownTopic:
    return UnknownTopic(
        f"topic {shown(topic)} has no records: commit one to create it, or check the name.",
        topic=topic,
    )


def unknown_seq(topic: str, seq: int, first_seq: int, next_seq: int) -> UnknownSeq:
    held = f"it holds :{first_seq} to :{next_seq - 1}" if next_seq > first_seq else "it is empty"
    return UnknownSeq(f"topic {shown(topic)} has no record :{seq}: {held}.", topic=topic, seq=seq)


def unknown_proc(name: str) -> UnknownProc:
    return UnknownProc(
        f"there is no proc {shown(name)}: create it with procs.create(name, topic, offset=...).",
        proc=name,
    )


def name_taken(name: str, topic: str, wanted: str) -> ProcNameTaken:
    return ProcNameTaken(
        f"proc {shown(name)} reads topic {shown(topic)}, not {shown(wanted)}: choose another name, "
        "or delete that proc first.",
        proc=name,
        topic=topic,
    )


def unknown_pipeline(name: str) -> UnknownPipeline:
    return UnknownPipeline(
        f"there is no pipeline {shown(name)}: create it with pipelines.create(name, source=..., "
        "processor=...).",
        pipeline=name,
    )


def other_pipeline(proc: str, pipeline: str) -> ProcNameTaken:
    return ProcNameTaken(
        f"proc {shown(proc)} belongs to pipeline {shown(pipeline)}: choose another name, or delete that "
        "pipeline first.",
        proc=proc,
        pipeline=pipeline,
    )


def source_left_out(pipeline: str, proc: str, topic: str) -> InvalidOption:
    return InvalidOption(
        f"pipeline {shown(pipeline)} also reads topic {shown(topic)}: add it to the sources, or delete "
        f"its proc {shown(proc)} first, which discards its read position.",
        option="source",
    )


def claim_lost(name: str) -> ClaimLost:
    return ClaimLost(
        f"this claim on proc {shown(name)} was lost: it expired and its records were released, or "
        "it was acked or nacked, or the proc was moved by seek. Claim again.",
        proc=name,
    )


def disabled(name: str, error: str | None) -> ProcDisabled:
    why = f" Its last error was: {error.removesuffix('.')}." if error else ""
    return ProcDisabled(f"proc {shown(name)} is disabled: resume it first.{why}", proc=name)


def overtaken(name: str, first: int, last: int) -> ProcOvertaken:
    return ProcOvertaken(
        f"proc {shown(name)} was overtaken: max_age removed the records :{first} to :{last} before it "
        "had read them. Seek it to '>' to continue with the oldest record.",
        proc=name,
        first=first,
        last=last,
    )


def nothing_claimed(name: str) -> NothingClaimed:
    return NothingClaimed(f"proc {shown(name)} has no outstanding claim.", proc=name)


def already(name: str, status: Status) -> ProcError:
    kind = ProcAlreadyActive if status == "active" else ProcAlreadyDisabled
    return kind(f"proc {shown(name)} is {status} already.", proc=name)


def unknown_queue(name: str) -> UnknownQueue:
    return UnknownQueue(
        f"there is no queue {shown(name)}: check the name, create it with hr.queues.create(name), or "
        "push the first item.",
        queue=name,
    )


def queue_exists(name: str) -> QueueExists:
    return QueueExists(
        f"queue {shown(name)} exists already: refer to it with hr.queue(name), or give exist_ok=True.",
        queue=name,
    )


def unknown_item(queue: str, item: int | str) -> UnknownItem:
    return UnknownItem(
        f"queue {shown(queue)} has no item {shown(item)}. If it completed, it was not kept: "
        "hr.queue(name).update(keep='all') keeps completed items.",
        queue=queue,
        item=item,
    )


def not_dead(queue: str, item: int | str, state: str) -> UnknownItem:
    return UnknownItem(
        f"item {shown(item)} of queue {shown(queue)} is {state}, not dead.", queue=queue, item=item
    )


def item_active(queue: str, item: int) -> ItemActive:
    return ItemActive(
        f"item {item} of queue {shown(queue)} is in flight: wait for its outcome, or push newer "
        "content with while_active='next'.",
        queue=queue,
        item=item,
    )


def item_lost(queue: str, item: int) -> ItemLost:
    return ItemLost(
        f"this claim on item {item} of queue {shown(queue)} was lost: its lease expired, or it was "
        "settled already. Nothing was written.",
        queue=queue,
        item=item,
    )


def item_gone(queue: str, item: int) -> ItemGone:
    return ItemGone(
        f"item {item} of queue {shown(queue)} is gone: its channel was deleted while it was in "
        "flight. Nothing was written.",
        queue=queue,
        item=item,
    )


def queue_full(queue: str, limit: int, channel: str | None) -> QueueFull:
    where = "" if channel is None else f"channel {words_of(channel)} of "
    option = "max_items" if channel is None else "max_channel_items"
    return QueueFull(
        f"{where}queue {shown(queue)} is full: {option} is {limit}. Nothing was pushed; "
        "try again when items are settled, or raise the limit.",
        queue=queue,
        limit=limit,
        channel=channel,
    )


def limit_reached(queue: str, rule: str, limit: int, values: str) -> QueueFull:
    counted = words_of(values) if values else "it"
    return QueueFull(
        f"queue {shown(queue)} is full: the limit {shown(rule)} allows {limit} live items of "
        f"{counted}. Nothing was pushed; try again when items are settled, or change the limit.",
        queue=queue,
        limit=limit,
        channel=values,
        rule=rule,
    )


def unknown_limit(rule: str, override: str | None = None) -> UnknownLimit:
    which = (
        f"limit {shown(rule)}"
        if override is None
        else f"limit {shown(rule)} has no override {shown(override)}"
    )
    text = f"there is no {which}: hr.limits.list() lists them." if override is None else f"{which}."
    return UnknownLimit(text, rule=rule, override=override)


def limit_exists(rule: str, same: str, override: str | None = None) -> LimitExists:
    what = (
        f"limit {shown(rule)}"
        if override is None
        else f"override {shown(override)} of limit {shown(rule)}"
    )
    return LimitExists(
        f"{what} cannot be created: {shown(same)} has the same name or pattern; use limits.set(...), which creates a limit or changes it.",
        rule=rule,
        override=override,
        same=same,
    )


def subject_taken(queue: str, subject: str) -> SubjectTaken:
    return SubjectTaken(
        f"a live item of queue {shown(queue)} has the subject {shown(subject)}: settle or cancel it first.",
        queue=queue,
        subject=subject,
    )


def slots_lost() -> SlotsLost:
    return SlotsLost(
        "these slots were lost: their lease expired and they were released. Other clients may "
        "hold them now: acquire them again."
    )


def lock_lost(key_values: str) -> LockLost:
    return LockLost(
        f"the lock {words_of(key_values)} was lost: its lease expired and another client acquired "
        "it, or it was released or broken. What it protects may have changed: acquire it again.",
        key_values=key_values,
    )


def unknown_lock(key_values: str, fence: int | None) -> UnknownLock:
    number = "" if fence is None else f" with number {fence}"
    return UnknownLock(
        f"no client holds the lock {words_of(key_values)}{number}: hr.locks.list() lists those that are held.",
        key_values=key_values,
    )
