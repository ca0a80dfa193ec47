"""The store in memory: its lock, its transactions, its clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from headrace.contract import findings
from headrace.contract.op import Op
from headrace.contract.store import Session
from headrace.contract.values import (
    Capabilities,
    Finding,
)
from headrace.drivers.memory.channels import MemoryChannels
from headrace.drivers.memory.coordination import MemoryCoordination
from headrace.drivers.memory.counters import MemoryCounters
from headrace.drivers.memory.dead_items import MemoryDeadItems
from headrace.drivers.memory.limits import MemoryLimits
from headrace.drivers.memory.locks import MemoryLocks
from headrace.drivers.memory.maintenance import MemoryMaintenance
from headrace.drivers.memory.numbers import MemoryNumbers
from headrace.drivers.memory.sinks import MemorySinks
from headrace.drivers.memory.topics import Data, immediate
from headrace.drivers.own_transactions import holding, is_holding, would_wait_for_itself
from headrace.drivers.running import Probe, Runner, Work
from headrace.errors import InvalidOption
from headrace.waking.bell import Bell, Waiter

T = TypeVar("T")


class Shared:
    """The data of a memory store and its lock, for one client or for several."""

    def __init__(self) -> None:
        self.data = Data()
        self.lock = threading.Lock()
        self.bell = Bell()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; refuse who holds it already and would wait for itself."""
        if is_holding(self):
            raise would_wait_for_itself("memory")
        with self.lock:
            yield


_named: WeakValueDictionary[str, Shared] = WeakValueDictionary()
_named_lock = threading.Lock()


def shared(name: str) -> Shared:
    """The store of that name, while anybody has it open; a new one for no name."""
    if not name:
        return Shared()
    with _named_lock:
        return _named.setdefault(name, Shared())


class MemoryStore(
    Runner,
    MemoryMaintenance,
    MemoryNumbers,
    MemoryDeadItems,
    MemoryChannels,
    MemoryCoordination,
    MemoryLimits,
    MemoryCounters,
    MemorySinks,
    MemoryLocks,
):
    """Headrace in memory. See ``headrace.contract.store.Store`` and ``contract.queues``."""

    name = "memory"
    capabilities = Capabilities(
        survives_restart=False,
        is_shared=False,
        resolves_outcome=True,
        has_record_view=False,
        composes=True,
        numbers_at_commit=False,
        is_served=False,
    )

    def __init__(
        self, name: str = "", *, patience: float, clock: Callable[[], int] | None = None
    ) -> None:
        super().__init__(patience=patience)
        self._shared = shared(name)
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)

    @property
    def data(self) -> Data:  # type: ignore[override]  # shared with other clients by name
        return self._shared.data

    def now(self) -> int:
        return self._clock()

    async def arun(self, op: Op[T]) -> T:
        await self._turn()
        return self.run(op)

    async def _turn(self) -> None:
        """Let a transaction of another task end first: this thread must not wait for it."""
        while self._shared.lock.locked() and not is_holding(self._shared):
            await asyncio.sleep(0)

    def attempt(self, op: Op[T]) -> Work[T]:
        with self._shared.held():
            result = yield from self.within(op)
            announced = self.data.commit()
            if op.writes:
                self.probe(op.name, "committed")
        self._shared.bell.ring(announced)
        return result

    def within(self, op: Op[T]) -> Work[T]:
        """Execute an operation, and undo it alone if it raises."""
        mark = len(self.data.undo)
        try:
            self.probe(op.name, 0)
            result = yield from op
            if op.writes:
                self.probe(op.name, "commit")
        except BaseException:
            self.undo(mark)
            raise
        return result

    def undo(self, mark: int) -> None:
        """Take back all changes after ``mark``."""
        while len(self.data.undo) > mark:
            self.data.undo.pop()()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with self._shared.held(), holding(self._shared), self._all_or_nothing():
            yield MemorySession(self._shared, self._clock, self.probe)

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[Session]:
        await self._turn()
        with self._shared.held(), holding(self._shared), self._all_or_nothing():
            yield MemorySession(self._shared, self._clock, self.probe)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        try:
            yield
            self.probe("transaction", "commit")
        except BaseException:
            self.undo(0)
            raise
        announced = self.data.commit()
        self.probe("transaction", "committed")
        self._shared.bell.ring(announced)

    def waiter(self, topic: str) -> Waiter:
        return Waiter(self._shared.bell, topic, None)

    def using(self, connection: Any) -> Session:
        raise InvalidOption(
            "a store in memory has no database in which your connection could have a "
            "transaction: use transaction().",
            option="connection",
        )

    ausing = using

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        def act() -> list[Finding]:
            topics = self.data.topics.items()
            latest = max(topics, key=lambda item: item[1].last_ts, default=None)
            ahead = latest[1].last_ts - self.now() if latest else 0
            bodies = sum(len(batch.body) for _, topic in topics for batch in topic.batches)
            return [
                Finding(check="engine", verdict="ok", found="the memory of this process"),
                Finding(check="durability", verdict="ok", found="nothing outlives the process"),
                findings.dated(latest[0] if latest else None, ahead),
                findings.size({"bodies": bodies}),
            ]

        return immediate("diagnose", act, writes=False)


class MemorySession(MemoryStore):
    """A store's operations while a transaction of it is open."""

    def __init__(self, shared: Shared, clock: Callable[[], int], probe: Probe) -> None:
        super().__init__(patience=0, clock=clock)
        self._shared = shared
        self.probe = probe

    def attempt(self, op: Op[T]) -> Work[T]:
        return (yield from self.within(op))

    async def arun(self, op: Op[T]) -> T:
        return self.run(op)
