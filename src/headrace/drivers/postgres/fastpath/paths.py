"""The fast paths of the PostgreSQL driver, by operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.contract.items import PushCall
from headrace.contract.op import Fast
from headrace.contract.values import CommitCall
from headrace.drivers.postgres.fastpath.claim import fast_claim
from headrace.drivers.postgres.fastpath.commit import fast_commit
from headrace.drivers.postgres.fastpath.complete import fast_complete
from headrace.drivers.postgres.fastpath.keyed_commit import fast_keyed_commit
from headrace.drivers.postgres.fastpath.keyed_push import fast_keyed_push
from headrace.drivers.postgres.fastpath.proc_claim import fast_proc_claim
from headrace.drivers.postgres.fastpath.push import fast_push
from headrace.drivers.sql_common.context import FastPaths

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def fast_paths(store: PostgresStore) -> FastPaths:
    """Bodies in one or two statements, each for the simple cases of its operation."""
    return FastPaths(
        commit=partial(_commit, store),
        proc_claim=partial(fast_proc_claim, store),
        push=partial(_push, store),
        claim=partial(fast_claim, store),
        settle=partial(fast_complete, store),
    )


def _commit(store: PostgresStore, calls: Sequence[CommitCall]) -> Fast | None:
    is_keyed = any(call.key is not None for call in calls)
    return fast_keyed_commit(store, calls) if is_keyed else fast_commit(store, calls)


def _push(store: PostgresStore, calls: Sequence[PushCall]) -> Fast | None:
    is_keyed = any(call.key is not None for call in calls)
    return fast_keyed_push(store, calls) if is_keyed else fast_push(store, calls)
