"""References to sinks: what streaming queries write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.calls import Call
from headrace.contract.sinks import SinkInfo
from headrace.model.names import check_sink

if TYPE_CHECKING:
    from headrace.client.clients import AsyncClient, Client


def _as_is(info: SinkInfo) -> SinkInfo:
    return info


class Sink:
    """A sink by name: the fence by which each batch of a streaming query is written once."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = check_sink(name)

    def info(self) -> SinkInfo:
        """The query that writes to it, its last batch and what that published; ``UnknownSink``
        if nothing was written to it."""
        return self._client._run(Call(self._client._store.sink_info(self.name), _as_is))

    def reset(self) -> SinkInfo:
        """Let another query write to it; its last state. ``UnknownSink`` if there is none.

        What was published stays: let the new query begin where the old one ended, or what it
        reads again is written again.
        """
        return self._client._run(Call(self._client._store.reset_sink(self.name), _as_is))


class AsyncSink:
    """``Sink`` for async code."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self.name = check_sink(name)

    async def info(self) -> SinkInfo:
        return await self._client._run(Call(self._client._store.sink_info(self.name), _as_is))

    async def reset(self) -> SinkInfo:
        return await self._client._run(Call(self._client._store.reset_sink(self.name), _as_is))
