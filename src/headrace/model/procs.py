"""Procs: what they are and every rule by which they change, as pure functions.

A driver loads a ``ProcState`` and its ``Hold`` under a lock, asks a function here what
comes next, and stores the answer. So all drivers decide alike.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from headrace.errors import InvalidOption
from headrace.model.position import range_text

Status = Literal["active", "disabled"]
Strategy = Literal["disable", "continue", "dead_letter"]
STRATEGIES: tuple[Strategy, ...] = ("disable", "continue", "dead_letter")

NO_LIMIT = -1
DEFAULT_MAX_RECLAIMS = 10
DEFAULT_RECLAIM_TIMEOUT_MS = 10_000
TIMED_OUT = "the claim ran out of time"


class ProcState(msgspec.Struct, frozen=True, kw_only=True):
    """All that is stored of a proc, apart from its outstanding claim.

    ``cursor`` is the seq it hands out next; None while its offset lies beyond the end of
    the topic and cannot be turned into a seq yet. ``skipped`` are dead-lettered records
    ahead of the cursor. Up to ``isolate_to`` records are handed out one by one, to find
    the one among them that fails. A proc with a ``ttl`` is removed by maintenance when it
    was not used until ``expires_at``.
    """

    name: str
    topic: str
    offset: str
    cursor: int | None
    created_at: int
    status: Status = "active"
    last_claimed_at: int = 0
    last_acked_at: int = 0
    last_claimed_range: str = ""
    last_acked_range: str = ""
    previous_claimed_range: str = ""
    reclaims: int = 0
    max_reclaims: int = DEFAULT_MAX_RECLAIMS
    reclaim_timeout: int | None = DEFAULT_RECLAIM_TIMEOUT_MS
    on_max_reclaims_reached: Strategy = "disable"
    last_error: str | None = None
    skipped: tuple[int, ...] = ()
    isolate_to: int | None = None
    last_acked_token: str | None = None
    last_ack: str | None = None
    ttl: int | None = None
    expires_at: int | None = None


class Hold(msgspec.Struct, frozen=True):
    """An outstanding claim: the records from ``first_seq`` to ``last_seq`` are out."""

    token: str
    first_seq: int
    last_seq: int
    deadline: int | None

    def is_over(self, now: int) -> bool:
        """Whether the claim's time has run out. It still stands until somebody takes it."""
        return self.deadline is not None and now >= self.deadline


class ProcChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Settings to change; what is unset stays. Times are in milliseconds."""

    max_reclaims: int | UnsetType = UNSET
    reclaim_timeout: int | UnsetType | None = UNSET
    on_max_reclaims_reached: Strategy | UnsetType = UNSET


class ProcInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a proc looks like from outside."""

    name: str
    topic: str
    offset: str
    status: Status
    created_at: datetime
    last_claimed_at: datetime | None
    last_acked_at: datetime | None
    last_claimed_range: str
    last_acked_range: str
    previous_claimed_range: str
    reclaims: int
    max_reclaims: int
    reclaim_timeout: float | None
    on_max_reclaims_reached: Strategy
    last_error: str | None
    position: int | None
    claimed: str | None
    claimed_until: datetime | None


class Lag(msgspec.Struct, frozen=True):
    """How far a proc is behind: records not acked, and the age of the oldest of them."""

    records: int
    seconds: float


def changes(
    *,
    max_reclaims: int | UnsetType = UNSET,
    reclaim_timeout_ms: int | UnsetType | None = UNSET,
    on_max_reclaims_reached: object = UNSET,
) -> ProcChanges:
    """Check settings and put them together."""
    limit: int | UnsetType = UNSET
    if max_reclaims is not UNSET:
        is_number = isinstance(max_reclaims, int) and not isinstance(max_reclaims, bool)
        if not is_number or (max_reclaims < 1 and max_reclaims != NO_LIMIT):
            raise InvalidOption(
                f"max_reclaims is {max_reclaims!r}: use 1 or more, or -1 for no limit.",
                option="max_reclaims",
            )
        limit = max_reclaims
    strategy: Strategy | UnsetType = UNSET
    if on_max_reclaims_reached is not UNSET:
        if on_max_reclaims_reached not in STRATEGIES:
            raise InvalidOption(
                f"on_max_reclaims_reached is {on_max_reclaims_reached!r}: "
                f"use one of {', '.join(STRATEGIES)}.",
                option="on_max_reclaims_reached",
            )
        strategy = on_max_reclaims_reached
    return ProcChanges(
        max_reclaims=limit,
        reclaim_timeout=reclaim_timeout_ms,
        on_max_reclaims_reached=strategy,
    )


def changed(state: ProcState, wanted: ProcChanges) -> ProcState:
    """The proc with new settings."""
    fields = {
        field: value
        for field in ProcChanges.__struct_fields__
        if (value := getattr(wanted, field)) is not UNSET
    }
    return replace(state, **fields)


def window(state: ProcState, low: int, count: int) -> int:
    """The last seq of a claim of up to ``count`` records from ``low`` on."""
    if state.isolate_to is not None and low <= state.isolate_to:
        count = 1
    high = low + count - 1
    for seq in state.skipped:
        if low <= seq <= high:
            high += 1
    return high


def seen(state: ProcState, now: int) -> ProcState:
    """The proc, used now: one that lives only while it is used lives a while longer."""
    return state if state.ttl is None else replace(state, expires_at=now + state.ttl)


def deadline(state: ProcState, now: int) -> int | None:
    """When a claim made or extended now runs out."""
    return None if state.reclaim_timeout is None else now + state.reclaim_timeout


def claimed(state: ProcState, hold: Hold, first_id: str, last_id: str, now: int) -> ProcState:
    """The proc after it handed out ``hold``."""
    return replace(
        seen(state, now),
        cursor=hold.first_seq,
        last_claimed_at=now,
        previous_claimed_range=state.last_claimed_range,
        last_claimed_range=range_text(first_id, last_id),
    )


def acked(state: ProcState, hold: Hold, outcome: str, now: int) -> ProcState:
    """The proc after ``hold`` was acknowledged; ``outcome`` answers a repeated ack."""
    return replace(
        _advanced(seen(state, now), hold.last_seq + 1),
        last_acked_at=now,
        last_acked_range=state.last_claimed_range,
        reclaims=0,
        last_error=None,
        last_acked_token=hold.token,
        last_ack=outcome,
    )


def narrowed(state: ProcState, hold: Hold, last_id: str) -> tuple[ProcState, Hold]:
    """The proc and its claim as if only the records up to ``last_id`` had been handed out."""
    last_seq = int(last_id.rpartition("-")[2])
    _check_handed_out(state, hold, last_seq, "last_id")
    first_id = state.last_claimed_range.partition("..")[0]
    return (
        replace(state, last_claimed_range=range_text(first_id, last_id)),
        Hold(hold.token, hold.first_seq, last_seq, hold.deadline),
    )


def reclaimed(
    state: ProcState, hold: Hold, *, failed: int | None, error: str | None
) -> tuple[ProcState, int | None]:
    """The proc after ``hold`` was given back, and the record that became a dead letter.

    At the limit the strategy decides. ``dead_letter`` needs to know the culprit: the
    failed record if it was named, or the only one of the claim; with several suspects the
    proc hands them out one by one from now on, so that only the culprit dies.
    """
    _check_handed_out(state, hold, failed, "failed")
    reclaims = state.reclaims + 1
    state = replace(
        state,
        reclaims=reclaims,
        last_claimed_range=state.previous_claimed_range,
        last_error=error,
    )
    is_reached = state.max_reclaims != NO_LIMIT and reclaims >= state.max_reclaims
    if not is_reached or state.on_max_reclaims_reached == "continue":
        return state, None
    if state.on_max_reclaims_reached == "disable":
        return replace(state, status="disabled"), None
    culprit = failed if failed is not None else _only_suspect(state, hold)
    if culprit is None:
        return replace(state, reclaims=0, isolate_to=hold.last_seq), None
    state = replace(state, reclaims=0, skipped=tuple(sorted({*state.skipped, culprit})))
    return _advanced(state, hold.first_seq), culprit


def switched(state: ProcState, status: Status) -> ProcState:
    """The proc disabled or resumed; to resume forgives its reclaims."""
    return replace(state, status=status, reclaims=0 if status == "active" else state.reclaims)


def needs_from(state: ProcState) -> int | None:
    """The first seq collection must leave for this proc; None if it needs no old record.

    PipeProc's rule: a proc keeps the range it claimed before the last one. Never more than
    it has acked is let go, whatever its status.
    """
    if state.cursor is None:
        return None
    kept = state.previous_claimed_range or state.last_claimed_range
    if not kept:
        return state.cursor
    return min(state.cursor, int(kept.partition("..")[0].rpartition("-")[2]))


def sought(state: ProcState, offset: str, cursor: int | None) -> ProcState:
    """The proc moved by hand to ``offset``."""
    return replace(
        state,
        offset=offset,
        cursor=cursor,
        last_claimed_range=state.last_acked_range,
        previous_claimed_range="",
        reclaims=0,
        skipped=(),
        isolate_to=None,
        last_acked_token=None,
        last_ack=None,
    )


def lag(state: ProcState, position: int, next_seq: int, oldest_ts: int | None, now: int) -> Lag:
    """How far the proc is behind, given where it stands and the oldest record it has not acked."""
    waiting = next_seq - position - sum(position <= seq < next_seq for seq in state.skipped)
    if waiting <= 0 or oldest_ts is None:
        return Lag(0, 0.0)
    return Lag(waiting, max(0, now - oldest_ts) / 1000)


def info(state: ProcState, hold: Hold | None, position: int | None) -> ProcInfo:
    """The outside view of a proc."""
    return ProcInfo(
        name=state.name,
        topic=state.topic,
        offset=state.offset,
        status=state.status,
        created_at=_moment(state.created_at),
        last_claimed_at=_moment(state.last_claimed_at) if state.last_claimed_at else None,
        last_acked_at=_moment(state.last_acked_at) if state.last_acked_at else None,
        last_claimed_range=state.last_claimed_range,
        last_acked_range=state.last_acked_range,
        previous_claimed_range=state.previous_claimed_range,
        reclaims=state.reclaims,
        max_reclaims=state.max_reclaims,
        reclaim_timeout=None if state.reclaim_timeout is None else state.reclaim_timeout / 1000,
        on_max_reclaims_reached=state.on_max_reclaims_reached,
        last_error=state.last_error,
        position=position,
        claimed=state.last_claimed_range if hold else None,
        claimed_until=_moment(hold.deadline) if hold and hold.deadline is not None else None,
    )


def _advanced(state: ProcState, cursor: int) -> ProcState:
    skipped = set(state.skipped)
    while cursor in skipped:
        cursor += 1
    isolate_to = state.isolate_to
    return replace(
        state,
        cursor=cursor,
        skipped=tuple(seq for seq in state.skipped if seq > cursor),
        isolate_to=None if isolate_to is None or cursor > isolate_to else isolate_to,
    )


def _check_handed_out(state: ProcState, hold: Hold, seq: int | None, option: str) -> None:
    if seq is None:
        return
    if not hold.first_seq <= seq <= hold.last_seq or seq in state.skipped:
        raise InvalidOption(
            f"record :{seq} is not in this claim of proc {state.name!r}: "
            "name one of the records that were handed out.",
            option=option,
        )


def _only_suspect(state: ProcState, hold: Hold) -> int | None:
    dead = set(state.skipped)
    suspects = [s for s in range(hold.first_seq, hold.last_seq + 1) if s not in dead]
    return suspects[0] if len(suspects) == 1 else None


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
