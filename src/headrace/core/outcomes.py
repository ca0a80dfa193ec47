"""Outcome requests: from a user's arguments to an ``Outcome``."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import UNSET

from headrace.contract.items import Outcome, PushCall
from headrace.contract.values import CommitCall
from headrace.core.commits import prepare
from headrace.core.documents import Commit, Push, document, payload_text
from headrace.core.pushes import push_call
from headrace.errors import InvalidOption
from headrace.model.failures import Failure, failure_of
from headrace.model.fields import shown
from headrace.model.queues.items import JSON, Kind
from headrace.model.times import Duration, Moment, delay_ms, moment_ms

KINDS = ("complete", "reschedule", "reject", "kill", "drop", "release", "delay_channel")
TIMED = ("reschedule", "reject", "delay_channel")

OutcomeKind = Kind | Literal["delay_channel"]
"""Outcomes that users choose from; ``delay_channel`` releases the item and delays its channel."""

Then = Commit | Push | Iterable[Commit | Push]
"""Commits and pushes that are written together with an outcome: one step, or several."""


def outcomes_of(outcomes: object) -> list[Any]:
    """Outcomes as users give them to ``settle``, in a list."""
    if not isinstance(outcomes, Iterable) or isinstance(outcomes, (str, bytes, Mapping)):
        raise InvalidOption(
            f"outcomes is {shown(outcomes)}: give a list, as in [item.outcome('complete')].",
            option="outcomes",
        )
    return list(outcomes)


def outcome(
    item: int,
    token: str,
    kind: OutcomeKind,
    *,
    payload: Any = UNSET,
    at: Moment | None = None,
    delay: Duration | None = None,
    error: BaseException | Failure | str | None = None,
    then: Then = (),
    max_body: int,
) -> Outcome:
    """Check and encode the outcome of one item."""
    if kind not in KINDS:
        raise InvalidOption(f"{shown(kind)} is no outcome: use {', '.join(KINDS)}.", option="kind")
    if at is not None and delay is not None:
        raise InvalidOption("give at or delay, not both.", option="at")
    if (at is not None or delay is not None) and kind not in TIMED:
        raise InvalidOption(f"{kind} takes no time: the item does not wait.", option="at")
    if at is None and delay is None and kind == "delay_channel":
        raise InvalidOption("delay_channel needs a time: give at or delay.", option="delay")
    text, form = (None, JSON) if payload is UNSET else payload_text(payload, max_body=max_body)
    commits, pushes = _following(then, max_body)
    due = None if at is None else moment_ms("at", at)
    wait = None if delay is None else delay_ms("delay", delay)
    if kind == "delay_channel":
        return Outcome(
            item=item,
            token=token,
            kind="release",
            commits=commits,
            pushes=pushes,
            channel_delay_until=due,
            channel_delay_ms=wait,
        )
    return Outcome(
        item=item,
        token=token,
        kind=kind,
        payload=text,
        format=form,
        due=due,
        delay_ms=wait,
        failure=_failure(error),
        chance=random.random() if kind == "reject" else 0.0,
        commits=commits,
        pushes=pushes,
    )


def _failure(error: object) -> Failure | None:
    if error is None or isinstance(error, Failure):
        return error
    if isinstance(error, (str, BaseException)):
        return failure_of(error)
    raise InvalidOption(
        f"error is {shown(error)}: give an exception, a text or a Failure.", option="error"
    )


def _following(then: Then, max_body: int) -> tuple[tuple[CommitCall, ...], tuple[PushCall, ...]]:
    if not then:
        return (), ()
    entries, pushes = [], []
    for step in _steps(then):
        if isinstance(step, Commit):
            entries.append((step.topic, step.body, step.headers))
        elif isinstance(step, Push):
            pushes.append(_push(step, max_body))
        else:
            raise _no_step(step)
    commits = (prepare(entries, max_body=max_body).call,) if entries else ()
    return commits, tuple(pushes)


def _steps(then: Then) -> Iterable[Commit | Push]:
    if isinstance(then, (Commit, Push)):
        return (then,)
    if not isinstance(then, Iterable):
        raise _no_step(then)
    return then


def _no_step(step: object) -> InvalidOption:
    return InvalidOption(
        f"then has {shown(step)}: it is a list of headrace.Commit and headrace.Push.",
        option="then",
    )


def _push(step: Push, max_body: int) -> PushCall:
    one = document(step, max_body=max_body)
    return push_call(step.queue, (one,), mode=step.mode, while_active=step.while_active)
