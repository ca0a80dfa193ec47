"""The stores on which the current thread or task has an open transaction.

On a store with one writer at a time, a plain operation inside such a block would wait for
its own thread. It is refused instead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from headrace.errors import StoreBusy

T = TypeVar("T")

marked_stores: ContextVar[frozenset[object]] = ContextVar(
    "headrace_transactions", default=frozenset()
)


@contextmanager
def mark_transaction(store: object) -> Iterator[None]:
    """Mark that the current task has an open transaction on ``store`` during the block."""
    before = marked_stores.set(marked_stores.get() | {store})
    try:
        yield
    finally:
        marked_stores.reset(before)


def run_marked(store: object, work: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run ``work`` with the mark set; it is removed even if a signal handler raises."""
    before = marked_stores.get()
    try:
        marked_stores.set(before | {store})
        return (yield from work)
    finally:
        marked_stores.set(before)


def has_transaction(store: object) -> bool:
    """Whether the current thread or task has an open transaction on ``store``."""
    return store in marked_stores.get()


def would_wait_for_itself(place: str) -> StoreBusy:
    return StoreBusy(
        f"this thread or task has a transaction open on {place}, and a plain operation would wait "
        "for it for ever: use the transaction's own methods, or end it first.",
        place=place,
    )
