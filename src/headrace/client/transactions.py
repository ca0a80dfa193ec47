"""Operations inside a transaction, ours or the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.client.calls import Call, Commitment, Receipt
from headrace.client.locks import LockView
from headrace.client.pushing import AsyncPushing, Pushing
from headrace.client.queue_calls import same
from headrace.client.running import Status, documented
from headrace.core.commits import Entry, Headers


class _Ending:
    """A transaction that is over refuses everything."""

    _status: Status

    def _gone(self) -> str:
        return "this transaction is over: begin another one, or use the client itself."

    def end(self) -> None:
        """Refuse every later call."""
        self._status = Status.UNINITIALISED


class Transaction(_Ending, Pushing):
    """What is done here happens together, when the transaction commits.

    An operation that raises leaves no trace, and the transaction goes on. On PostgreSQL
    records are numbered at COMMIT, and reading here does not show those committed here.
    """

    def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any = None,
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Append one record to a topic, or a list of ``(topic, body)`` to several.

        As the client's ``commit``, but it returns a receipt: give it to the client's
        ``ids`` after the transaction.
        """
        return self._write(self._calls.promise(topic, body, headers, key))

    def commit_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Append many records to one topic; returns a receipt."""
        return self._write(self._calls.promise_many(topic, bodies, headers, key))

    def guard(self, lock: LockView) -> int:
        """Make sure that a lock is still held, until the transaction ends; its number.

        ``LockLost`` if it is not. Nobody else gets it before COMMIT, so that what is written here
        was written by its holder.
        """
        _ = self._calls, lock.token
        fence: int = self._run(
            Call(self._store.guard_lock(lock.key_values.form, lock.session), same)
        )
        return fence

    def _write(self, commitment: Commitment[Receipt]) -> Receipt:
        op = self._store.commit([commitment.call])
        return self._run(Call(op, lambda outcomes: commitment.finish(outcomes[0])))


class AsyncTransaction(_Ending, AsyncPushing):
    """``Transaction`` for async code."""

    async def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any = None,
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> Receipt:
        return await self._write(self._calls.promise(topic, body, headers, key))

    async def commit_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> Receipt:
        return await self._write(self._calls.promise_many(topic, bodies, headers, key))

    async def guard(self, lock: LockView) -> int:
        _ = self._calls, lock.token
        guarding = self._store.guard_lock(lock.key_values.form, lock.session)
        return await self._run(Call(guarding, same))

    async def _write(self, commitment: Commitment[Receipt]) -> Receipt:
        op = self._store.commit([commitment.call])
        return await self._run(Call(op, lambda outcomes: commitment.finish(outcomes[0])))


documented(AsyncTransaction, Transaction)
