"""Receipts: what a statement did whose answer was lost.

A push or a completion in one statement leaves one. When it is sent again it waits for the first
if that is still under way, and then finds the receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.postgres.sending import DIVIDER
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Whole

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# A receipt lists what was done; with more than this a transaction is the better proof.
MOST_ON_A_RECEIPT = 200
# What stands for an id when there is more to it: the queue's settings have changed, say.
OTHER = -1
# What divides an id from a subject, and what says that another way is gone.
SUBJECT = "\x1f"
ELSEWHERE = "elsewhere"


class Receipt(NamedTuple):
    """What a statement did: ids, and the subjects of new items. Or it was to be done elsewhere."""

    done: Sequence[tuple[int, str | None]]
    is_elsewhere: bool = False


def found(store: PostgresStore, receipt: str | None) -> Steps[Receipt]:
    """What a receipt says."""
    [rows] = yield Whole((store.sql.find_receipt(receipt=receipt),))
    text = rows[0]["ids"] if rows else None
    if text == ELSEWHERE:
        return Receipt((), is_elsewhere=True)
    done: list[tuple[int, str | None]] = []
    for entry in (text or "").split(DIVIDER) if text else ():
        id, has_subject, subject = entry.partition(SUBJECT)
        done.append((int(id), subject if has_subject else None))
    return Receipt(done)


def earlier(store: PostgresStore, queue: QueueRow, receipt: str) -> Steps[Receipt]:
    """What became of a statement whose answer was lost, before the same is done in another way.

    If it has not been done yet it never will: its receipt is taken.
    """
    yield Whole((store.sql.take_receipt(queue=queue.id, receipt=receipt, now=store.clock()),))
    return (yield from found(store, receipt))
