"""A store as one identity may use it: the routes for people run their operations through it.

So a route needs no scopes of its own: what a client over the driver's wire may do, and what it may
not, is the same here, operation by operation.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import msgspec

from headrace.contract.missing_part import add_missing_parts
from headrace.contract.op import Op
from headrace.contract.operations import PARTS, Operation
from headrace.contract.store import Store, Waiter
from headrace.drivers.http.messages import Call
from headrace.drivers.http.parts import RemotePart
from headrace.errors import UnsupportedStore
from headrace.node.call_contents import check_contents
from headrace.node.call_sizes import check_size
from headrace.node.group_commit import NodeGroupCommit
from headrace.node.guard import Guard, RequestIdentity
from headrace.node.streams.words import Words

T = TypeVar("T")

CHECKED = frozenset({"queues.push", "queues.settle", "topics.commit"})
"""What routes send only as the client's requests have made it, which have checked it."""
_PARTS = {part: RemotePart(part) for part in PARTS}


class GuardedStore:
    """The store of a node for one identity. Only its async side can be used."""

    topics: Any
    procs: Any
    queues: Any
    channels: Any
    limits: Any
    locks: Any
    counters: Any
    sinks: Any
    pipelines: Any
    tokens: Any
    schedules: Any
    admin: Any

    def __init__(
        self,
        store: Store,
        guard: Guard,
        identity: RequestIdentity,
        groups: NodeGroupCommit | None,
        words: Words | None = None,
    ) -> None:
        self._store = store
        self._guard = guard
        self._identity = identity
        self._groups = groups
        self._words = words
        self.url = store.url
        self.name = store.name
        self.capabilities = msgspec.structs.replace(
            store.capabilities, supports_transactions=False, numbers_at_commit=False
        )
        vars(self).update(_PARTS)
        add_missing_parts(self)

    async def arun_on(self, queue: str, op: Op[T]) -> T:
        """Run an operation that would make a queue, if there is one: else ``UnknownQueue``.

        An identity that may not run it does not learn whether there is.
        """
        call: Call = next(iter(op))
        self._guard.authorize(self._identity, call.operation, call.arguments)
        await self._store.arun(self._store.queues.info(queue))
        return await self.arun(op)

    async def arun(self, op: Op[T]) -> T:
        """Run an operation if the identity may."""
        call: Call = next(iter(op))
        result: T = await self.run_call(call.operation, call.arguments, op.since)
        return result

    async def run_call(
        self, operation: Operation, arguments: msgspec.Struct, since: float | None = None
    ) -> Any:
        """Run an operation by its arguments if the identity may."""
        self._guard.authorize(self._identity, operation, arguments)
        check_size(operation, arguments)
        if operation.name not in CHECKED:
            check_contents(operation, arguments)
        if self._groups is not None and self._groups.includes(operation):
            return await self._groups.send(operation, arguments)
        built = operation.build(self._store, arguments)
        built.since = since
        return await self._store.arun(built)

    def authorize(self, op: Op[Any]) -> None:
        """Raise unless the identity may run an operation, which is not run now."""
        op.accept()
        call: Call = next(iter(op))
        self._guard.authorize(self._identity, call.operation, call.arguments)

    def waiter(self, topic: str) -> Waiter:
        """A waiter for records of a topic, or items of a queue."""
        self._guard.authorize_notifications(self._identity, topic)
        return (self._words or self._store).waiter(topic)

    def run(self, op: Op[T]) -> NoReturn:
        raise UnsupportedStore("a node runs operations on its event loop only.")

    def transaction(self) -> NoReturn:
        raise UnsupportedStore("a node keeps no transaction open.")

    atransaction = transaction

    def using(self, connection: object) -> NoReturn:
        raise UnsupportedStore("a node uses no connection of others.")

    ausing = using

    def close(self) -> None:
        """Nothing: the store belongs to the node."""

    async def aclose(self) -> None:
        """Nothing: the store belongs to the node."""
