"""Requests to Willow's API."""

from __future__ import annotations

from time import monotonic
from typing import Any

from headrace.client._runtime.aio import AsyncMutex
from headrace.client.async_lease_keeper import AsyncLeaseKeeper
from headrace.compat.willow_values import (
    ANSWER_SECONDS,
    MAX_WAIT_SECONDS,
    Letters,
    address_of,
    not_negative,
    read,
)
from headrace.drivers.http import failures
from headrace.drivers.http.connections import AnswerLost, AsyncHttpConnections, NotSent, NotThere
from headrace.errors import NotConnected

SURE = 0.9
"""The part of a lease in which a client relies on it, as Willow's own do."""


class AsyncWillowWire:
    """Sends requests to a node, and keeps what was dequeued or locked alive."""

    def __init__(self, url: str) -> None:
        self._address = address_of(url)
        self._letters = Letters(self._address)
        self._connections = AsyncHttpConnections(self._address)
        # Apart from the others: calls that wait must not keep a heartbeat from a connection.
        self._waiting = AsyncHttpConnections(self._address)
        self.leases = AsyncLeaseKeeper()
        self._is_closed = False

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request; returns the JSON of the answer."""
        request = self._letters.write(method, path, body)
        is_read = method == "GET"
        return await self._sent(self._connections, request, ANSWER_SECONDS, is_read=is_read)

    async def ask_for(self, path: str, query: object) -> Any:
        """Post a query; returns the JSON of the answer."""
        request = self._letters.write("POST", path, query)
        return await self._sent(self._connections, request, ANSWER_SECONDS, is_read=True)

    async def wait(self, path: str, body: object, seconds: float | None) -> Any:
        """Post a request that is answered when there is something; None after so long.

        Each request waits for a while only: proxies end those that wait for long.
        """
        end = None if seconds is None else monotonic() + not_negative(seconds)
        while True:
            left = MAX_WAIT_SECONDS if end is None else max(end - monotonic(), 0.0)
            wait = min(left, MAX_WAIT_SECONDS)
            request = self._letters.write("POST", f"{path}?wait={wait:.3f}", body)
            found = await self._sent(self._waiting, request, wait + ANSWER_SECONDS, is_read=True)
            if found is not None or (end is not None and monotonic() >= end):
                return found

    async def _sent(
        self, connections: AsyncHttpConnections, request: bytes, seconds: float, *, is_read: bool
    ) -> Any:
        if self._is_closed:
            raise NotConnected("this client is closed: make another one.")
        deadline = monotonic() + seconds
        try:
            # ASYNC
            answer = await connections.exchange(request, deadline, is_write=not is_read)
            # SYNC
            # answer = connections.exchange(request, deadline)
            # END
        except NotThere:
            raise failures.not_connected(self._address) from None
        except NotSent as error:
            raise failures.unavailable(self._address, error) from error
        except AnswerLost as error:
            report = failures.unavailable if is_read else failures.outcome_unknown
            raise report(self._address, error) from error
        return read(self._address, answer)

    async def close(self) -> None:
        """Stop sending heartbeats, and close idle connections."""
        self._is_closed = True
        await self.leases.close()
        await self._connections.close()
        await self._waiting.close()


class AsyncLease:
    """Something that a client has for a while, and keeps by heartbeats."""

    def __init__(self, wire: AsyncWillowWire, lease_ms: int) -> None:
        self._wire = wire
        self.lease_ms = lease_ms
        self._is_lost = False
        self._is_over = False
        # It began when the node granted it, which was a little earlier.
        self._extended(monotonic())
        # A heartbeat that is under way must not find what is just being given back.
        self._mutex = AsyncMutex()

    @property
    def lost(self) -> bool:
        """Whether another client may have it: the node said so, or no heartbeat came through for
        nearly as long as the lease is."""
        return not self._is_over and (self._is_lost or monotonic() >= self._sure_until)

    def _keep(self) -> None:
        self._wire.leases.begin(self, self.lease_ms, self._beat)

    def _end(self, *, is_lost: bool = False) -> None:
        self._is_lost, self._is_over = is_lost, not is_lost
        self._wire.leases.end(self)

    def _extended(self, since: float) -> None:
        self._sure_until = since + SURE * self.lease_ms / 1000

    async def _beat(self) -> bool:
        """One heartbeat; whether there will be more."""
        raise NotImplementedError  # items and locks have their own
