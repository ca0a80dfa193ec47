"""Group commit across clients: pushes and commits that arrive together share a transaction.

The rule is that of a client (``client.group_commit``), over requests in place of calls. A request
is atomic as before: its calls stay together, and if one request fails the others are sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from headrace.client.async_group_commit import AsyncGroupCommit
from headrace.contract.op import Op
from headrace.contract.operations import Operation
from headrace.contract.store import Store

Groups = AsyncGroupCommit[Sequence[Any], Sequence[Any]]
"""Requests with calls, each answered with an outcome per call."""


class NodeGroupCommit:
    """The requests of all clients of a node that share flushes, by operation."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[str, Groups] = {
            "topics.commit": AsyncGroupCommit(partial(self._flush, store.topics.commit)),
            "queues.push": AsyncGroupCommit(partial(self._flush, store.queues.push)),
        }

    def includes(self, operation: Operation) -> bool:
        """Whether requests for the operation share flushes."""
        return operation.name in self._groups

    async def send(self, operation: Operation, arguments: msgspec.Struct) -> Sequence[Any]:
        """Run the operation, together with requests that come at the same time."""
        calls: Sequence[Any] = arguments.calls  # type: ignore[attr-defined]  # of both operations
        return await self._groups[operation.name].send(calls)

    async def _flush(
        self,
        build: Callable[[Sequence[Any]], Op[list[Any]]],
        requests: list[Sequence[Any]],
        since: float | None,
    ) -> list[Sequence[Any]]:
        op = build([call for calls in requests for call in calls])
        op.since = since
        outcomes: list[Any] = await self._store.arun(op)
        answers: list[Sequence[Any]] = []
        at = 0
        for calls in requests:
            answers.append(outcomes[at : at + len(calls)])
            at += len(calls)
        return answers
