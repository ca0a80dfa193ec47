"""Claims and completions in one statement each, where rules say how many items may be out.

The database knows of each channel which totals its items count in and which must have room; it
cannot work that out: the rules are matched here. So a statement that meets channels about which
that is not known, or no longer, says so; it is written down then, and the statement sent again.

A transaction that has counted must not make others wait for the disk. It does not wait itself,
and what it did is not used before a statement of its own has brought it there. Whoever expects
to get something sends that statement right behind, unless it is a claim that may be loose: then
it is sent by whoever begins with an item of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headrace.contract.items import Take
from headrace.contract.op import Steps
from headrace.drivers.postgres.alone import each_alone
from headrace.drivers.postgres.disk import flush, flush_now
from headrace.drivers.postgres.sending import DIVIDER
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Statement, Whole
from headrace.model.limiting import NO_LIMITS, Bounds, Limits

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# Between the id of a channel and its name.
NAMED = "\x1f"
# The queue itself, for items in no channel.
NO_CHANNEL = "0"
MOST_ATTEMPTS = 50
# For so long claims lock totals first, when there was no room for one of them.
TIGHT_SECONDS = 1.0


class Counting(NamedTuple):
    """The rules by which a statement counts what goes out, or comes back."""

    limits: Limits
    # What channels have to be bound by; 0 if no rule is about what is out.
    version: int


NOT_COUNTING = Counting(NO_LIMITS, 0)


def counting(store: PostgresStore, queue: QueueRow) -> Steps[Counting | None]:
    """The rules about a queue's items, if one statement can count by them."""
    limits = yield from each_alone(store.limits_of(queue))
    # Time gives room back to a rate, in a way that is known here and not in the database.
    if limits.has_rates(queue.name):
        return None
    return Counting(limits, queue.limits if limits.has(queue.name, "running") else 0)


Attempt = Callable[[bool, Statement | None], Steps[list[Any]]]
"""A claim, which is told whether to lock totals first, and what to send behind it."""


def claim(
    store: PostgresStore, queue: QueueRow, take: Take, rules: Counting, attempt: Attempt
) -> Steps[list[Any]]:
    """The row of a claim, if there is one; what it has counted is on the disk, unless it may be
    loose."""
    known = store.known
    tight = known.tight
    waits = rules.version > 0 and not take.may_be_loose
    for _ in range(MOST_ATTEMPTS):
        # In vain it would wait for the disk for nothing, each time that somebody looks.
        behind = flush(store) if waits and queue.id in known.busy else None
        is_tight = rules.version > 0 and tight.get(queue.id, 0.0) > time.monotonic()
        rows = yield from attempt(is_tight, behind)
        word = rows[0]["held"] if rows else None
        if word == "crowded" and is_tight:
            # With the totals in hand nobody can be faster: it is too much for one answer.
            break
        if word == "crowded":
            tight[queue.id] = time.monotonic() + TIGHT_SECONDS
        elif word != "unbound":
            if rules.version and rows and rows[0]["items"] is not None:
                known.busy.add(queue.id)
                if waits and behind is None:
                    yield from flush_now(store)
            else:
                known.busy.discard(queue.id)
            return rows
        elif not (yield from _bind(store, queue, rules.limits, rows[0].get("line"))):
            break
    # It has changed, or does so all the time: then under locks.
    return []


def rows_of(answer: list[list[Any]] | None) -> list[Any]:
    """The row of a claim. None is the answer to one for which there was no room in the end, under
    rules or in one answer."""
    return [{"held": "crowded", "items": None}] if answer is None else list(answer[0])


def _bind(store: PostgresStore, queue: QueueRow, limits: Limits, line: str | None) -> Steps[bool]:
    """Write down what rules say about channels; False if they have changed meanwhile."""
    named = [entry.partition(NAMED) for entry in line.split(DIVIDER)] if line else []
    channels = [(id, name or None) for id, _, name in named]
    found = {
        id: limits.bounds(queue.name, name, "running")
        for id, name in channels or [(NO_CHANNEL, None)]
    }
    places: dict[Bounds, int] = {}
    homes = [places.setdefault(bounds, len(places) + 1) for bounds in found.values()]
    statement = store.sql.bind_channels(
        queue=queue.id,
        rules=limits.version,
        channels=",".join(found),
        homes=",".join(map(str, homes)),
        bounds=msgspec.json.encode(list(map(_written, places))).decode(),
    )
    [[row]] = yield Whole((statement,))
    return bool(row["is_done"])


def _written(bounds: Bounds) -> dict[str, list[Any]]:
    checked = bounds.checked
    return {
        "counted": [bucket.name for bucket in bounds.counted],
        "checked": [bound.bucket.name if bound.limit > 0 else None for bound in checked],
        "most": [bound.limit for bound in checked],
    }
