"""The sinks of a store: what streaming queries write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract.sinks import SinkInfo
from headrace.core.requests.request import Request
from headrace.model.names import check_sink, writable_sink

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


Infos = list[SinkInfo]


class AsyncSinks:
    """The sinks of a store, for async code.

    A sink is the fence by which each batch of a streaming query is written once.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> Infos:
        """All sinks that streaming queries have written to, by name."""
        return await self._client._run(Request(self._client._open_store.sinks.list()))

    async def info(self, name: str) -> SinkInfo:
        """The query that writes to a sink, its last batch and what that published.

        ``UnknownSink`` if no query has written to it.
        """
        op = self._client._open_store.sinks.info(check_sink(name))
        info: SinkInfo = await self._client._run(Request(op))
        return info

    async def reset(self, name: str) -> SinkInfo:
        """Let another query write to a sink; returns its last state.

        ``UnknownSink`` if no query has written to it. What was published stays: let the new query
        begin where the old one ended, or the records that it reads again are written again.
        """
        op = self._client._open_store.sinks.reset(writable_sink(name))
        info: SinkInfo = await self._client._run(Request(op))
        return info
