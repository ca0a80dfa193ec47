"""Procs: references to one, its claims, and the procs of a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import UNSET, UnsetType

from headrace.client._runtime.aio import sleep, undo_if_cancelled
from headrace.client.claimed_records import ClaimedRecords, ProcReference, Requester
from headrace.client.waiters import Wait
from headrace.core.commits import Entry, Headers
from headrace.core.requests import Requests
from headrace.core.requests.procs import AckResult, ClaimedBatch, ProcRequests, changes
from headrace.core.requests.request import Request
from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.model.times import Duration
from headrace.model.topics.positions import FROM_START
from headrace.model.topics.procs import Lag, ProcInfo, Strategy
from headrace.model.topics.records import Record

if TYPE_CHECKING:
    from headrace.client._async.operations import AsyncOperations


T = TypeVar("T")
Infos = list[ProcInfo]
Names = Iterable["str | ProcReference"]


class AsyncClaim(ClaimedRecords):
    """Records that a proc has claimed: ack them, ack and commit, or give them back."""

    def __init__(self, proc: AsyncProc, batch: ClaimedBatch) -> None:
        super().__init__(batch)
        self.proc = proc

    async def ack(self) -> str:
        """Move the proc behind these records; returns ``first..last``.

        ``ClaimLost`` if the claim has ended, unless it ended by this very ack.
        """
        acked = await self._run(self._requests.ack(self.proc_name, self.token))
        self.is_settled = True
        return acked

    async def ack_commit(
        self, entries: Sequence[Entry], *, headers: Headers | None = None
    ) -> AckResult:
        """Ack and commit in one transaction: both or neither."""
        request = self._requests.ack_commit(self.proc_name, self.token, entries, headers)
        acked = await self._run(request)
        self.is_settled = True
        return acked

    async def extend(self) -> datetime | None:
        """Get the full lease again from now."""
        self.deadline = await self._run(self._requests.extend(self.proc_name, self.token))
        return self.deadline

    async def nack(self, *, failed: Record | None = None, error: str | None = None) -> str:
        """Give the records back, saying which one failed and why if that is known."""
        topic = self.records[0].topic if self.records else None
        request = self._requests.nack(self.proc_name, topic, self.token, failed, error)
        fallback = await self._run(request)
        self.is_settled = True
        return fallback

    def using(self, transaction: Requester) -> AsyncClaim:
        """The same claim in a transaction: what is done with it happens when that is committed.

        >>> async with hr.transaction() as tx:
        ...     await claim.using(tx).ack()
        """
        if not isinstance(getattr(transaction, "_requests", None), Requests):
            raise InvalidOption(
                f"{shown(transaction)} is not a transaction: give what transaction() or using() gave.",
                option="transaction",
            )
        batch = ClaimedBatch(self.proc_name, self.token, self.records, self.deadline)
        proc = AsyncProc(cast("AsyncOperations", transaction), self.proc_name)
        return AsyncClaim(proc, batch)

    @property
    def _requests(self) -> ProcRequests:
        return self.proc._client._requests.procs

    async def _run(self, request: Request[T]) -> T:
        return await self.proc._client._run(request)


class AsyncProc(ProcReference):
    """A durable reader of a topic: one position, at most one outstanding claim.

    >>> inc = await hr.procs.create("inc", "numbers")
    >>> claim = await inc.claim(count=100)
    >>> if claim:
    ...     await claim.ack_commit([("incremented", {"n": r.body["n"] + 1}) for r in claim])
    """

    def __init__(self, client: AsyncOperations, name: str) -> None:
        super().__init__(name)
        self._client = client

    async def claim(self, count: int = 1) -> AsyncClaim | None:
        """Claim the next records, up to ``count`` and about 8 MiB; None if there are none.

        None also while another claim is outstanding. A claim that is not acked within the
        lease is given back by the next claim. ``ProcDisabled`` if it is.
        """
        return await self._claim_now(self._next_claim(count))

    def _next_claim(self, count: int) -> Request[ClaimedBatch | None]:
        """A claim that is yet to be sent, or never will be."""
        return _unsent(self._client._requests.procs.claim(self.name, count))

    async def _claim_now(self, call: Request[ClaimedBatch | None]) -> AsyncClaim | None:
        self._client._check_open()
        batch = await _claimed(self._client, call)
        return None if batch is None else AsyncClaim(self, batch)

    async def nack(self, *, error: str | None = None) -> str:
        """Give back whichever claim is outstanding; see ``Claim.nack``.

        Counts one attempt, and at ``max_attempts`` does what ``on_exhausted``
        says. Returns the range the proc falls back to, ``""`` if it never acked.
        """
        return await self._client._run(
            self._client._requests.procs.nack(self.name, None, None, None, error)
        )

    async def info(self) -> ProcInfo:
        """What is known of the proc."""
        return await self._client._run(self._client._requests.procs.info(self.name))

    async def disable(self) -> ProcInfo:
        """Claim no more records until ``resume``; an outstanding claim may still be acked."""
        return await self._client._run(self._client._requests.procs.disable(self.name))

    async def resume(self) -> ProcInfo:
        """Let records be claimed again."""
        return await self._client._run(self._client._requests.procs.resume(self.name))

    async def delete(self) -> ProcInfo:
        """Remove the proc; returns what it was. A proc made later with its name is new."""
        return await self._client._run(self._client._requests.procs.delete(self.name))

    async def seek(self, offset: str) -> ProcInfo:
        """Move the proc as if it were made now with ``offset``; drops its claim."""
        return await self._client._run(self._client._requests.procs.seek(self.name, offset))

    async def update(
        self,
        *,
        max_attempts: int | UnsetType = UNSET,
        lease: Duration | UnsetType | None = UNSET,
        on_exhausted: Strategy | UnsetType = UNSET,
    ) -> ProcInfo:
        """Change settings; what is not given stays."""
        wanted = changes(max_attempts, lease, on_exhausted)
        return await self._client._run(self._client._requests.procs.update(self.name, wanted))

    async def lag(self) -> Lag:
        """Records not acked yet, and the age of the oldest of them in seconds."""
        return await self._client._run(self._client._requests.procs.lag(self.name))


class AsyncProcs:
    """The procs of a store, for async code."""

    def __init__(self, client: AsyncOperations) -> None:
        self._client = client

    async def create(
        self,
        name: str,
        topic: str,
        *,
        offset: str = FROM_START,
        max_attempts: int | UnsetType = UNSET,
        lease: Duration | UnsetType | None = UNSET,
        on_exhausted: Strategy | UnsetType = UNSET,
    ) -> AsyncProc:
        """Find a proc of a topic, or make it.

        ``offset`` says where a new proc starts and is ignored by an existing one: ``>``
        (the default) at the first record, ``$>`` behind the newest, an id or ``:seq``
        after that record, a timestamp at its first record. Settings that are given are stored,
        on an existing proc too: after ``max_attempts`` (10; -1 for no limit) failures in a row
        the proc is disabled, goes on (``continue``), or moves the culprit to topic
        ``<name>-dead`` (``dead_letter``); a claim is given back after ``lease`` (10 s;
        None for never).
        """
        wanted = changes(max_attempts, lease, on_exhausted)
        await self._client._run(self._client._requests.procs.create(name, topic, offset, wanted))
        return AsyncProc(self._client, name)

    async def list(self, *, topic: str | None = None) -> Infos:
        """All procs by name, or those of one topic."""
        return await self._client._run(self._client._requests.procs.listing(topic))

    async def claim_any(self, procs: Names, count: int = 1) -> AsyncClaim | None:
        """Claim for whichever proc has work, the one that claimed longest ago first.

        Procs that are disabled or have a claim outstanding are skipped; None if none has work.
        """
        batch = await _claimed(self._client, self._client._requests.procs.claim_any(procs, count))
        if batch is None:
            return None
        return AsyncClaim(AsyncProc(self._client, batch.proc), batch)


class AsyncClientProcs(AsyncProcs):
    """The procs of a store, outside a transaction: nothing can progress on what is not committed."""

    async def wait_idle(
        self, procs: str | ProcReference | Names | None = None, *, timeout: float | None = None
    ) -> None:
        """Wait until active procs (these, or all) have acked all that is committed.

        ``WaitTimeout`` names those that have not. A proc that gets disabled is no longer
        waited for. It does not run the procs.
        """
        wait = Wait(timeout)
        while behind := await self._client._run(self._client._requests.procs.pending(procs)):
            await sleep(wait.pause(behind))


async def _claimed(
    client: AsyncOperations, call: Request[ClaimedBatch | None]
) -> ClaimedBatch | None:
    """Claim records; if the caller is cancelled, they are nacked."""

    # ASYNC
    async def nack(batch: ClaimedBatch | None) -> None:
        if batch is not None:
            topic = batch.records[0].topic
            requests = client._requests.procs
            await client._run(requests.nack(batch.proc, topic, batch.token, None, None))

    return await undo_if_cancelled(client._run(call), nack)
    # SYNC
    # return client._run(call)
    # END


def _unsent(call: Request[ClaimedBatch | None]) -> Request[ClaimedBatch | None]:
    """It is no mistake if it is never run."""
    call.op.accept()
    return call
