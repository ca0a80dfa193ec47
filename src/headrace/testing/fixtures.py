"""A client for your own tests: in memory, with a clock that you move and crashes on demand.

>>> def test_signup(headrace_memory):
...     signup(headrace_memory, "ann")
...     headrace_memory.assert_pushed("mail", {"to": "ann"})
...     headrace_memory.drain({"mail": send_mail})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace._sync.headrace import Headrace
from headrace.client.items import Item
from headrace.drivers.runner import Probe
from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.queues.items import State
from headrace.stores import open_store
from headrace.testing.clocks import FakeClock
from headrace.testing.faults import Crash
from headrace.worker.app import App
from headrace.worker.drain import Handled, handle_next

ANY: Any = object()
MAX_ITEMS = 10_000
# Names that users know, for operations that the store names differently.
NAMES = {
    "claim": "queues.claim",
    "settle": "queues.settle",
    "complete": "queues.settle",
    "push": "queues.push",
}

Handlers = App | Mapping[str, Callable[..., Any]]


class Rehearsal(Headrace):
    """A ``Headrace`` in memory whose time stands still until you move it."""

    def __init__(self, *, max_body: int = DEFAULT_MAX_BODY) -> None:
        self.clock = FakeClock()
        store = open_store(
            "memory://", durability=None, migrate="create", patience=1.0, clock=self.clock
        )
        super().__init__(store, max_body=max_body)

    @property
    def now(self) -> datetime:
        """The current time of this client."""
        return datetime.fromtimestamp(self.clock() / 1000, UTC)

    def travel(self, seconds: float = 0.0, **more: float) -> datetime:
        """Move the clock by seconds, or by ``hours=2``, ``days=1`` as ``timedelta`` accepts
        them."""
        self.clock.advance(seconds + timedelta(**more).total_seconds())
        return self.now

    def drain(self, handlers: Handlers, *, limit: int = MAX_ITEMS) -> list[Handled]:
        """Handle all that is due now, one by one, as a worker would; what became of each.

        ``handlers`` is an ``App``, or a handler for each queue by name. What is pushed meanwhile
        is handled too; what is rejected waits for its time: ``travel``, and drain again.
        """
        if isinstance(handlers, App):
            app = handlers
            handlers = {queue: app.handler(queue) for queue in app.queues}
        done: list[Handled] = []
        while True:
            before = len(done)
            for queue, handler in handlers.items():
                self.queues.create(queue, exist_ok=True)
                while (handled := handle_next(self, queue, handler)) is not None:
                    done.append(handled)
                    if len(done) >= limit:
                        raise InvalidOption(
                            f"drain handled {limit} items and there are more: does a handler push "
                            "or reschedule for ever?",
                            option="limit",
                        )
            if len(done) == before:
                return done

    def run_one(self, queue: str, handler: Callable[..., Any]) -> Handled | None:
        """Handle the next item that is due. None if there is none."""
        return handle_next(self, queue, handler)

    def waiting(self, queue: str) -> list[Item]:
        """The live items of a queue, by id."""
        reference = self.queues.create(queue, exist_ok=True)
        found = [
            item
            for state in (State.PLANNED, State.PENDING, State.ACTIVE)
            for item in reference.items(state, limit=MAX_ITEMS)
        ]
        return sorted(found, key=lambda item: item.id)

    def assert_pushed(
        self, queue: str, payload: Any = ANY, *, subject: Any = ANY, times: int | None = None
    ) -> list[Item]:
        """Live items of the queue match: at least one, or exactly ``times``; those items."""
        live = self.waiting(queue)
        found = [
            item
            for item in live
            if (payload is ANY or item.payload == payload)
            and (subject is ANY or item.subject == subject)
        ]
        if len(found) == times or (times is None and found):
            return found
        wanted = "at least one" if times is None else str(times)
        there = "\n".join(f"  {item.id} {item.subject!r} {item.payload!r}" for item in live)
        raise AssertionError(
            f"queue {queue!r} has {len(found)} matching items, not {wanted}; it holds:\n"
            f"{there or '  nothing'}"
        )

    @contextmanager
    def crash_after(self, operation: str) -> Iterator[None]:
        """In the block the process dies when this operation is done (``claim``, ``push``, ...).

        What it did stays done, and nothing after it happens: the block ends there.
        """
        with self._crashing(operation, "committed"):
            yield

    @contextmanager
    def crash_before(self, operation: str) -> Iterator[None]:
        """Within the block, the process dies before this operation takes effect."""
        with self._crashing(operation, "commit"):
            yield

    @contextmanager
    def _crashing(self, operation: str, point: str) -> Iterator[None]:
        store: Any = self._store
        before: Probe = store.probe
        wanted = NAMES.get(operation, operation)

        def probe(name: str, where: int | str) -> None:
            before(name, where)
            if (name, where) == (wanted, point):
                raise Crash(f"{operation} at {point}")

        store.probe = probe
        try:
            yield
        except Crash:
            return
        finally:
            store.probe = before
        raise AssertionError(f"the block did no {operation!r}, so there was nothing to crash")
