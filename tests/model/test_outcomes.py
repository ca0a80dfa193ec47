"""An outcome decides alike in every driver: the item, the metrics and the logged failure."""

from __future__ import annotations

from typing import get_args

import pytest

from headrace.model.failures import Failure
from headrace.model.queues.items import Ended, ItemState, Kind, State
from headrace.model.queues.outcomes import COUNTS, ItemOutcome, apply_outcome
from headrace.model.queues.settings import QueueSettings

NOW = 1_000_000
BROKEN = Failure(type="ValueError", message="broken")


def item(**values: object) -> ItemState:
    claim = {"state": State.ACTIVE, "attempts": 1, "token": "t", "lease_until": NOW + 1}
    times = {"next_execution": NOW, "waiting_since": NOW, "created_at": NOW}
    return ItemState(id=1, queue="mail", payload="1", **(claim | times | values))


def test_every_kind_has_counts() -> None:
    assert set(COUNTS) == set(get_args(Kind))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_no_outcome_keeps_the_claim(kind: Kind) -> None:
    verdict = apply_outcome(item(), ItemOutcome(kind=kind), QueueSettings(), NOW).verdict
    after = verdict.item if isinstance(verdict, Ended) else verdict
    assert after is None or (after.token, after.lease_until) == (None, None)


@pytest.mark.parametrize(
    ("kind", "logged"),
    [("complete", None), ("kill", None), ("drop", None), ("reject", Failure()), ("release", None)],
)
def test_only_a_rejection_is_logged_without_a_failure(kind: Kind, logged: Failure | None) -> None:
    applied = apply_outcome(item(), ItemOutcome(kind=kind), QueueSettings(), NOW)
    assert applied.failure == logged


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_failure_is_logged_unless_the_item_was_not_touched(kind: Kind) -> None:
    applied = apply_outcome(item(), ItemOutcome(kind=kind, failure=BROKEN), QueueSettings(), NOW)
    assert applied.failure == (None if kind == "release" else BROKEN)


def test_a_rejection_without_a_failure_keeps_the_earlier_error() -> None:
    verdict = apply_outcome(
        item(error="earlier"), ItemOutcome(kind="reject"), QueueSettings(), NOW
    ).verdict
    assert isinstance(verdict, ItemState)
    assert verdict.error == "earlier"


@pytest.mark.parametrize(
    ("outcome", "due"),
    [
        (ItemOutcome(kind="reschedule"), NOW + 5_000),
        (ItemOutcome(kind="reschedule", delay_ms=70), NOW + 70),
        (ItemOutcome(kind="reschedule", due=NOW + 9, delay_ms=70), NOW + 9),
        (ItemOutcome(kind="reject"), NOW + 3_000),
        (ItemOutcome(kind="reject", delay_ms=70), NOW + 70),
        (ItemOutcome(kind="release"), NOW),
        (ItemOutcome(kind="release", channel_delay_ms=70), NOW + 70),
        (ItemOutcome(kind="release", channel_delay_until=NOW + 9), NOW + 9),
    ],
)
def test_the_outcome_or_else_the_queue_says_when_an_item_runs_again(
    outcome: ItemOutcome, due: int
) -> None:
    settings = QueueSettings(reschedule_delay=5, reject_delay=3)
    verdict = apply_outcome(item(), outcome, settings, NOW).verdict
    assert isinstance(verdict, ItemState)
    assert verdict.next_execution == due
