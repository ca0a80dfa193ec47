"""The outcomes that a handler may return for an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.contract.items import Outcome
from headrace.core.documents import Commit, Push
from headrace.core.outcomes import OutcomeKind
from headrace.core.outcomes import outcome as encoded_outcome
from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import Failure, failure_of
from headrace.model.queues.items import ItemState
from headrace.model.times import Duration, Moment, delay_ms, moment_ms

Error = str | BaseException | Failure | None


Follow = Push | Commit


class HandlerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What all outcomes have. ``then`` is done in the same transaction as the outcome;
    ``payload`` replaces the item's own."""

    then: Follow | Sequence[Follow] = ()
    payload: Any = UNSET


class Complete(HandlerOutcome, frozen=True, kw_only=True):
    """The item is done."""


class Reschedule(HandlerOutcome, frozen=True, kw_only=True):
    """The item runs again: ``at`` a time, after a ``delay``, or as its queue says."""

    at: Moment | None = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        _check_times(self.at, self.delay)


class Reject(HandlerOutcome, frozen=True):
    """The item failed. It runs again at the time that is given, or as its queue says; it is dead
    when it had all its attempts."""

    error: Error = None
    at: Moment | None = None
    delay: Duration | None = None

    def __post_init__(self) -> None:
        _check_times(self.at, self.delay)


class Kill(HandlerOutcome, frozen=True):
    """The item is dead immediately: it would never succeed."""

    error: Error = None


class Drop(HandlerOutcome, frozen=True, kw_only=True):
    """The item is deleted, and its subject is free."""


class Release(HandlerOutcome, frozen=True, kw_only=True):
    """The item is pending again as if it had not been claimed. No attempt is counted."""


class RetryAfter(HandlerOutcome, frozen=True):
    """The item is released, and no item of its channel runs before a time: after a ``delay``,
    or ``at`` a moment. For an API that asks all users of a key to wait. No attempt is counted.
    An item in no channel waits alone."""

    delay: Duration | None = None
    at: Moment | None = None

    def __post_init__(self) -> None:
        _check_times(self.at, self.delay)
        if self.at is None and self.delay is None:
            raise InvalidOption("RetryAfter needs a time: give delay or at.", option="delay")


class RetryLater(Exception):
    """Raise it where a handler cannot return ``RetryAfter``: it means the same."""

    def __init__(self, delay: Duration | None = None, *, at: Moment | None = None) -> None:
        self.outcome = RetryAfter(delay, at)
        super().__init__(f"retry {f'after {delay}' if at is None else f'at {at}'}")


COMPLETE, RELEASE = Complete(), Release()

KINDS: Mapping[type[HandlerOutcome], OutcomeKind] = {
    Complete: "complete",
    Reschedule: "reschedule",
    Reject: "reject",
    Kill: "kill",
    Drop: "drop",
    Release: "release",
    RetryAfter: "delay_channel",
}


def stored_outcome(
    item: ItemState, outcome: HandlerOutcome, *, max_body: int = DEFAULT_MAX_BODY
) -> Outcome:
    """The outcome in the form that a store expects; ``InvalidInput`` for what cannot be stored."""
    token = item.token or ""
    if outcome is COMPLETE:
        return Outcome(item=item.id, token=token, kind="complete")
    if outcome is RELEASE:
        return Outcome(item=item.id, token=token, kind="release")
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
    """A failure, from a text or an exception."""
    return error if isinstance(error, Failure) else failure_of(error)


def _check_times(at: Moment | None, delay: Duration | None) -> None:
    """Raise ``InvalidOption`` where an outcome is made with wrong times."""
    if at is not None and delay is not None:
        raise InvalidOption("give at or delay, not both.", option="at")
    if at is not None:
        moment_ms("at", at)
    if delay is not None:
        delay_ms("delay", delay)
