"""References to procs, and the claims they hand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, overload

from msgspec import UNSET, UnsetType

from headrace.client.calls import Acked, Call, Taken, Timeout, changes
from headrace.core.commits import Entry, Headers
from headrace.model.procs import Lag, ProcInfo, Strategy
from headrace.model.record import Record

if TYPE_CHECKING:
    from headrace.client.operations import AsyncOperations, Operations


class ClaimedRecords(Sequence[Record]):
    """The records of a claim, in order; ``token`` proves that they are ours.

    ``is_settled`` once they were acked or given back through this object.
    """

    def __init__(self, taken: Taken) -> None:
        self.proc_name = taken.proc
        self.token = taken.token
        self.records = taken.records
        self.deadline = taken.deadline
        self.is_settled = False

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        ids = f"{self.records[0].id}..{self.records[-1].id}"
        return f"<{type(self).__name__} of {self.proc_name!r}: {ids}>"


class Claim(ClaimedRecords):
    """Records handed out by a proc: ack them, ack and commit, or give them back."""

    def __init__(self, proc: Proc, taken: Taken) -> None:
        super().__init__(taken)
        self.proc = proc

    def ack(self) -> str:
        """Move the proc behind these records; returns ``first..last``."""
        acked = self.proc.ack(self.token)
        self.is_settled = True
        return acked

    def ack_commit(self, entries: Sequence[Entry], *, headers: Headers | None = None) -> Acked:
        """Ack and commit in one transaction: both or neither."""
        acked = self.proc.ack_commit(self.token, entries, headers=headers)
        self.is_settled = True
        return acked

    def extend(self) -> datetime | None:
        """Get the full reclaim timeout again from now."""
        self.deadline = self.proc.extend(self.token)
        return self.deadline

    def reclaim(self, *, failed: Record | None = None, error: str | None = None) -> str:
        """Give the records back, saying which one failed and why if that is known."""
        fallback = self.proc.reclaim(self.token, failed=failed, error=error)
        self.is_settled = True
        return fallback


class AsyncClaim(ClaimedRecords):
    """``Claim`` for async code."""

    def __init__(self, proc: AsyncProc, taken: Taken) -> None:
        super().__init__(taken)
        self.proc = proc

    async def ack(self) -> str:
        acked = await self.proc.ack(self.token)
        self.is_settled = True
        return acked

    async def ack_commit(
        self, entries: Sequence[Entry], *, headers: Headers | None = None
    ) -> Acked:
        acked = await self.proc.ack_commit(self.token, entries, headers=headers)
        self.is_settled = True
        return acked

    async def extend(self) -> datetime | None:
        self.deadline = await self.proc.extend(self.token)
        return self.deadline

    async def reclaim(self, *, failed: Record | None = None, error: str | None = None) -> str:
        fallback = await self.proc.reclaim(self.token, failed=failed, error=error)
        self.is_settled = True
        return fallback


class ProcReference:
    """A proc by name. It lives in the store; this is only a handle."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} on topic {self.topic!r}>"


class Proc(ProcReference):
    """A durable reader of a topic: one position, at most one outstanding claim.

    >>> inc = hr.proc("inc", topic="numbers")
    >>> claim = inc.claim(count=100)
    >>> if claim:
    ...     claim.ack_commit([("incremented", {"n": r.body["n"] + 1}) for r in claim])
    """

    def __init__(self, client: Operations, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self._client = client

    def claim(self, count: int = 1) -> Claim | None:
        """Take the next records, up to ``count`` and about 8 MiB; None if there are none.

        None also while another claim is outstanding. A claim that is not acked within the
        reclaim timeout is given back by the next claim. ``ProcDisabled`` if it is.
        """
        return self._take(self._next_claim(count))

    def _next_claim(self, count: int) -> Call[Taken | None]:
        """A claim that is yet to be sent, or never will be."""
        return _unsent(self._client._calls.claim(self.name, count))

    def _take(self, call: Call[Taken | None]) -> Claim | None:
        # A client that was closed meanwhile says so here.
        _ = self._client._calls
        taken = self._client._run(call)
        return None if taken is None else Claim(self, taken)

    def ack(self, token: str) -> str:
        """Move the proc behind the claim; returns its range ``first..last``.

        The same token again gets the same answer; a stale one raises ``ClaimLost``.
        """
        return self._client._run(self._client._calls.ack(self.name, token))

    def ack_commit(
        self, token: str, entries: Sequence[Entry], *, headers: Headers | None = None
    ) -> Acked:
        """Ack and commit in one transaction: both or neither."""
        return self._client._run(self._client._calls.ack_commit(self.name, token, entries, headers))

    def extend(self, token: str) -> datetime | None:
        """Give the claim its full reclaim timeout again from now; returns when it ends."""
        return self._client._run(self._client._calls.extend(self.name, token))

    def reclaim(
        self,
        token: str | None = None,
        *,
        failed: Record | None = None,
        error: str | None = None,
    ) -> str:
        """Give the claim back; without a token, take it away from whoever has it.

        Counts one reclaim, and at ``max_reclaims`` does what ``on_max_reclaims_reached``
        says. Returns the range the proc falls back to, ``""`` if it never acked.
        """
        return self._client._run(
            self._client._calls.reclaim(self.name, self.topic, token, failed, error)
        )

    def inspect(self) -> ProcInfo:
        """What is known of the proc."""
        return self._client._run(self._client._calls.inspect(self.name))

    def disable(self) -> ProcInfo:
        """Hand out no more records until ``resume``; an outstanding claim may still be acked."""
        return self._client._run(self._client._calls.disable(self.name))

    def resume(self) -> ProcInfo:
        """Hand out records again."""
        return self._client._run(self._client._calls.resume(self.name))

    def destroy(self) -> ProcInfo:
        """Remove the proc; returns what it was. A proc made later with its name is new."""
        return self._client._run(self._client._calls.destroy(self.name))

    def seek(self, offset: str) -> ProcInfo:
        """Move the proc as if it were made now with ``offset``; drops its claim."""
        return self._client._run(self._client._calls.seek(self.name, offset))

    def update(
        self,
        *,
        max_reclaims: int | UnsetType = UNSET,
        reclaim_timeout: Timeout | UnsetType = UNSET,
        on_max_reclaims_reached: Strategy | UnsetType = UNSET,
    ) -> ProcInfo:
        """Change settings; what is not given stays."""
        wanted = changes(max_reclaims, reclaim_timeout, on_max_reclaims_reached)
        return self._client._run(self._client._calls.update(self.name, wanted))

    def lag(self) -> Lag:
        """Records not acked yet, and the age of the oldest of them in seconds."""
        return self._client._run(self._client._calls.lag(self.name))


class AsyncProc(ProcReference):
    """``Proc`` for async code."""

    def __init__(self, client: AsyncOperations, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self._client = client

    async def claim(self, count: int = 1) -> AsyncClaim | None:
        return await self._take(self._next_claim(count))

    def _next_claim(self, count: int) -> Call[Taken | None]:
        return _unsent(self._client._calls.claim(self.name, count))

    async def _take(self, call: Call[Taken | None]) -> AsyncClaim | None:
        _ = self._client._calls
        taken = await self._client._run(call)
        return None if taken is None else AsyncClaim(self, taken)

    async def ack(self, token: str) -> str:
        return await self._client._run(self._client._calls.ack(self.name, token))

    async def ack_commit(
        self, token: str, entries: Sequence[Entry], *, headers: Headers | None = None
    ) -> Acked:
        return await self._client._run(
            self._client._calls.ack_commit(self.name, token, entries, headers)
        )

    async def extend(self, token: str) -> datetime | None:
        return await self._client._run(self._client._calls.extend(self.name, token))

    async def reclaim(
        self,
        token: str | None = None,
        *,
        failed: Record | None = None,
        error: str | None = None,
    ) -> str:
        return await self._client._run(
            self._client._calls.reclaim(self.name, self.topic, token, failed, error)
        )

    async def inspect(self) -> ProcInfo:
        return await self._client._run(self._client._calls.inspect(self.name))

    async def disable(self) -> ProcInfo:
        return await self._client._run(self._client._calls.disable(self.name))

    async def resume(self) -> ProcInfo:
        return await self._client._run(self._client._calls.resume(self.name))

    async def destroy(self) -> ProcInfo:
        return await self._client._run(self._client._calls.destroy(self.name))

    async def seek(self, offset: str) -> ProcInfo:
        return await self._client._run(self._client._calls.seek(self.name, offset))

    async def update(
        self,
        *,
        max_reclaims: int | UnsetType = UNSET,
        reclaim_timeout: Timeout | UnsetType = UNSET,
        on_max_reclaims_reached: Strategy | UnsetType = UNSET,
    ) -> ProcInfo:
        wanted = changes(max_reclaims, reclaim_timeout, on_max_reclaims_reached)
        return await self._client._run(self._client._calls.update(self.name, wanted))

    async def lag(self) -> Lag:
        return await self._client._run(self._client._calls.lag(self.name))


def _unsent(call: Call[Taken | None]) -> Call[Taken | None]:
    """It is no mistake if it is never run."""
    call.op.accept()
    return call
