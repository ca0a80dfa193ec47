"""Idempotency keys: each counts once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from headrace.contract.op import Steps
from headrace.contract.values import Committed, KeyConflict, Promised
from headrace.drivers.sql_common.statements import Statements

Outcome = Committed | Promised
Result = TypeVar("Result")
Conflict = TypeVar("Conflict")


class Keyed(Protocol):
    """A call that may have a key."""

    @property
    def key(self) -> str | None: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def key_ttl_ms(self) -> int: ...


Settled = dict[str | None, tuple[str | None, Result]]
"""Keys that were used before, with the digest and the outcome of the call that used them."""

_decode_used = msgspec.json.Decoder(list[tuple[str, str | None, str]]).decode


class Keys(Generic[Result, Conflict]):
    """Reserves keys before anything else is locked, and knows the outcomes of used ones.

    ``outcome`` is the type of stored outcomes. ``conflict`` makes the answer to a call whose key was
    used with other content.
    """

    def __init__(
        self, sql: Statements, scope: str, outcome: Any, conflict: Callable[[str], Conflict]
    ) -> None:
        self.sql = sql
        self.scope = scope
        self._decode = msgspec.json.Decoder(outcome).decode
        self._conflict = conflict

    def reserve(self, calls: Sequence[Keyed], now: int | None) -> Steps[Settled[Result]]:
        """Reserve the keys of all calls; returns the outcomes of those that were used before."""
        by_key = {call.key: call for call in reversed(calls) if call.key is not None}
        if not by_key:
            return {}
        keys = sorted(by_key)
        reserved = yield self.sql.reserve_keys(
            scope=self.scope,
            keys=keys,
            ttls=[by_key[key].key_ttl_ms for key in keys],
            digests=[by_key[key].digest for key in keys],
            now=now,
        )
        free = {row["key"] for row in reserved}
        old = [key for key in keys if key not in free]
        if not old:
            return {}
        rows = yield self.sql.read_keys(scope=self.scope, keys=old)
        return {row["key"]: (row["digest"], self._decode(row["outcome"])) for row in rows}

    def settle(self, calls: Sequence[Keyed], outcomes: Sequence[Result]) -> Steps[None]:
        """Store the outcomes of keys that were new."""
        news = tuple(
            self.sql.save_key_outcomes(
                scope=self.scope, key=call.key, outcome=msgspec.json.encode(outcome).decode()
            )
            for call, outcome in zip(calls, outcomes, strict=True)
            if call.key is not None
        )
        if news:
            yield news

    def release(self, key: str) -> Steps[None]:
        """Remove a key that this operation reserved: its call wrote nothing."""
        yield self.sql.release_key(scope=self.scope, key=key)

    def settled(self, used: str) -> Settled[Result]:
        """Keys that a statement found in use, as it lists them."""
        return {key: (digest, self._decode(outcome)) for key, digest, outcome in _decode_used(used)}

    def answer(
        self, calls: Sequence[Keyed], written: Mapping[int, Result], settled: Settled[Result]
    ) -> list[Result | Conflict]:
        """One outcome per call; a key that occurs twice in one group commit counts once, too.

        ``written`` has the outcomes of the calls that wrote, by the identity of the call.
        """
        known = dict(settled)
        for call in calls:
            outcome = written.get(id(call))
            if call.key is not None and outcome is not None:
                known[call.key] = (call.digest, outcome)
        answers: list[Result | Conflict] = []
        for call in calls:
            if call.key is None:
                answers.append(written[id(call)])
                continue
            digest, before = known[call.key]
            answers.append(before if digest == call.digest else self._conflict(call.key))
        return answers


class CommitKeys(Keys[Outcome, KeyConflict]):
    """The keys of commits."""

    def __init__(self, sql: Statements) -> None:
        super().__init__(sql, "commit", Outcome, KeyConflict)
