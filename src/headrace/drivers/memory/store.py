"""The store in memory: its lock, its transactions, its clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from headrace.contract.blocks import Block, block, during
from headrace.contract.op import Op
from headrace.contract.store import Session
from headrace.contract.values import (
    Capabilities,
)
from headrace.drivers.memory.context import MemoryContext
from headrace.drivers.memory.topics import Data
from headrace.drivers.notifier import Notifier, NotifierWaiter
from headrace.drivers.reentrancy import has_transaction, run_marked, would_wait_for_itself
from headrace.drivers.runner import Probe, Runner, Work
from headrace.errors import InvalidOption
from headrace.model import forks

T = TypeVar("T")

QUICK_POLLS = 20
MAX_POLL_SECONDS = 0.02


class Shared:
    """The data of a memory store and its lock, for one client or for several."""

    def __init__(self) -> None:
        self.data = Data()
        self.lock = threading.Lock()
        self.notifier = Notifier()
        forks.renew_in_child(self, Shared._unlock)

    def _unlock(self) -> None:
        # The next operation undoes what the thread that held the lock had changed.
        self.lock = threading.Lock()


_named: WeakValueDictionary[str, Shared] = WeakValueDictionary()
_named_lock = forks.ModuleLock()


def shared(name: str) -> Shared:
    """The store of that name, while a client has it open; a new one without a name."""
    if not name:
        return Shared()
    with _named_lock.lock:
        return _named.setdefault(name, Shared())


class MemoryStore(Runner):
    """Headrace in memory. See ``headrace.contract.store.Store`` and ``contract.queues``."""

    name = "memory"
    capabilities = Capabilities(
        survives_restart=False,
        is_shared=False,
        resolves_outcome=True,
        has_record_view=False,
        supports_transactions=True,
        numbers_at_commit=False,
        has_server=False,
    )

    def __init__(
        self, name: str = "", *, patience: float, clock: Callable[[], int] | None = None
    ) -> None:
        super().__init__(patience=patience)
        self._shared = shared(name)
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._compose()

    def _compose(self) -> None:
        self.data = self._shared.data
        context = MemoryContext(self.data, self._clock)
        self.topics = context.topics
        self.procs = context.procs
        self.queues = context.queues
        self.channels = context.channels
        self.limits = context.limits
        self.locks = context.locks
        self.counters = context.counters
        self.sinks = context.sinks
        self.pipelines = context.pipelines
        self.tokens = context.tokens
        self.schedules = context.schedules
        self.admin = context.admin

    async def arun(self, op: Op[T]) -> T:
        op.accept()
        await self._turn()
        return self.run(op)

    async def _turn(self) -> None:
        """Let a transaction of another task end first: this thread must not wait for it."""
        polls = 0
        while self._shared.lock.locked() and not has_transaction(self._shared):
            # Wait for a short transaction without a pause, for a long one without using the CPU.
            slow = max(polls - QUICK_POLLS, 0)
            await asyncio.sleep(min(slow * 0.001, MAX_POLL_SECONDS))
            polls += 1

    def attempt(self, op: Op[T]) -> Work[T]:
        shared, data = self._shared, self.data
        if has_transaction(shared):
            raise would_wait_for_itself("memory")
        with shared.lock:
            if data.undo:
                # An exception came while another thread's changes were being undone.
                data.undo_to(0)
            result = yield from self.within(op)
            announced = data.commit()
            if op.writes:
                self.probe(op.name, "committed")
        shared.notifier.notify(announced)
        return result

    def within(self, op: Op[T]) -> Work[T]:
        """Execute an operation; if it raises, undo it alone."""
        data = self.data
        mark = len(data.undo)
        try:
            self.probe(op.name, 0)
            result = yield from op
            if op.writes:
                self.probe(op.name, "commit")
        except BaseException:
            data.undo_to(mark)
            raise
        return result

    @block
    def transaction(self) -> Block:
        shared = self._shared
        if has_transaction(shared):
            raise would_wait_for_itself("memory")
        with shared.lock:
            if shared.data.undo:
                shared.data.undo_to(0)
            announced = yield from run_marked(shared, self._all_or_nothing())
        shared.notifier.notify(announced)

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[Session]:
        await self._turn()
        with self.transaction() as session:
            yield session

    def _all_or_nothing(self) -> Generator[Any, Any, set[str]]:
        data = self.data
        try:
            session = MemorySession(self._shared, self._clock, self.probe)
            yield from during(session)
            session.undo_the_rest()
            self.probe("transaction", "commit")
        except BaseException:
            data.undo_to(0)
            raise
        announced = data.commit()
        self.probe("transaction", "committed")
        return announced

    def waiter(self, topic: str) -> NotifierWaiter:
        return NotifierWaiter(self._shared.notifier, topic, None)

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


class MemorySession(MemoryStore):
    """A store's operations while a transaction of it is open."""

    def __init__(self, shared: Shared, clock: Callable[[], int], probe: Probe) -> None:
        Runner.__init__(self, patience=0)
        self._shared = shared
        self._clock = clock
        self.probe = probe
        self._compose()
        # How many changes belong to completed operations.
        self._done = 0

    def attempt(self, op: Op[T]) -> Work[T]:
        self.undo_the_rest()
        result = yield from self.within(op)
        self._done = len(self.data.undo)
        return result

    def undo_the_rest(self) -> None:
        """Undo the rest of an operation after an exception interrupted the undoing."""
        if len(self.data.undo) > self._done:
            self.data.undo_to(self._done)

    async def arun(self, op: Op[T]) -> T:
        return self.run(op)
