"""Operations inside a transaction, ours or the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.client._async.operations import AsyncOperations
from headrace.client._async.topics import AsyncTransactionTopic
from headrace.client.claim_heartbeats import ClaimKeepers, Kept
from headrace.client.lock_view import LockView
from headrace.contract.items import Outcome, PushCall, Settled
from headrace.contract.store import Session
from headrace.core.commits import Entry, Headers
from headrace.core.pushes import PushResult
from headrace.core.requests import ClosedRequests
from headrace.core.requests.request import Request
from headrace.core.requests.topics import Commitment, Receipt
from headrace.errors import InvalidOption
from headrace.model.fields import shown

OVER = ClosedRequests("this transaction is over: begin another one, or use the client itself.")


class AsyncTransaction(AsyncOperations):
    """What is done here happens together, when the transaction commits.

    An operation that raises leaves no trace, and the transaction goes on. On PostgreSQL
    records are numbered at COMMIT, and reading here does not show those committed here.
    """

    def __init__(self, session: Session, *, max_body: int, claim_keepers: ClaimKeepers) -> None:
        super().__init__(session, max_body=max_body)
        self._claim_keepers = claim_keepers
        self._kept: Kept = []

    async def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any = None,
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Append one record to a topic, or a list of ``(topic, body)`` to several.

        As the client's ``commit``, but it returns a receipt: give it to the client's
        ``resolve`` after the transaction.
        """
        return await self._write(self._requests.topics.promise(topic, body, headers, key))

    async def commit_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Append many records to one topic; returns a receipt."""
        return await self._write(self._requests.topics.promise_many(topic, bodies, headers, key))

    def topic(self, name: str) -> AsyncTransactionTopic:
        """Refer to a topic, in this transaction."""
        self._check_open()
        return AsyncTransactionTopic(self, name)

    async def guard(self, lock: LockView) -> int:
        """Make sure that a lock is still held, until the transaction ends; its number.

        ``LockLost`` if it is not. No other session gets it before COMMIT, so that what is written here
        was written by its holder.
        """
        self._check_open()
        _ = _checked(lock).token
        op = self._store.locks.guard(lock.key_values.form, lock.session)
        fence: int = await self._run(Request(op))
        return fence

    async def _settle(self, call: Request[list[Settled]], given: list[Outcome]) -> list[Settled]:
        kept = self._claim_keepers.entrust(given)
        try:
            settled = await self._run(call)
        except BaseException as error:
            self._claim_keepers.decide(kept, error)
            raise
        self._kept += kept
        return settled

    async def _write(self, commitment: Commitment[Receipt]) -> Receipt:
        op = self._store.topics.commit([commitment.call])
        return await self._run(Request(op, lambda outcomes: commitment.finish(outcomes[0])))

    def _decided(self, error: BaseException | None) -> None:
        """The transaction was committed or failed: heartbeats of items settled here end, or go on."""
        self._claim_keepers.decide(self._kept, error)

    async def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        if wait != 0:
            # Nothing that others do is seen here, and they wait for its end.
            raise InvalidOption(
                "a transaction cannot wait for capacity: push to the queue outside of it.",
                option="wait",
            )
        return await self._run(self._requests.items.push(call))


def _checked(lock: LockView) -> LockView:
    if not isinstance(lock, LockView):
        raise InvalidOption(f"{shown(lock)} is not a lock: give what lock() gave.", option="lock")
    return lock
