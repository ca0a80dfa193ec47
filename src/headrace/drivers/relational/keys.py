"""Idempotency keys of commits, in the table of things that count once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.contract.op import Steps
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    Committed,
    KeyConflict,
    Promised,
)
from headrace.drivers.relational.sql import Sql

SCOPE = "commit"
Outcome = Committed | Promised
Settled = dict[str | None, tuple[str | None, Outcome]]
"""Keys taken before, with the digest and the outcome of the call that took them."""


class Keys:
    """Takes keys before anything else is locked, and answers for those taken before."""

    def __init__(self, sql: Sql) -> None:
        self.sql = sql

    def take(self, calls: Sequence[CommitCall], now: int | None) -> Steps[Settled]:
        """Take the keys of all calls; the outcomes of those that somebody had already."""
        by_key = {call.key: call for call in reversed(calls) if call.key is not None}
        if not by_key:
            return {}
        keys = sorted(by_key)
        taken = yield self.sql.take_once(
            scope=SCOPE,
            keys=keys,
            ttls=[by_key[key].key_ttl_ms for key in keys],
            digests=[by_key[key].digest for key in keys],
            now=now,
        )
        free = {row["key"] for row in taken}
        old = [key for key in keys if key not in free]
        if not old:
            return {}
        rows = yield self.sql.read_once(scope=SCOPE, keys=old)
        return {
            row["key"]: (row["digest"], msgspec.json.decode(row["outcome"], type=Outcome))
            for row in rows
        }

    def settle(self, calls: Sequence[CommitCall], outcomes: Sequence[Outcome]) -> Steps[None]:
        """Remember the outcomes of keys that were new."""
        news = tuple(
            self.sql.settle_once(
                scope=SCOPE, key=call.key, outcome=msgspec.json.encode(outcome).decode()
            )
            for call, outcome in zip(calls, outcomes, strict=True)
            if call.key is not None
        )
        if news:
            yield news

    def answer(
        self,
        calls: Sequence[CommitCall],
        written: Mapping[int, Outcome],
        settled: Settled,
    ) -> list[CommitOutcome]:
        """One outcome per call; a key that comes twice in one flush counts once as well."""
        known = dict(settled)
        for call in calls:
            outcome = written.get(id(call))
            if call.key is not None and outcome is not None:
                known[call.key] = (call.digest, outcome)
        answers: list[CommitOutcome] = []
        for call in calls:
            if call.key is None:
                answers.append(written[id(call)])
                continue
            digest, outcome = known[call.key]
            answers.append(outcome if digest == call.digest else KeyConflict(call.key))
        return answers
