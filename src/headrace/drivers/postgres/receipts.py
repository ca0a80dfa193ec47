"""Receipts: what a statement did whose answer was lost.

A push or a completion in one statement leaves one. When it is sent again it waits for the first
if that is still under way, and then finds the receipt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.postgres.disk import flush_now
from headrace.drivers.postgres.sending import DIVIDER
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Whole

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# A receipt lists what was done; with more than this a transaction is the better proof.
MOST_ON_A_RECEIPT = 1000
# What stands for an id when there is more to it: the queue's settings have changed, say.
OTHER = -1
# What divides an id from a subject, the first id from the last of many in a row, and what says that
# another way is gone.
SUBJECT = "\x1f"
UP_TO = "\x1d"
ELSEWHERE = "elsewhere"


class Receipt(NamedTuple):
    """What a statement did: all ids, and those of new items by subject. Or it was to be done
    elsewhere."""

    ids: Sequence[int] = ()
    named: Mapping[str, int] = MappingProxyType({})
    is_elsewhere: bool = False


def found(store: PostgresStore, receipt: str) -> Steps[Receipt | None]:
    """What a receipt says that was left, if there is one."""
    [rows] = yield Whole((store.sql.find_receipt(receipt=receipt),))
    return read(rows[0]["ids"]) if rows else None


def read(text: str | None) -> Receipt:
    """What a receipt says."""
    if not text:
        return Receipt()
    if text == ELSEWHERE:
        return Receipt(is_elsewhere=True)
    first, is_row, last = text.partition(UP_TO)
    if is_row:
        return Receipt(range(int(first), int(last) + 1))
    entries = text.split(DIVIDER)
    if SUBJECT not in text:
        return Receipt(list(map(int, entries)))
    parts = [entry.partition(SUBJECT) for entry in entries]
    named = {subject: int(id) for id, is_named, subject in parts if is_named}
    return Receipt([int(id) for id, _, _ in parts], named)


def earlier(store: PostgresStore, queue: QueueRow, receipt: str) -> Steps[Receipt]:
    """What became of a statement whose answer was lost, before the same is done in another way.

    If it has not been done yet it never will: its receipt is taken.
    """
    yield Whole((store.sql.take_receipt(queue=queue.id, receipt=receipt, now=store.clock()),))
    done = yield from found(store, receipt)
    # It may have been done without waiting for the disk.
    yield from flush_now(store)
    return done or Receipt()
