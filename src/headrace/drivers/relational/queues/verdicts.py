"""What an outcome makes of an item, and what is counted for it."""

from __future__ import annotations

from typing import assert_never

from headrace.contract.items import Outcome
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.model import items as rules
from headrace.model.failures import Failure
from headrace.model.items import ItemState, Verdict


def judged(ledger: Ledger, queue: QueueRow, item: ItemState, outcome: Outcome) -> Verdict:
    """What becomes of the item; what happened is entered in the ledger."""
    now = queue.now
    if outcome.kind == "release":
        until = outcome.held_until(now)
        return rules.released(item, now) if until is None else rules.held_back(item, until, now)
    settings, kind = queue.settings, outcome.kind
    payload = None if outcome.payload is None else (outcome.payload, outcome.format)
    failure, due = outcome.failure, outcome.due
    if due is None and outcome.delay_ms is not None:
        due = now + outcome.delay_ms
    if failure is not None or kind == "reject":
        ledger.log(queue, item, failure or Failure(), now)
    ledger.count(queue, processed=1)
    if kind == "complete":
        return rules.completed(item, now, payload)
    if kind == "reschedule":
        ledger.count(queue, rescheduled=1)
        if due is None:
            due = now + round(settings.reschedule_delay * 1000)
        return rules.rescheduled(item, due, now, payload)
    if kind == "reject":
        ledger.count(queue, rejected=1)
        return rules.rejected(
            item,
            settings,
            now=now,
            due=due,
            chance=outcome.chance,
            failure=failure,
            payload=payload,
        )
    if kind == "kill":
        return rules.killed(item, now, payload, failure)
    if kind == "drop":
        ledger.count(queue, dropped=1)
        return None
    assert_never(kind)
