"""A worker's inside: what it is made of, and how it comes to its end."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from headrace.contract.items import WorkerRow, WorkerStatus
from headrace.contract.store import Store
from headrace.model.checks import seconds
from headrace.model.queues import QueueInfo
from headrace.worker.claiming import Intake, Wishes
from headrace.worker.events import Listeners, StateChange
from headrace.worker.handlers import Backoff, Handler
from headrace.worker.holding import Holds, monotonic
from headrace.worker.settling import Numbers, Outbox
from headrace.worker.status import Switch

HAND_BACK = 5.0
"""How long the end of a worker waits for the store to take back what was not done."""

GLANCE = 0.1


class Lanes(Protocol):
    """Where handlers run: in threads, or on an event loop."""

    @property
    def busy(self) -> int: ...
    def resize(self, size: int) -> None: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...
    def cancel(self) -> None: ...
    def owns(self, thread: threading.Thread) -> bool: ...
    def runs(self, task: object) -> bool: ...


class Heart(Protocol):
    """What beats for a worker."""

    def poke(self) -> None: ...
    def expect(self, extension: float) -> None: ...


class Engine:
    """One worker on one queue. ``Worker`` and ``AsyncWorker`` are its faces."""

    def __init__(
        self,
        store: Store,
        queue: str,
        function: Callable[..., Any],
        *,
        client: Any,
        name: str,
        wishes: Wishes,
        max_body: int,
        is_batch: bool,
        backoff: Backoff | None,
        heart: Heart,
        ended: Callable[[Engine], None],
    ) -> None:
        self.id = str(uuid.uuid4())
        self.pid = os.getpid()
        self.queue = queue
        self.name = name
        self.store = store
        self.numbers = Numbers()
        self.listeners = Listeners(queue)
        self.switch = Switch(lambda: self.holds.is_empty, self._state_changed)
        self.holds = Holds(self.switch.look, heart.expect)
        self.intake = Intake(
            store,
            queue,
            worker=name,
            wishes=wishes,
            holds=self.holds,
            switch=self.switch,
            listeners=self.listeners,
            loaded=self._loaded,
            paused=heart.poke,
        )
        self.outbox = self.intake.outbox = Outbox(
            store,
            queue,
            max_body=max_body,
            holds=self.holds,
            listeners=self.listeners,
            numbers=self.numbers,
            is_more=lambda: bool(self.intake.buffer),
            is_over=lambda: self.switch.is_ended and self.holds.is_empty,
        )
        self.handler = Handler(
            function,
            client=client,
            worker=name,
            switch=self.switch,
            listeners=self.listeners,
            is_batch=is_batch,
            backoff=backoff,
        )
        self._wishes = wishes
        self._heart = heart
        self._ended = ended
        self._deadline = float("inf")
        self._stopping = threading.Lock()
        self._is_over = threading.Event()
        self._settler = threading.Thread(
            target=self.outbox.run, name=f"headrace-{queue}-outbox", daemon=True
        )
        self.lanes: Lanes

    def start(self, lanes: Lanes) -> None:
        """Begin to work."""
        self.lanes = lanes
        self._settler.start()
        lanes.resize(self._wishes.concurrency or 1)

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def row(self, client: str, rate: float) -> WorkerRow:
        """What the store is told of it."""
        return WorkerRow(
            id=self.id,
            client=client,
            queue=self.queue,
            current=self.switch.current,
            version=self.intake.version,
            busy=self.lanes.busy,
            done=self.numbers.done,
            failed=self.numbers.failed,
            rate=rate,
            error=self.listeners.last_error,
        )

    def order(self, desired: WorkerStatus) -> None:
        """Do what the store desires."""
        if desired == "running" and self.switch.desired != "running":
            # Whoever stopped it may have changed the settings.
            self.intake.reload()
        self.switch.order(desired)

    def stop(self, grace: float, *, is_inside: bool = False) -> None:
        """Claim no more; wait for what runs, at most so long; hand back the rest.

        Whoever is inside of it, a handler or a listener, does not wait for that.
        """
        if self.pid != os.getpid():
            return  # its threads stayed behind in the parent
        self._deadline = min(self._deadline, monotonic() + seconds("grace", grace))
        self.switch.begin_end()
        self.holds.poke()
        if is_inside or self._is_inside():
            threading.Thread(target=self._finish, name="headrace-stop", daemon=True).start()
        else:
            self._finish()

    def kill(self) -> None:
        """Stop now. What runs is left to itself, and its outcome counts if it comes to one."""
        if self.pid != os.getpid() or self.is_over:
            return
        self.switch.begin_end()
        if threading.current_thread() is not self._settler:
            self.outbox.drain(HAND_BACK)
        self._close(GLANCE)

    def abandon(self) -> None:
        """Nothing runs any more, and nothing will: hand back everything."""
        self.outbox.release(self.holds.all())
        self.kill()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is over."""
        return self.pid != os.getpid() or self._is_over.wait(timeout)

    def _finish(self) -> None:
        with self._stopping:
            if self.is_over:
                return
            if not self.holds.wait_empty(lambda: self._deadline - monotonic()):
                self.outbox.release(self.holds.all())
                self.lanes.cancel()
                give_up = monotonic() + HAND_BACK
                if not self.holds.wait_empty(lambda: give_up - monotonic()):
                    self.outbox.give_up()
            self._close(HAND_BACK)

    def _close(self, patience: float) -> None:
        """End its threads, and see that they are through with the store."""
        self.lanes.close()
        self.switch.end()
        self.intake.close(patience)
        self.outbox.wake()
        if self.holds.is_empty:
            self._await_settler(patience)
        self._ended(self)
        self._is_over.set()

    def leave(self, patience: float) -> None:
        """The client is about to be closed: what still runs has nobody to tell."""
        self.outbox.leave()
        self._await_settler(patience)

    def _await_settler(self, patience: float) -> None:
        if threading.current_thread() is not self._settler:
            self._settler.join(patience)

    def _is_inside(self) -> bool:
        here = threading.current_thread()
        return here is self._settler or self.lanes.owns(here)

    def _loaded(self, info: QueueInfo) -> None:
        self.listeners.follow(info.settings.log_level)
        self.lanes.resize(self._wishes.concurrency or info.settings.worker_concurrency)
        # Whoever changed the settings waits to hear that they have arrived.
        self._heart.poke()

    def _state_changed(self, before: WorkerStatus, after: WorkerStatus) -> None:
        if after != "running":
            self.intake.hand_back()
        self.lanes.wake()
        self._heart.poke()
        self.listeners.log(logging.INFO, f"{before} -> {after}", "state")
        change = StateChange(queue=self.queue, before=before, after=after)
        self.listeners.tell("state", change)
