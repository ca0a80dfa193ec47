"""The store: what every driver implements and every layer above relies on.

A store is made of parts, one for each noun: ``store.topics``, ``store.queues`` and so on, each a
small protocol in a module of its own. Their methods only *build* an ``Op``; ``store.run`` and
``store.arun`` execute it. Unless an operation says otherwise:

- it is atomic: all of it or none;
- errors are raised from ``run`` and leave nothing written;
- the caller has checked the form of arguments (names, counts, encodings), but not that what they
  name exists;
- names that begin with ``_`` are ordinary names here, since they are for Headrace's own writers: the
  client, the command line and the node refuse users' writes to them;
- the clock is the store's (milliseconds since 1970), which tests may replace.

Every driver has topics, procs and queues. The other parts are capabilities
(``Capabilities.parts``): a driver may lack one, and the client refuses to use it with an error
that names the part.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from headrace.contract.admin import AdminStore
from headrace.contract.channels import ChannelStore
from headrace.contract.counters import CounterStore
from headrace.contract.limits import LimitStore
from headrace.contract.locks import LockStore
from headrace.contract.op import Op
from headrace.contract.pipelines import PipelineStore
from headrace.contract.procs import ProcStore
from headrace.contract.queues import QueueStore
from headrace.contract.schedules import ScheduleStore
from headrace.contract.sinks import SinkStore
from headrace.contract.tokens import TokenStore
from headrace.contract.topics import TopicStore
from headrace.contract.values import Capabilities

T = TypeVar("T")


class Waiter(Protocol):
    """A wait that ends when there may be something new."""

    def wait(self, seconds: float) -> bool:
        """Wait for a notification, at most for ``seconds``; returns whether one came."""
        ...

    async def await_hint(self, seconds: float) -> bool:
        """``wait`` without blocking the event loop."""
        ...

    def wake(self) -> None:
        """End the present wait, or else the next one, from another thread."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class Session(Protocol):
    """The operations of a store inside a transaction that the session does not end itself.

    An operation that raises leaves nothing written, and the transaction goes on. Nothing is
    retried. Where the store ``numbers_at_commit``, the outcome of a commit is ``Promised`` and
    its records are invisible in the transaction. Elsewhere the outcome is ``Committed``, and its
    numbers become invalid if the transaction is rolled back.
    """

    @property
    def topics(self) -> TopicStore:
        """Append-only logs."""
        ...

    @property
    def procs(self) -> ProcStore:
        """Durable readers of topics."""
        ...

    @property
    def queues(self) -> QueueStore:
        """Items that wait to be worked on."""
        ...

    @property
    def channels(self) -> ChannelStore:
        """Lines inside queues."""
        ...

    @property
    def limits(self) -> LimitStore:
        """Rules on how much may run or wait."""
        ...

    @property
    def locks(self) -> LockStore:
        """Leases on key-values."""
        ...

    def run(self, op: Op[T]) -> T:
        """Execute an operation in the transaction."""
        ...

    async def arun(self, op: Op[T]) -> T:
        """Execute an operation in the transaction without blocking the event loop."""
        ...


class Store(Protocol):
    """A database with Headrace in it.

    ``run`` and ``arun`` execute an operation, alone in its transaction, and emit one telemetry
    event. Until the store's patience ends they automatically retry what is safe to retry:
    deadlocks and serialisation failures, a busy database, and a lost connection as long as COMMIT
    was not sent. After a COMMIT whose answer was lost they resolve its outcome. They raise
    ``OutcomeUnknown`` only if it can no longer be resolved. ``StoreUnavailable`` and
    ``StoreBusy`` mean that nothing was written.

    Cancelling ``arun`` waits for an outcome that is already under way.

    A store may be used from many threads, or from many tasks of one event loop. After a
    fork the child opens connections of its own.

    ``url`` is what it was opened with, for other processes that are to open the same one.
    """

    url: str

    @property
    def name(self) -> str:
        """The driver's name, for people."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do beyond the contract."""
        ...

    @property
    def topics(self) -> TopicStore:
        """Append-only logs."""
        ...

    @property
    def procs(self) -> ProcStore:
        """Durable readers of topics."""
        ...

    @property
    def queues(self) -> QueueStore:
        """Items that wait to be worked on."""
        ...

    @property
    def channels(self) -> ChannelStore:
        """Lines inside queues."""
        ...

    @property
    def limits(self) -> LimitStore:
        """Rules on how much may run or wait."""
        ...

    @property
    def locks(self) -> LockStore:
        """Leases on key-values."""
        ...

    @property
    def counters(self) -> CounterStore:
        """Slots that user code holds under the rules of limits."""
        ...

    @property
    def sinks(self) -> SinkStore:
        """Rows that are staged and published together."""
        ...

    @property
    def pipelines(self) -> PipelineStore:
        """Procs that share a definition."""
        ...

    @property
    def tokens(self) -> TokenStore:
        """Access tokens of a node's clients."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """Actions at due times."""
        ...

    @property
    def admin(self) -> AdminStore:
        """Maintenance and diagnosis."""
        ...

    def run(self, op: Op[T]) -> T:
        """Execute an operation and wait for it."""
        ...

    async def arun(self, op: Op[T]) -> T:
        """Execute an operation without blocking the event loop."""
        ...

    def waiter(self, topic: str) -> Waiter:
        """A waiter for records of a topic.

        Commits of this process notify it immediately, those of other processes within milliseconds
        where that is possible. Notifications may be lost or come without cause, so it also polls:
        every quarter of a second, or every second once notifications are known to arrive.
        """
        ...

    def transaction(self) -> AbstractContextManager[Session]:
        """A transaction of our own for several operations: committed when the block ends,
        rolled back when it raises. Only where the store ``supports_transactions``."""
        ...

    def atransaction(self) -> AbstractAsyncContextManager[Session]:
        """The same for async code."""
        ...

    def using(self, connection: Any) -> Session:
        """Join the user's open transaction on a connection of the user's own.

        ``InvalidOption`` for a kind of connection the store does not know, one to another
        database, or one in autocommit. The user commits. After the end of that transaction every
        operation raises ``NotConnected``, as far as the library of the connection shows it.
        """
        ...

    def ausing(self, connection: Any) -> Session:
        """The same for async code."""
        ...

    def close(self) -> None:
        """Release what ``run`` opened. Idempotent."""
        ...

    async def aclose(self) -> None:
        """Release what ``arun`` opened. Idempotent."""
        ...
