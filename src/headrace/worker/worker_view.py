"""What blocking and async workers share: the public side of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.contract.items import WorkerStatus
from headrace.errors import AccessError
from headrace.worker.events import Callback, EventName

if TYPE_CHECKING:
    from headrace.worker.engine import WorkerEngine

DEFAULT_GRACE = 30.0


class WorkerView:
    """What both kinds of workers have."""

    def __init__(self, engine: WorkerEngine) -> None:
        self._engine = engine

    @property
    def id(self) -> str:
        """New for each worker of each process."""
        return self._engine.id

    @property
    def queue(self) -> str:
        return self._engine.queue

    @property
    def name(self) -> str:
        """The name that items and errors show for it."""
        return self._engine.name

    @property
    def status(self) -> WorkerStatus:
        """``running``, ``paused``, ``stopping`` or ``stopped``."""
        return self._engine.switch.current

    @property
    def busy(self) -> int:
        """How many items its handlers are working on."""
        return self._engine.executor.busy

    @property
    def done(self) -> int:
        """How many items it has settled."""
        return self._engine.counts.done

    @property
    def failed(self) -> int:
        """How many of those were rejected or killed."""
        return self._engine.counts.failed

    @property
    def lost(self) -> int:
        """How many items were lost before they were settled."""
        return self._engine.counts.lost

    @property
    def unsettled(self) -> tuple[int, ...]:
        """The ids of items that it could not settle when it was stopped, because the store did
        not answer. They are claimed again when their leases end."""
        return self._engine.unsettled

    @property
    def error(self) -> AccessError | None:
        """Why it ended before its first claim: the node does not accept it. None otherwise."""
        return self._engine.error

    def on(self, event: EventName, callback: Callback) -> Callable[[], None]:
        """Call back on each event from now on; returns the function that ends it.

        ``data`` (``Done``: an item was settled), ``error`` (``Trouble``: a handler raised, or the
        store failed and is tried again), ``state`` (``StateChange``) and ``lost`` (``Lost``: the
        worker no longer has a claim). Callbacks run in the worker's threads, those of an async
        worker on its event loop, where they may be coroutine functions; they should be quick.
        """
        return self._engine.listeners.on(event, callback)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.queue!r}, {self.status}>"
