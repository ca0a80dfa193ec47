"""What a handler may say of an item by returning it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from headrace.contract.items import Outcome as Said
from headrace.contract.items import PushCall
from headrace.contract.values import CommitCall
from headrace.core.commits import prepare
from headrace.errors import InvalidOption
from headrace.model.checks import milliseconds, positive, seconds_of
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import Failure, failure_of
from headrace.model.items import ItemState, Kind, Overrides
from headrace.model.names import check_queue
from headrace.model.queues import NO_LIMIT
from headrace.worker.items import Wait, document, encoded, when

Error = str | BaseException | Failure | None


class _Described(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of a push beside its payload."""

    subject: str | None = None
    priority: int = 0
    at: datetime | None = None
    delay: Wait | None = None
    headers: Mapping[str, str] | None = None
    max_attempts: int | None = None
    timeout: Wait | None = None
    mode: Literal["push", "upsert"] = "push"


class Push(_Described, frozen=True):
    """A push that happens together with an outcome, or not at all."""

    queue: str
    payload: Any


class Commit(msgspec.Struct, frozen=True):
    """A commit to a topic that happens together with an outcome, or not at all."""

    topic: str
    body: Any
    headers: Mapping[str, str] | None = None


Follow = Push | Commit | PushCall | CommitCall


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What all outcomes have. ``then`` happens in the same transaction, if the outcome counts;
    ``payload`` replaces the item's own."""

    then: Sequence[Follow] = ()
    payload: Any = UNSET


class Complete(Outcome, frozen=True, kw_only=True):
    """The item is done."""


class Reschedule(Outcome, frozen=True, kw_only=True):
    """The item runs again: ``at`` a time, after a ``delay``, or as its queue says."""

    at: datetime | None = None
    delay: Wait | None = None

    def __post_init__(self) -> None:
        when(self.at, self.delay)


class Reject(Outcome, frozen=True):
    """The item failed. It runs again at the time that is given, or as its queue says; it is dead
    when it had all its attempts."""

    error: Error = None
    at: datetime | None = None
    delay: Wait | None = None

    def __post_init__(self) -> None:
        when(self.at, self.delay)


class Kill(Outcome, frozen=True):
    """The item is dead at once: it would never succeed."""

    error: Error = None


class Drop(Outcome, frozen=True, kw_only=True):
    """The item is gone without a trace, and its subject is free."""


class Release(Outcome, frozen=True, kw_only=True):
    """The item is handed back as if it had not been claimed. Nothing is counted."""


COMPLETE, RELEASE = Complete(), Release()

KINDS: Mapping[type[Outcome], Kind] = {
    Complete: "complete",
    Reschedule: "reschedule",
    Reject: "reject",
    Kill: "kill",
    Drop: "drop",
    Release: "release",
}


def said(item: ItemState, outcome: Outcome, *, max_body: int = DEFAULT_MAX_BODY) -> Said:
    """The outcome as a store takes it; ``InvalidInput`` for what cannot be stored."""
    token = item.token or ""
    if outcome is COMPLETE:
        return Said(item=item.id, token=token, kind="complete")
    if outcome is RELEASE:
        return Said(item=item.id, token=token, kind="release")
    payload, format = None, 0
    if outcome.payload is not UNSET:
        payload, format = encoded(outcome.payload, max_body=max_body)
    due, delay = None, None
    if isinstance(outcome, Reschedule | Reject):
        due, delay = when(outcome.at, outcome.delay)
    failure = None
    if isinstance(outcome, Reject | Kill) and outcome.error is not None:
        failure = failure_from(outcome.error)
    commits, pushes = _followed(outcome.then, max_body)
    return Said(
        item=item.id,
        token=token,
        kind=KINDS[type(outcome)],
        payload=payload,
        format=format,
        due=due,
        delay_ms=delay,
        failure=failure,
        chance=random.random(),
        commits=commits,
        pushes=pushes,
    )


def failure_from(error: str | BaseException | Failure) -> Failure:
    """A failure, from whatever a handler has at hand."""
    return error if isinstance(error, Failure) else failure_of(error)


def _followed(
    then: Sequence[Follow], max_body: int
) -> tuple[tuple[CommitCall, ...], tuple[PushCall, ...]]:
    commits, pushes = [], []
    for follow in (then,) if isinstance(then, Follow) else then:
        match follow:
            case CommitCall():
                commits.append(follow)
            case PushCall():
                pushes.append(follow)
            case Commit():
                entry = (follow.topic, follow.body, follow.headers)
                commits.append(prepare([entry], max_body=max_body).call)
            case Push():
                pushes.append(push_call(follow, max_body=max_body))
            case _:
                raise InvalidOption(
                    f"then has {follow!r:.80}: use Push(queue, payload) and Commit(topic, body).",
                    option="then",
                )
    return tuple(commits), tuple(pushes)


def push_call(push: Push, *, max_body: int = DEFAULT_MAX_BODY) -> PushCall:
    """A push as a store takes it; ``InvalidInput`` for what cannot be stored."""
    what = document(
        push.payload,
        subject=push.subject,
        priority=push.priority,
        at=push.at,
        delay=push.delay,
        headers=push.headers,
        overrides=_overrides(push),
        max_body=max_body,
    )
    return PushCall(queue=check_queue(push.queue), documents=(what,), mode=push.mode)


def _overrides(push: Push) -> Overrides | None:
    if push.max_attempts is None and push.timeout is None:
        return None
    if push.max_attempts is not None and push.max_attempts != NO_LIMIT:
        positive("max_attempts", push.max_attempts)
    timeout = milliseconds("timeout", push.timeout)
    return Overrides(max_attempts=push.max_attempts, timeout=seconds_of(timeout))
