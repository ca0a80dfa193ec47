"""Which stores the current thread or task holds a transaction on.

A store with one writer at a time would make a plain operation inside such a block wait for
itself; it is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace.errors import StoreBusy

held: ContextVar[frozenset[object]] = ContextVar("headrace_transactions", default=frozenset())


@contextmanager
def holding(store: object) -> Iterator[None]:
    """Mark the block as one that holds a transaction on ``store``."""
    before = held.set(held.get() | {store})
    try:
        yield
    finally:
        held.reset(before)


def is_holding(store: object) -> bool:
    """Whether the current thread or task does."""
    return store in held.get()


def would_wait_for_itself(place: str) -> StoreBusy:
    return StoreBusy(
        f"this thread or task has a transaction open on {place}, and a plain operation would wait "
        "for it for ever: use the transaction's own methods, or end it first.",
        place=place,
    )
