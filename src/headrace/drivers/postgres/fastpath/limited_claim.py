"""Claims and completions in one statement each, where rules limit the items in flight.

The database stores for each channel which counters its items count in and which must have free
slots. It cannot compute that: Python matches the rules. A statement that meets channels without
counters at the current version answers ``unbound``. The client stores the counters of those
channels and sends the statement again.

A transaction that has counted must not make others wait for a flush. It commits without one, and
the client does not use its result before a separate statement has flushed it. A claim that expects
items sends that statement right behind, unless the client may confirm the claim later: then the
flush is part of the confirmation (``unflushed.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headrace.contract.items import ClaimRequest
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath.answers import ClaimAnswer
from headrace.drivers.postgres.fastpath.autocommit import autocommit_each
from headrace.drivers.postgres.fastpath.wal_flush import flush, flush_now
from headrace.drivers.postgres.round_trip import DIVIDER
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Autocommit, Statement
from headrace.model.limits.limit_set import NO_LIMITS, ChannelLimits, LimitSet

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# Between the id of a channel and its name.
NAMED = "\x1f"
# The queue itself, for items in no channel.
NO_CHANNEL = "0"
MAX_ATTEMPTS = 50
# For how long claims lock counters first, after a counter was full.
TIGHT_SECONDS = 1.0


class Counting(NamedTuple):
    """The rules by which a statement counts items that are claimed or completed."""

    limits: LimitSet
    # The version of the rules that channels must be bound to; 0 if no rule is about items in flight.
    version: int


NOT_COUNTING = Counting(NO_LIMITS, 0)


def counting(store: PostgresStore, queue: QueueRow) -> Steps[Counting | None]:
    """The rules about a queue's items, if one statement can count by them."""
    limits = yield from autocommit_each(store.context.storage.limits_of(queue))
    # Time refills a rate; only Python knows the rule for that, the database does not.
    if limits.has_rates(queue.name):
        return None
    return Counting(limits, queue.limit_version if limits.has(queue.name, "running") else 0)


Attempt = Callable[[bool, Statement | None], Steps[list[Any]]]
"""A claim; it gets whether to lock counters first, and what to send behind it."""


def claim(
    store: PostgresStore, queue: QueueRow, request: ClaimRequest, rules: Counting, attempt: Attempt
) -> Steps[list[Any]]:
    """The row of a claim, if there is one.

    Its counts are durable, unless the client may confirm the claim later.
    """
    known = store.queue_cache
    tight = known.tight
    waits = rules.version > 0 and not request.may_confirm
    for _ in range(MAX_ATTEMPTS):
        # Without an expected item there is nothing to flush: polling must not pay for it.
        behind = flush(store) if waits and queue.id in known.busy else None
        is_tight = rules.version > 0 and tight.get(queue.id, 0.0) > time.monotonic()
        rows = yield from attempt(is_tight, behind)
        word = rows[0]["answer"] if rows else None
        if word == ClaimAnswer.CROWDED and (is_tight or not rules.version):
            # No counter is the reason: the claim is too large for one answer.
            break
        if word == ClaimAnswer.CROWDED:
            tight[queue.id] = time.monotonic() + TIGHT_SECONDS
        elif word != ClaimAnswer.UNBOUND:
            if rules.version and rows and rows[0]["items"] is not None:
                known.busy.add(queue.id)
                if waits and behind is None:
                    yield from flush_now(store)
            else:
                known.busy.discard(queue.id)
            return rows
        elif not (yield from _bind(store, queue, rules.limits, rows[0].get("line"))):
            break
    # The rules have changed, or keep changing: the general path claims under locks.
    return []


def rows_of(answer: list[list[Any]] | None) -> list[Any]:
    """The row of a claim.

    None is the answer to a claim that aborted: a counter filled up meanwhile, or the items did not
    fit into one answer.
    """
    return [{"answer": ClaimAnswer.CROWDED, "items": None}] if answer is None else list(answer[0])


def _bind(store: PostgresStore, queue: QueueRow, limits: LimitSet, line: str | None) -> Steps[bool]:
    """Store what the rules say about channels; False if they have changed meanwhile."""
    named = [entry.partition(NAMED) for entry in line.split(DIVIDER)] if line else []
    channels = [(id, name or None) for id, _, name in named]
    found = {
        id: limits.bounds(queue.name, name, "running")
        for id, name in channels or [(NO_CHANNEL, None)]
    }
    places: dict[ChannelLimits, int] = {}
    entries = [places.setdefault(bounds, len(places) + 1) for bounds in found.values()]
    statement = store.sql.bind_channels(
        queue=queue.id,
        rule_version=limits.version,
        channels=",".join(found),
        entries=",".join(map(str, entries)),
        bounds=msgspec.json.encode(list(map(_written, places))).decode(),
    )
    [[row]] = yield Autocommit((statement,), reads=True)
    return bool(row["is_bound"])


def _written(bounds: ChannelLimits) -> dict[str, list[Any]]:
    checked = bounds.checked
    return {
        "counted": [counter.name for counter in bounds.counted],
        "checked": [check.counter.name if check.limit > 0 else None for check in checked],
        "max_used": [check.limit for check in checked],
    }
