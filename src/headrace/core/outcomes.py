"""What is said of claimed items, as the store understands it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import UNSET

from headrace.contract.items import Outcome, PushCall
from headrace.contract.values import CommitCall
from headrace.core.commits import prepare
from headrace.core.documents import Commit, Push, document, payload_text
from headrace.core.pushes import push_call
from headrace.core.times import Duration, Moment, duration_ms, moment_ms
from headrace.errors import InvalidOption
from headrace.model.failures import Failure, failure_of
from headrace.model.items import JSON, Kind

KINDS = ("complete", "reschedule", "reject", "kill", "drop", "release", "hold")
TIMED = ("reschedule", "reject", "hold")

Said = Kind | Literal["hold"]
"""What can be said of an item; ``hold`` is to release it and to hold its channel."""

Then = Commit | Push | Iterable[Commit | Push]
"""What is written together with an outcome: one step, or several."""


def outcome(
    item: int,
    token: str,
    kind: Said,
    *,
    payload: Any = UNSET,
    at: Moment | None = None,
    delay: Duration | None = None,
    error: BaseException | Failure | str | None = None,
    then: Then = (),
    max_body: int,
) -> Outcome:
    """Check and encode what is said of one item."""
    if kind not in KINDS:
        raise InvalidOption(f"{kind!r} is no outcome: use {', '.join(KINDS)}.", option="kind")
    if at is not None and delay is not None:
        raise InvalidOption("give at or delay, not both.", option="at")
    if (at is not None or delay is not None) and kind not in TIMED:
        raise InvalidOption(f"{kind} takes no time: the item does not wait.", option="at")
    if at is None and delay is None and kind == "hold":
        raise InvalidOption("hold needs a time: give at or delay.", option="delay")
    text, form = (None, JSON) if payload is UNSET else payload_text(payload, max_body=max_body)
    commits, pushes = _following(then, max_body)
    due = None if at is None else moment_ms("at", at)
    wait = None if delay is None else duration_ms("delay", delay)
    if kind == "hold":
        return Outcome(
            item=item,
            token=token,
            kind="release",
            commits=commits,
            pushes=pushes,
            hold_until=due,
            hold_ms=wait,
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
        f"error is {error!r:.80}: give an exception, a text or a Failure.", option="error"
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
        f"then has {step!r:.80}: it is a list of headrace.Commit and headrace.Push.",
        option="then",
    )


def _push(step: Push, max_body: int) -> PushCall:
    one = document(step, max_body=max_body)
    return push_call(step.queue, (one,), mode=step.mode, while_active=step.while_active)
