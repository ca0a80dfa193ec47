"""Errors that several drivers raise, worded once."""

from __future__ import annotations

from headrace.errors import (
    ClaimLost,
    NothingToReclaim,
    ProcAlreadyActive,
    ProcAlreadyDisabled,
    ProcDisabled,
    ProcError,
    ProcNameTaken,
    ProcOvertaken,
    UnknownProc,
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
