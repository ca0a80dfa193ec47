"""The fast paths of the SQLite driver, by operation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.drivers.sql_common.context import FastPaths
from headrace.drivers.sqlite.fastpath.commit import fast_commit
from headrace.drivers.sqlite.fastpath.proc_claim import fast_proc_claim
from headrace.drivers.sqlite.fastpath.queues import fast_claim, fast_complete, fast_push

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore


def fast_paths(store: SqliteStore) -> FastPaths:
    """Bodies that are one function of the connection, each for the simple cases."""
    return FastPaths(
        commit=partial(fast_commit, store),
        proc_claim=partial(fast_proc_claim, store),
        push=partial(fast_push, store),
        claim=partial(fast_claim, store),
        settle=partial(fast_complete, store),
    )
