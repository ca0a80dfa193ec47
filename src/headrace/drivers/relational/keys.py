"""Idempotency keys, in the table of things that count once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

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

Outcome = Committed | Promised
Result = TypeVar("Result")


class Keyed(Protocol):
    """A call that may have a key."""

    @property
    def key(self) -> str | None: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def key_ttl_ms(self) -> int: ...


Settled = dict[str | None, tuple[str | None, Result]]
"""Keys taken before, with the digest and the outcome of the call that took them."""


class Keys(Generic[Result]):
    """Takes keys before anything else is locked, and answers for those taken before."""

    def __init__(self, sql: Sql, scope: str, outcome: Any) -> None:
        self.sql = sql
        self.scope = scope
        self._decode = msgspec.json.Decoder(outcome).decode

    def take(self, calls: Sequence[Keyed], now: int | None) -> Steps[Settled[Result]]:
        """Take the keys of all calls; the outcomes of those that somebody had already."""
        by_key = {call.key: call for call in reversed(calls) if call.key is not None}
        if not by_key:
            return {}
        keys = sorted(by_key)
        taken = yield self.sql.take_once(
            scope=self.scope,
            keys=keys,
            ttls=[by_key[key].key_ttl_ms for key in keys],
            digests=[by_key[key].digest for key in keys],
            now=now,
        )
        free = {row["key"] for row in taken}
        old = [key for key in keys if key not in free]
        if not old:
            return {}
        rows = yield self.sql.read_once(scope=self.scope, keys=old)
        return {row["key"]: (row["digest"], self._decode(row["outcome"])) for row in rows}

    def settle(self, calls: Sequence[Keyed], outcomes: Sequence[Result]) -> Steps[None]:
        """Remember the outcomes of keys that were new."""
        news = tuple(
            self.sql.settle_once(
                scope=self.scope, key=call.key, outcome=msgspec.json.encode(outcome).decode()
            )
            for call, outcome in zip(calls, outcomes, strict=True)
            if call.key is not None
        )
        if news:
            yield news

    def give_back(self, key: str) -> Steps[None]:
        """Forget a key that was taken just now: nothing came of its call."""
        yield self.sql.give_once(scope=self.scope, key=key)


class CommitKeys(Keys[Outcome]):
    """The keys of commits."""

    def __init__(self, sql: Sql) -> None:
        super().__init__(sql, "commit", Outcome)

    def answer(
        self,
        calls: Sequence[CommitCall],
        written: Mapping[int, Outcome],
        settled: Settled[Outcome],
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
