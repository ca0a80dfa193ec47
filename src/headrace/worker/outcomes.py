"""What a handler may say of an item by returning it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.contract.items import Outcome as Told
from headrace.core.documents import Commit, Push
from headrace.core.outcomes import Said
from headrace.core.outcomes import outcome as encoded_outcome
from headrace.core.times import Duration, Moment, duration_ms, moment_ms
from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import Failure, failure_of
from headrace.model.items import ItemState

Error = str | BaseException | Failure | None


Follow = Push | Commit


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What all outcomes have. ``then`` happens in the same transaction, if the outcome counts;
    ``payload`` replaces the item's own."""

    then: Follow | Sequence[Follow] = ()
    payload: Any = UNSET


class Complete(Outcome, frozen=True, kw_only=True):
    """The item is done."""


class Reschedule(Outcome, frozen=True, kw_only=True):
    """The item runs again: ``at`` a time, after a ``delay``, or as its queue says."""

    at: Moment | None = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        _check_times(self.at, self.delay)


class Reject(Outcome, frozen=True):
    """The item failed. It runs again at the time that is given, or as its queue says; it is dead
    when it had all its attempts."""

    error: Error = None
    at: Moment | None = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        _check_times(self.at, self.delay)


class Kill(Outcome, frozen=True):
    """The item is dead at once: it would never succeed."""

    error: Error = None


class Drop(Outcome, frozen=True, kw_only=True):
    """The item is gone without a trace, and its subject is free."""


class Release(Outcome, frozen=True, kw_only=True):
    """The item is handed back as if it had not been claimed. Nothing is counted."""


class RetryAfter(Outcome, frozen=True):
    """The item is handed back, and nothing of its channel runs before a time: after a ``delay``,
    or ``at`` a moment. For an API that says so to all who use the same key. No attempt is
    counted. An item in no channel waits alone."""

    delay: Duration | None = None
    at: Moment | None = None

    def __post_init__(self) -> None:
        _check_times(self.at, self.delay)
        if self.at is None and self.delay is None:
            raise InvalidOption("RetryAfter needs a time: give delay or at.", option="delay")


class RetryLater(Exception):
    """To be raised where a handler cannot return: it means the same as ``RetryAfter``."""

    def __init__(self, delay: Duration | None = None, *, at: Moment | None = None) -> None:
        self.outcome = RetryAfter(delay, at)
        super().__init__(f"retry {f'after {delay}' if at is None else f'at {at}'}")


COMPLETE, RELEASE = Complete(), Release()

KINDS: Mapping[type[Outcome], Said] = {
    Complete: "complete",
    Reschedule: "reschedule",
    Reject: "reject",
    Kill: "kill",
    Drop: "drop",
    Release: "release",
    RetryAfter: "hold",
}


def said(item: ItemState, outcome: Outcome, *, max_body: int = DEFAULT_MAX_BODY) -> Told:
    """The outcome as a store takes it; ``InvalidInput`` for what cannot be stored."""
    token = item.token or ""
    if outcome is COMPLETE:
        return Told(item=item.id, token=token, kind="complete")
    if outcome is RELEASE:
        return Told(item=item.id, token=token, kind="release")
    at, delay = None, None
    if isinstance(outcome, Reschedule | Reject | RetryAfter):
        at, delay = outcome.at, outcome.delay
    error = outcome.error if isinstance(outcome, Reject | Kill) else None
    return encoded_outcome(
        item.id,
        token,
        KINDS[type(outcome)],
        payload=outcome.payload,
        at=at,
        delay=delay,
        error=error,
        then=outcome.then,
        max_body=max_body,
    )


def failure_from(error: str | BaseException | Failure) -> Failure:
    """A failure, from whatever a handler has at hand."""
    return error if isinstance(error, Failure) else failure_of(error)


def _check_times(at: Moment | None, delay: Duration | None) -> None:
    """Said wrongly, it is told where it is said."""
    if at is not None and delay is not None:
        raise InvalidOption("give at or delay, not both.", option="at")
    if at is not None:
        moment_ms("at", at)
    if delay is not None:
        duration_ms("delay", delay)
