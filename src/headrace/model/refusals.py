"""Errors that several drivers raise, worded once."""

from __future__ import annotations

from headrace.errors import (
    ClaimLost,
    InvalidOption,
    ItemActive,
    ItemGone,
    ItemLost,
    LimitExists,
    LockLost,
    NothingToReclaim,
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
from headrace.model.procs import Status


def unknown_topic(topic: str) -> UnknownTopic:
    return UnknownTopic(
        f"topic {topic!r} has no records: commit one to create it, or check the name.",
        topic=topic,
    )


def unknown_seq(topic: str, seq: int, first_seq: int, next_seq: int) -> UnknownSeq:
    held = f"it holds :{first_seq} to :{next_seq - 1}" if next_seq > first_seq else "it is empty"
    return UnknownSeq(f"topic {topic!r} has no record :{seq}: {held}.", topic=topic, seq=seq)


def unknown_proc(name: str) -> UnknownProc:
    return UnknownProc(
        f"there is no proc {name!r}: create it with proc(name, topic=..., offset=...).", proc=name
    )


def name_taken(name: str, topic: str, wanted: str) -> ProcNameTaken:
    return ProcNameTaken(
        f"proc {name!r} reads topic {topic!r}, not {wanted!r}: choose another name, "
        "or destroy that proc first.",
        proc=name,
        topic=topic,
    )


def unknown_pipeline(name: str) -> UnknownPipeline:
    return UnknownPipeline(
        f"there is no pipeline {name!r}: create it with system_proc(name, source=..., "
        "processor=...).",
        pipeline=name,
    )


def other_pipeline(proc: str, pipeline: str) -> ProcNameTaken:
    return ProcNameTaken(
        f"proc {proc!r} belongs to pipeline {pipeline!r}: choose another name, or destroy that "
        "pipeline first.",
        proc=proc,
        pipeline=pipeline,
    )


def source_left_out(pipeline: str, proc: str, topic: str) -> InvalidOption:
    return InvalidOption(
        f"pipeline {pipeline!r} also reads topic {topic!r}: name it among the sources, or destroy "
        f"its proc {proc!r} first, which forgets how far it has read.",
        option="source",
    )


def claim_lost(name: str) -> ClaimLost:
    return ClaimLost(
        f"this claim on proc {name!r} does not stand any more (its time ran out and it was "
        "given back, or it was acked, reclaimed or sought away): claim again.",
        proc=name,
    )


def disabled(name: str, error: str | None) -> ProcDisabled:
    why = f" Its last error was: {error}." if error else ""
    return ProcDisabled(f"proc {name!r} is disabled: resume it first.{why}", proc=name)


def overtaken(name: str, first: int, last: int) -> ProcOvertaken:
    return ProcOvertaken(
        f"proc {name!r} was overtaken: the records :{first} to :{last} were collected by max_age "
        "before it had them. Seek it to '>' to go on with the oldest that is left.",
        proc=name,
        first=first,
        last=last,
    )


def nothing_to_reclaim(name: str) -> NothingToReclaim:
    return NothingToReclaim(f"proc {name!r} has no outstanding claim.", proc=name)


def already(name: str, status: Status) -> ProcError:
    kind = ProcAlreadyActive if status == "active" else ProcAlreadyDisabled
    return kind(f"proc {name!r} is {status} already.", proc=name)


def unknown_queue(name: str) -> UnknownQueue:
    return UnknownQueue(
        f"there is no queue {name!r}: push something to it, or create it, or check the name.",
        queue=name,
    )


def queue_exists(name: str) -> QueueExists:
    return QueueExists(
        f"there is a queue {name!r} already: use ref() to get it, update() to change it.",
        queue=name,
    )


def unknown_item(queue: str, item: int | str) -> UnknownItem:
    return UnknownItem(
        f"queue {queue!r} has no item {item!r} (any more): it may have ended without being kept.",
        queue=queue,
        item=item,
    )


def item_active(queue: str, item: int) -> ItemActive:
    return ItemActive(
        f"item {item} of queue {queue!r} is in flight: wait for its outcome, or push newer "
        "content with while_active='next'.",
        queue=queue,
        item=item,
    )


def item_lost(queue: str, item: int) -> ItemLost:
    return ItemLost(
        f"this claim on item {item} of queue {queue!r} does not stand any more: its lease ran "
        "out and was ended, or it was settled already. Nothing was written.",
        queue=queue,
        item=item,
    )


def item_gone(queue: str, item: int) -> ItemGone:
    return ItemGone(
        f"item {item} of queue {queue!r} is gone: its channel was deleted while it was out. "
        "Nothing was written.",
        queue=queue,
        item=item,
    )


def queue_full(queue: str, limit: int, channel: str | None) -> QueueFull:
    where = "" if channel is None else f"channel {channel} of "
    option = "max_items" if channel is None else "max_channel_items"
    return QueueFull(
        f"{where}queue {queue!r} holds all that it may: {option} is {limit}. Nothing was pushed; "
        "try again when items are settled, or raise the limit.",
        queue=queue,
        limit=limit,
        channel=channel,
    )


def limit_reached(queue: str, rule: str, limit: int, values: str) -> QueueFull:
    return QueueFull(
        f"queue {queue!r} may not hold more: the limit {rule!r} lets {limit} items of {values} "
        "wait and run. Nothing was pushed; try again when items are settled, or change the limit.",
        queue=queue,
        limit=limit,
        channel=values,
        rule=rule,
    )


def unknown_limit(rule: str, override: str | None = None) -> UnknownLimit:
    which = (
        f"limit {rule!r}" if override is None else f"limit {rule!r} has no override {override!r}"
    )
    text = f"there is no {which}: limits() lists them." if override is None else f"{which}."
    return UnknownLimit(text, rule=rule, override=override)


def limit_exists(rule: str, same: str, override: str | None = None) -> LimitExists:
    what = f"limit {rule!r}" if override is None else f"override {override!r} of limit {rule!r}"
    return LimitExists(
        f"{what} cannot be made: {same!r} has its name or is about the same; change that one.",
        rule=rule,
        override=override,
        same=same,
    )


def subject_taken(queue: str, subject: str) -> SubjectTaken:
    return SubjectTaken(
        f"a live item of queue {queue!r} has the subject {subject!r}: settle or cancel it first.",
        queue=queue,
        subject=subject,
    )


def slots_lost() -> SlotsLost:
    return SlotsLost(
        "these slots are not yours any more: their lease ran out and they were given back. "
        "Others may have them: acquire them again."
    )


def lock_lost(key_values: str) -> LockLost:
    return LockLost(
        f"the lock {key_values} is not yours any more: its lease ran out and somebody else took "
        "it, or it was released or broken. What it protects may have changed: acquire it again.",
        key_values=key_values,
    )


def unknown_lock(key_values: str, fence: int | None) -> UnknownLock:
    by = "" if fence is None else f" by number {fence}"
    return UnknownLock(
        f"nobody has the lock {key_values}{by}: look at the list of locks.",
        key_values=key_values,
    )
