"""Procs: their stored state, and every rule by which it changes, as pure functions.

A driver loads a ``ProcState`` and its ``OutstandingClaim`` under a lock, asks a function here for
the next state, and stores the answer. So all drivers decide alike.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from headrace.errors import InvalidOption
from headrace.model.checks import MAX_COUNT
from headrace.model.fields import shown
from headrace.model.topics.positions import range_text

Status = Literal["active", "disabled"]
Strategy = Literal["disable", "continue", "dead_letter"]
STRATEGIES: tuple[Strategy, ...] = ("disable", "continue", "dead_letter")

NO_LIMIT = -1
DEFAULT_MAX_ATTEMPTS = 10
DEFAULT_LEASE_MS = 10_000
TIMED_OUT = "the claim expired"


class ProcState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a proc, apart from its outstanding claim.

    ``cursor`` is the first seq of the next claim; None while its offset lies beyond the end of
    the topic and cannot be turned into a seq yet. ``attempts`` counts the failed ones since the
    last ack, and ``on_exhausted`` is the strategy at ``max_attempts`` of them. ``lease`` is how
    long a claim lasts, in milliseconds, None for no end. ``skipped`` are dead-lettered records
    ahead of the cursor. Up to ``isolate_to`` records are claimed one by one, to find
    the one among them that fails. ``turn`` orders procs that claimed in the same millisecond,
    where one claim chooses among several. Maintenance removes a proc with a ``ttl`` that was not
    used until ``expires_at``.
    """

    name: str
    topic: str
    offset: str
    cursor: int | None
    created_at: int
    status: Status = "active"
    last_claimed_at: int = 0
    turn: int = 0
    last_acked_at: int = 0
    last_claimed_range: str = ""
    last_acked_range: str = ""
    previous_claimed_range: str = ""
    attempts: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    lease: int | None = DEFAULT_LEASE_MS
    on_exhausted: Strategy = "disable"
    last_error: str | None = None
    skipped: tuple[int, ...] = ()
    isolate_to: int | None = None
    last_acked_token: str | None = None
    last_ack: str | None = None
    ttl: int | None = None
    expires_at: int | None = None


class OutstandingClaim(msgspec.Struct, frozen=True):
    """An outstanding claim on the records from ``first_seq`` to ``last_seq``."""

    token: str
    first_seq: int
    last_seq: int
    deadline: int | None

    def is_over(self, now: int) -> bool:
        """Whether the claim is past its deadline. It stays valid until another claim replaces it."""
        return self.deadline is not None and now >= self.deadline


class ProcChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Settings to change; those that are unset stay. Times are in milliseconds."""

    max_attempts: int | UnsetType = UNSET
    lease: int | UnsetType | None = UNSET
    on_exhausted: Strategy | UnsetType = UNSET


class ProcInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A proc as users see it.

    ``attempts`` counts the failed ones since the last ack. ``lease`` is in seconds, None for claims
    that do not expire.
    """

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
    attempts: int
    max_attempts: int
    lease: float | None
    on_exhausted: Strategy
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
    max_attempts: int | UnsetType = UNSET,
    lease_ms: int | UnsetType | None = UNSET,
    on_exhausted: object = UNSET,
) -> ProcChanges:
    """Check settings of a proc."""
    limit: int | UnsetType = UNSET
    if max_attempts is not UNSET:
        is_number = isinstance(max_attempts, int) and not isinstance(max_attempts, bool)
        is_valid = is_number and (1 <= max_attempts <= MAX_COUNT or max_attempts == NO_LIMIT)
        if not is_valid:
            raise InvalidOption(
                f"max_attempts is {shown(max_attempts)}: use 1 or more, or -1 for no limit.",
                option="max_attempts",
            )
        limit = max_attempts
    strategy: Strategy | UnsetType = UNSET
    if on_exhausted is not UNSET:
        if on_exhausted not in STRATEGIES:
            raise InvalidOption(
                f"on_exhausted is {shown(on_exhausted)}: use one of {', '.join(STRATEGIES)}.",
                option="on_exhausted",
            )
        strategy = on_exhausted
    return ProcChanges(
        max_attempts=limit,
        lease=lease_ms,
        on_exhausted=strategy,
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
    """The proc after it was used: one with a ``ttl`` expires later."""
    return state if state.ttl is None else replace(state, expires_at=now + state.ttl)


def deadline(state: ProcState, now: int) -> int | None:
    """When a claim made or extended now expires."""
    return None if state.lease is None else now + state.lease


def turn(state: ProcState) -> tuple[int, int]:
    """The order among procs that one claim may choose from: the lowest is the next."""
    return state.last_claimed_at, state.turn


def claimed(
    state: ProcState,
    claim: OutstandingClaim,
    first_id: str,
    last_id: str,
    now: int,
    turn: int | None = None,
) -> ProcState:
    """The proc after a claim on it; with a ``turn`` if the claim chose it among several procs."""
    return replace(
        seen(state, now),
        cursor=claim.first_seq,
        last_claimed_at=now,
        turn=state.turn if turn is None else turn,
        previous_claimed_range=state.last_claimed_range,
        last_claimed_range=range_text(first_id, last_id),
    )


def acked(state: ProcState, claim: OutstandingClaim, outcome: str, now: int) -> ProcState:
    """The proc after its claim was acked; ``outcome`` is the answer to a repeated ack."""
    return replace(
        _advanced(seen(state, now), claim.last_seq + 1),
        last_acked_at=now,
        last_acked_range=state.last_claimed_range,
        attempts=0,
        last_error=None,
        last_acked_token=claim.token,
        last_ack=outcome,
    )


def narrowed(
    state: ProcState, claim: OutstandingClaim, last_id: str
) -> tuple[ProcState, OutstandingClaim]:
    """The proc and its claim as if only the records up to ``last_id`` had been claimed."""
    last_seq = int(last_id.rpartition("-")[2])
    _check_in_claim(state, claim, last_seq, "last_id")
    first_id = state.last_claimed_range.partition("..")[0]
    return (
        replace(state, last_claimed_range=range_text(first_id, last_id)),
        OutstandingClaim(claim.token, claim.first_seq, last_seq, claim.deadline),
    )


def nacked(
    state: ProcState,
    claim: OutstandingClaim,
    *,
    failed: int | None,
    error: str | None,
    is_final: bool = False,
) -> tuple[ProcState, int | None]:
    """The proc after its claim was nacked, and the record that became a dead letter.

    At the limit the strategy decides. ``dead_letter`` needs to know the culprit: the
    failed record if it was named, or the only one of the claim. With several suspects the
    records are claimed one by one from now on, so that only the culprit becomes a dead letter. A
    failure that ``is_final`` makes a dead letter of the failed record, whatever the limit and the
    strategy.
    """
    _check_in_claim(state, claim, failed, "failed")
    attempts = state.attempts + 1
    state = replace(
        state,
        attempts=attempts,
        last_claimed_range=state.previous_claimed_range,
        last_error=error,
    )
    if is_final and failed is not None:
        return _dropped(state, claim, failed), failed
    is_reached = state.max_attempts != NO_LIMIT and attempts >= state.max_attempts
    if not is_reached or state.on_exhausted == "continue":
        return state, None
    if state.on_exhausted == "disable":
        return replace(state, status="disabled"), None
    culprit = failed if failed is not None else _only_suspect(state, claim)
    if culprit is None:
        return replace(state, attempts=0, isolate_to=claim.last_seq), None
    return _dropped(state, claim, culprit), culprit


def _dropped(state: ProcState, claim: OutstandingClaim, culprit: int) -> ProcState:
    """The proc without one record of the nacked claim."""
    state = replace(state, attempts=0, skipped=tuple(sorted({*state.skipped, culprit})))
    return _advanced(state, claim.first_seq)


def switched(state: ProcState, status: Status) -> ProcState:
    """The proc disabled or resumed; resuming resets its attempts."""
    return replace(state, status=status, attempts=0 if status == "active" else state.attempts)


def needs_from(state: ProcState) -> int | None:
    """The first seq that retention must keep for this proc; None if it needs no old record.

    A proc keeps the range it claimed before the last one. Records that it has
    not acked are kept, whatever its status.
    """
    if state.cursor is None:
        return None
    kept = state.previous_claimed_range or state.last_claimed_range
    if not kept:
        return state.cursor
    return min(state.cursor, int(kept.partition("..")[0].rpartition("-")[2]))


def sought(state: ProcState, offset: str, cursor: int | None) -> ProcState:
    """The proc moved to ``offset`` by seek."""
    return replace(
        state,
        offset=offset,
        cursor=cursor,
        last_claimed_range=state.last_acked_range,
        previous_claimed_range="",
        attempts=0,
        skipped=(),
        isolate_to=None,
        last_acked_token=None,
        last_ack=None,
    )


def lag(state: ProcState, position: int, next_seq: int, oldest_ts: int | None, now: int) -> Lag:
    """How far the proc is behind, given its position and the oldest record it has not acked."""
    waiting = next_seq - position - sum(position <= seq < next_seq for seq in state.skipped)
    if waiting <= 0 or oldest_ts is None:
        return Lag(0, 0.0)
    return Lag(waiting, max(0, now - oldest_ts) / 1000)


def info(state: ProcState, claim: OutstandingClaim | None, position: int | None) -> ProcInfo:
    """A proc for the user."""
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
        attempts=state.attempts,
        max_attempts=state.max_attempts,
        lease=None if state.lease is None else state.lease / 1000,
        on_exhausted=state.on_exhausted,
        last_error=state.last_error,
        position=position,
        claimed=state.last_claimed_range if claim else None,
        claimed_until=_moment(claim.deadline) if claim and claim.deadline is not None else None,
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


def _check_in_claim(
    state: ProcState, claim: OutstandingClaim, seq: int | None, option: str
) -> None:
    if seq is None:
        return
    if not claim.first_seq <= seq <= claim.last_seq or seq in state.skipped:
        raise InvalidOption(
            f"record :{seq} is not in this claim of proc {shown(state.name)}: "
            "name one of its records.",
            option=option,
        )


def _only_suspect(state: ProcState, claim: OutstandingClaim) -> int | None:
    dead = set(state.skipped)
    suspects = [s for s in range(claim.first_seq, claim.last_seq + 1) if s not in dead]
    return suspects[0] if len(suspects) == 1 else None


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
