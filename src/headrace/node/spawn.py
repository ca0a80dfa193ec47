"""``headrace.spawn`` and ``headrace.aio.spawn``: a node in a process of its own, with a client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Self, Unpack

from headrace._async.headrace import AsyncHeadrace
from headrace._sync.headrace import Headrace
from headrace.contract.shield import finish
from headrace.contract.threads import in_thread
from headrace.errors import NotConnected
from headrace.local_nodes import NodeRecord
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.node.spawn_arguments import SpawnArguments, SpawnPlan, plan_spawn
from headrace.stores import open_spawned


class _SpawnedNode:
    """What blocking and async code see of a node."""

    def __init__(self, plan: SpawnPlan) -> None:
        self._plan = plan
        self._spawner = plan.spawner

    @property
    def url(self) -> str:
        """Where the node listens. Other programs of this user connect to it without a token."""
        return self._record.url

    @property
    def pid(self) -> int:
        """The process of the node; another one after a restart."""
        return self._record.pid

    @property
    def incarnation(self) -> str:
        """Which run of the node this is; another one after a restart."""
        return self._record.incarnation

    @property
    def is_running(self) -> bool:
        """Whether the node runs, or is being started again after a crash."""
        return self._spawner.is_running

    @property
    def client_url(self) -> str:
        """The URL with all that a client needs: a token for TCP, and TLS files. It is a secret."""
        return self._plan.client_url(self._record)

    @property
    def _record(self) -> NodeRecord:
        record = self._spawner.record
        assert record is not None  # the node was ready before there was an object
        return record

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else "ended"
        return f"<{type(self).__name__.lstrip('_')} at {self.url}, {state}>"


class Node(_SpawnedNode):
    """A node that this process has spawned, for blocking code.

    >>> with headrace.spawn("sqlite:///flow.db") as node:
    ...     node.client.commit("numbers", {"n": 1})
    """

    def __init__(self, plan: SpawnPlan) -> None:
        super().__init__(plan)
        store = open_spawned(self.client_url, self._spawner.why_ended)
        self._client: Headrace | None = Headrace(store, max_body=DEFAULT_MAX_BODY)

    @property
    def client(self) -> Headrace:
        """The client of this process; ``NotConnected`` after ``shutdown``."""
        if self._client is None:
            raise _shut_down()
        return self._client

    def shutdown(self) -> None:
        """Close the client, stop the node and wait for its end. Idempotent."""
        client, self._client = self._client, None
        try:
            if client is not None:
                client.close()
        finally:
            self._spawner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()


class AsyncNode(_SpawnedNode):
    """A node that this process has spawned, for async code."""

    def __init__(self, plan: SpawnPlan, client: AsyncHeadrace) -> None:
        super().__init__(plan)
        self._client: AsyncHeadrace | None = client

    @property
    def client(self) -> AsyncHeadrace:
        """The client of this process; ``NotConnected`` after ``shutdown``."""
        if self._client is None:
            raise _shut_down()
        return self._client

    async def shutdown(self) -> None:
        """Close the client, stop the node and wait for its end. Idempotent."""
        await finish(self._shutdown())

    async def _shutdown(self) -> None:
        client, self._client = self._client, None
        try:
            if client is not None:
                await client.close()
        finally:
            await in_thread(self._spawner.stop)


class Spawning(Coroutine[Any, Any, AsyncNode]):
    """What ``aio.spawn`` returns: await it for a node, or enter it, which shuts the node down."""

    def __init__(self, spawning: Coroutine[Any, Any, AsyncNode]) -> None:
        self._spawning = spawning

    def __await__(self) -> Generator[Any, Any, AsyncNode]:
        return self._spawning.__await__()

    def send(self, value: Any) -> Any:
        return self._spawning.send(value)

    def throw(self, *error: Any) -> Any:
        return self._spawning.throw(*error)

    def close(self) -> None:
        self._spawning.close()

    async def __aenter__(self) -> AsyncNode:
        self._node = await self._spawning
        return self._node

    async def __aexit__(self, *error: object) -> None:
        await self._node.shutdown()


def spawn(url: str = "memory://", **options: Unpack[SpawnArguments]) -> Node:
    """Start a node for a store, in a process of its own, and connect to it.

    It returns when the node is ready, or raises why it cannot run: ``NodeExists`` if another node
    has the namespace, port or socket. The node ends with this process.

    - ``namespace``: the name by which programs of this user find it. It listens on a Unix socket
      of the namespace unless ``socket`` names another path, or ``listen`` an address, as in
      ``"127.0.0.1:7070"``; port 0 is a free one.
    - ``tls``: for ``listen``, the files of node and clients:
      ``{"server": {"key": …, "cert": …, "ca": …}, "client": {…}}``.
    - ``workers``: apps, as in ``["shop:app"]``, each run by a worker process of the node, with
      ``worker_concurrency`` handlers at a time for each queue; it is started again after
      ``worker_restart_after`` items, 0 for never. ``pipelines``: apps whose pipelines run.
    - ``gc``: True, or ``{"min_age": 30, "interval": 30}``: removes old records of all topics.
    - ``restarts``: how often a crashed node is started again, with the same socket. A store in
      memory is empty then: clients get ``NodeLost`` once.
    - ``detached``: the node does not end with this process.
    - ``timeout``: how many seconds it may need to be ready.
    - ``durability``, ``migrate``, ``patience``: options of the node's store, as in ``connect``.
    """
    plan = plan_spawn(url, options)
    plan.spawner.start()
    try:
        return Node(plan)
    except BaseException:
        plan.spawner.stop()
        raise


def aspawn(url: str = "memory://", **options: Unpack[SpawnArguments]) -> Spawning:
    """``headrace.spawn`` for async code: ``async with aio.spawn() as node``, or await it."""
    return Spawning(_aspawn(url, options))


async def _aspawn(url: str, options: SpawnArguments) -> AsyncNode:
    spawning = asyncio.ensure_future(_spawn_and_connect(url, options))
    try:
        return await finish(spawning)
    except asyncio.CancelledError:
        if not spawning.cancelled() and spawning.exception() is None:
            await spawning.result().shutdown()
        raise


async def _spawn_and_connect(url: str, options: SpawnArguments) -> AsyncNode:
    plan = await in_thread(plan_spawn, url, options)
    record = await in_thread(plan.spawner.start)
    try:
        store = await in_thread(open_spawned, plan.client_url(record), plan.spawner.why_ended)
    except BaseException:
        await in_thread(plan.spawner.stop)
        raise
    return AsyncNode(plan, AsyncHeadrace(store, max_body=DEFAULT_MAX_BODY))


def _shut_down() -> NotConnected:
    return NotConnected("the node was shut down: spawn another one.")
