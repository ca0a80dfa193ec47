"""Receipts: what a statement did whose answer was lost.

A push or a completion in one statement leaves one. A repeat of the statement waits for the first
run if that is still under way, and then finds the receipt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath.wal_flush import flush_now
from headrace.drivers.postgres.round_trip import DIVIDER
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Autocommit

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# A receipt lists what was done; with more items than this, a transaction is the better proof.
MAX_ITEMS = 1000
# Stands in place of an id in other cases: the queue's settings have changed, for example.
OTHER = -1
# The divider of id and subject, the divider of the first and last id of a range, and the mark of a
# statement that is replaced by the general path.
SUBJECT = "\x1f"
UP_TO = "\x1d"
ELSEWHERE = "elsewhere"


class PushReceipt(NamedTuple):
    """What a statement did: all ids, and those of new items by subject; or that the general path
    must do it; or the idempotency keys that are in use, so that nothing was done."""

    ids: Sequence[int] = ()
    named: Mapping[str, int] = MappingProxyType({})
    is_elsewhere: bool = False
    used: str | None = None


def found(store: PostgresStore, receipt: str) -> Steps[PushReceipt | None]:
    """The content of a receipt, if it was left."""
    [rows] = yield Autocommit((store.sql.find_receipt(receipt=receipt),), reads=True)
    return read(rows[0]["ids"]) if rows else None


def read(text: str | None) -> PushReceipt:
    """Decode a receipt."""
    if not text:
        return PushReceipt()
    if text == ELSEWHERE:
        return PushReceipt(is_elsewhere=True)
    first, is_row, last = text.partition(UP_TO)
    if is_row:
        return PushReceipt(range(int(first), int(last) + 1))
    entries = text.split(DIVIDER)
    if SUBJECT not in text:
        return PushReceipt(list(map(int, entries)))
    parts = [entry.partition(SUBJECT) for entry in entries]
    named = {subject: int(id) for id, is_named, subject in parts if is_named}
    return PushReceipt([int(id) for id, _, _ in parts], named)


def earlier(store: PostgresStore, queue: QueueRow, receipt: str) -> Steps[PushReceipt]:
    """The result of a statement whose answer was lost, before the general path does the same.

    If it has not run yet it never will: this takes its receipt.
    """
    yield Autocommit(
        (store.sql.reserve_receipt(queue=queue.id, receipt=receipt, now=store.clock()),)
    )
    done = yield from found(store, receipt)
    # It may have committed without a flush.
    yield from flush_now(store)
    return done or PushReceipt()
