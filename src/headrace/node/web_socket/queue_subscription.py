"""A subscription to a queue: items that are claimed for a socket while it lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import msgspec

from headrace._async.headrace import AsyncHeadrace
from headrace.client._async.items import AsyncClaimedItem
from headrace.contract.items import Settled
from headrace.core.documents import Commit, Push
from headrace.core.outcomes import outcome
from headrace.errors import HeadraceError, StoreBusy, StoreUnavailable
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import words_of
from headrace.node.resources.item_views import view
from headrace.node.resources.values import Seconds
from headrace.node.web_socket.messages import Id, Items, LostItems, MessageOutcome, encode
from headrace.node.web_socket.socket import WebSocket
from headrace.node.web_socket.subscription import checked_credit

MAX_CLAIM = 100
CLAIM_SECONDS = 60.0
RETRY_SECONDS = 1.0
_log = logging.getLogger("headrace.node")


class QueueSubscription:
    """Claims items for a socket, at most ``credit`` at a time, and extends their leases."""

    def __init__(
        self,
        id: Id,
        socket: WebSocket,
        hr: AsyncHeadrace,
        queue: str,
        credit: int,
        lease: Seconds | None,
    ) -> None:
        self._id = id
        self._socket = socket
        self._queue = hr.queue(queue)
        self._lease = lease
        self._credit = checked_credit(credit)
        self._held: dict[int, AsyncClaimedItem] = {}
        self._has_room = asyncio.Event()
        self._has_claimed = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """How many items the client has."""
        return len(self._held)

    def add_credit(self, credit: int) -> int:
        self._credit = checked_credit(credit, self._credit)
        self._has_room.set()
        return self._credit

    async def run(self) -> None:
        beating = asyncio.ensure_future(self._beat())
        try:
            while True:
                await self._claim_some()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await self._release()

    async def _claim_some(self) -> None:
        free = self._credit - len(self._held)
        if free <= 0:
            self._has_room.clear()
            await self._has_room.wait()
            return
        try:
            items = await self._queue.claim(
                min(free, MAX_CLAIM), lease=self._lease, wait=CLAIM_SECONDS
            )
        except (StoreUnavailable, StoreBusy) as error:
            _log.debug("queue %r is not claimed from: %s", self._queue.name, words_of(error))
            await asyncio.sleep(RETRY_SECONDS)
            return
        if items:
            self._held.update((item.id, item) for item in items)
            self._has_claimed.set()
            # The token is the node's business.
            views = [msgspec.structs.replace(view(item), token=None) for item in items]
            await self._socket.send(encode(Items(subscription=self._id, items=views)))

    async def settle(self, outcomes: Sequence[MessageOutcome]) -> list[Settled]:
        """Write what became of items; those that are not in flight here are answered ``lost``."""
        settling = {one.item: self._held.get(one.item) for one in outcomes}
        encoded = [
            outcome(
                one.item,
                _token(settling[one.item]),
                one.kind,
                payload=one.payload,
                at=one.at,
                delay=one.delay,
                error=one.error,
                then=[
                    *(Commit(step.topic, step.body, step.headers) for step in one.commit),
                    *(Push(**msgspec.structs.asdict(step)) for step in one.push),
                ],
                max_body=DEFAULT_MAX_BODY,
            )
            for one in outcomes
        ]
        for id in settling:
            # From here on a heartbeat that does not find them means nothing.
            self._held.pop(id, None)
        try:
            settled = await self._queue.settle(encoded)
        except BaseException:
            self._held.update((id, item) for id, item in settling.items() if item is not None)
            raise
        self._has_room.set()
        return settled

    async def _beat(self) -> None:
        """Extend each lease when a third of it is over."""
        loop = asyncio.get_running_loop()
        due: dict[int, float] = {}
        while True:
            now = loop.time()
            due = {id: due.get(id) or now + item.lease_ms / 3000 for id, item in self._held.items()}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(due.values(), default=None)):
                    self._has_claimed.clear()
                    await self._has_claimed.wait()
            now = loop.time()
            asked = [item for id, item in self._held.items() if due.get(id, now + 1) <= now]
            if asked:
                await self._extend(asked)
                for item in asked:
                    del due[item.id]

    async def _extend(self, asked: list[AsyncClaimedItem]) -> None:
        try:
            still = set(await self._queue.extend(asked))
        except HeadraceError as error:
            # The next heartbeat may succeed before the lease ends.
            _log.debug("leases in queue %r stay: %s", self._queue.name, words_of(error))
            return
        lost = [
            item.id for item in asked if item.id not in still and self._held.get(item.id) is item
        ]
        if lost:
            for id in lost:
                del self._held[id]
            self._has_room.set()
            await self._socket.send(encode(LostItems(subscription=self._id, items=lost)))

    async def _release(self) -> None:
        """Give back what was not settled; nothing is counted."""
        held, self._held = list(self._held.values()), {}
        if held:
            # If the store is away, they come back when their leases end.
            with contextlib.suppress(HeadraceError):
                await self._queue.release(held)


def _token(item: AsyncClaimedItem | None) -> str:
    return "" if item is None else item.token or ""
