"""How the outcome of a claim changes its item: one decision for all drivers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, assert_never

import msgspec

from headrace.model.failures import Failure
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import ItemState, Kind, Verdict
from headrace.model.queues.settings import QueueSettings

COUNTS: Mapping[Kind, Mapping[str, int]] = {
    "complete": {"processed": 1},
    "reschedule": {"processed": 1, "rescheduled": 1},
    "reject": {"processed": 1, "rejected": 1},
    "kill": {"processed": 1},
    "drop": {"processed": 1, "dropped": 1},
    "release": {},
}
"""What each kind of outcome adds to the metrics of its queue."""


class ItemOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an outcome that concerns the item alone. For the fields see ``Outcome``."""

    kind: Kind
    payload: str | None = None
    format: int = 0
    due: int | None = None
    delay_ms: int | None = None
    failure: Failure | None = None
    chance: float = 0.0
    channel_delay_until: int | None = None
    channel_delay_ms: int | None = None

    def due_at(self, now: int) -> int | None:
        """The requested due time; None leaves it to the settings of the queue."""
        if self.due is None and self.delay_ms is not None:
            return now + self.delay_ms
        return self.due

    def channel_delayed_until(self, now: int) -> int | None:
        """The time before which nothing of the item's channel runs; None: no delay."""
        if self.channel_delay_ms is not None:
            return now + self.channel_delay_ms
        return self.channel_delay_until


class AppliedOutcome(NamedTuple):
    """What a driver has to store: the item, the metrics, and a failure to log, if any."""

    verdict: Verdict
    counts: Mapping[str, int]
    failure: Failure | None


def apply_outcome(
    item: ItemState, outcome: ItemOutcome, settings: QueueSettings, now: int
) -> AppliedOutcome:
    """Decide what becomes of a claimed item. The driver has checked that the claim is valid."""
    failure = None if outcome.kind == "release" else outcome.failure
    if failure is None and outcome.kind == "reject":
        failure = Failure()
    return AppliedOutcome(_verdict(item, outcome, settings, now), COUNTS[outcome.kind], failure)


def _verdict(item: ItemState, outcome: ItemOutcome, settings: QueueSettings, now: int) -> Verdict:
    payload = None if outcome.payload is None else (outcome.payload, outcome.format)
    match outcome.kind:
        case "complete":
            return rules.completed(item, now, payload)
        case "reschedule":
            due = outcome.due_at(now)
            if due is None:
                due = now + round(settings.reschedule_delay * 1000)
            return rules.rescheduled(item, due, now, payload)
        case "reject":
            return rules.rejected(
                item,
                settings,
                now=now,
                due=outcome.due_at(now),
                chance=outcome.chance,
                failure=outcome.failure,
                payload=payload,
            )
        case "kill":
            return rules.killed(item, now, payload, outcome.failure)
        case "drop":
            return None
        case "release":
            until = outcome.channel_delayed_until(now)
            if until is None:
                return rules.released(item, now)
            return rules.released_until(item, until, now)
        case _:
            assert_never(outcome.kind)
