"""The engine of a worker: its parts, and how it ends."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from headrace.contract.items import WorkerRow, WorkerStatus
from headrace.contract.store import Store
from headrace.errors import AccessError
from headrace.model.checks import seconds
from headrace.model.queues.settings import QueueInfo
from headrace.worker.completer import Completer, WorkerCounts
from headrace.worker.events import Listeners, StateChange
from headrace.worker.handlers import Handler
from headrace.worker.in_flight import InFlight, monotonic
from headrace.worker.prefetch import Prefetcher
from headrace.worker.queue_settings import PrefetchOptions
from headrace.worker.status import Switch
from headrace.worker.worker_options import Backoff

RELEASE_SECONDS = 5.0
"""How long the end of a worker waits for the store to release items that were not handled."""

POLL_SECONDS = 0.1


class Executor(Protocol):
    """Runs handlers: in threads, or on an event loop."""

    @property
    def busy(self) -> int: ...
    def resize(self, size: int) -> None: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...
    def cancel(self) -> None: ...
    def owns(self, thread: threading.Thread) -> bool: ...
    def runs(self, task: object) -> bool: ...


class HeartbeatSource(Protocol):
    """The heartbeat of a worker."""

    def poke(self) -> None: ...
    def expect(self, extension: float) -> None: ...


class WorkerEngine:
    """One worker on one queue, behind ``Worker`` or ``AsyncWorker``."""

    executor: Executor

    def __init__(
        self,
        store: Store,
        queue: str,
        function: Callable[..., Any],
        *,
        client: Any,
        name: str,
        options: PrefetchOptions,
        max_body: int,
        is_batch: bool,
        backoff: Backoff | None,
        heartbeat: HeartbeatSource,
        ended: Callable[[WorkerEngine], None],
    ) -> None:
        self.id = str(uuid.uuid4())
        self.pid = os.getpid()
        self.queue = queue
        self.name = name
        self.store = store
        self.counts = WorkerCounts()
        self.error: AccessError | None = None
        self.unsettled: tuple[int, ...] = ()
        self.listeners = Listeners(queue)
        self.switch = Switch(lambda: self.in_flight.is_empty, self._state_changed)
        self.in_flight = InFlight(self.switch.update, heartbeat.expect)
        self.prefetcher = self._make_prefetcher(options, heartbeat)
        self.completer = self.prefetcher.completer = self._make_completer(max_body)
        self.handler = Handler(
            function,
            client=client,
            worker=name,
            switch=self.switch,
            listeners=self.listeners,
            is_batch=is_batch,
            backoff=backoff,
        )
        self._options = options
        self._heartbeat = heartbeat
        self._ended = ended
        self._deadline = float("inf")
        self._stopping = threading.Lock()
        self._is_over = threading.Event()
        self._completer_thread = threading.Thread(
            target=self.completer.run, name=f"headrace-{queue}-completer", daemon=True
        )

    def _make_prefetcher(self, options: PrefetchOptions, heartbeat: HeartbeatSource) -> Prefetcher:
        return Prefetcher(
            self.store,
            self.queue,
            worker=self.name,
            options=options,
            in_flight=self.in_flight,
            switch=self.switch,
            listeners=self.listeners,
            loaded=self._settings_loaded,
            paused=heartbeat.poke,
            refused=self.refused,
        )

    def _make_completer(self, max_body: int) -> Completer:
        return Completer(
            self.store,
            self.queue,
            max_body=max_body,
            in_flight=self.in_flight,
            listeners=self.listeners,
            counts=self.counts,
            is_more=lambda: bool(self.prefetcher.buffer),
            is_over=lambda: self.switch.is_ended and self.in_flight.is_empty,
        )

    def start(self, executor: Executor) -> None:
        """Begin to claim and to run handlers."""
        self.executor = executor
        self._completer_thread.start()
        executor.resize(self._options.concurrency or 1)

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def row(self, client: str, rate: float) -> WorkerRow:
        """The worker as the heartbeat reports it to the store."""
        return WorkerRow(
            id=self.id,
            client=client,
            queue=self.queue,
            current=self.switch.current,
            version=self.prefetcher.settings.version,
            busy=self.executor.busy,
            done=self.counts.done,
            failed=self.counts.failed,
            rate=rate,
            error=self.listeners.last_error,
        )

    def order(self, desired: WorkerStatus) -> None:
        """Follow an order of the store."""
        if desired == "running" and self.switch.desired != "running":
            # The update that stopped it may have changed the settings.
            self.prefetcher.settings.reload()
        self.switch.order(desired)

    def stop(self, grace: float, *, is_inside: bool = False) -> None:
        """Claim no more; wait for handlers, at most so long; release the other items.

        A handler or a listener of the worker does not wait for that.
        """
        if self.pid != os.getpid():
            return  # its threads run in the parent
        self._deadline = min(self._deadline, monotonic() + seconds("grace", grace))
        self.switch.begin_end()
        self.in_flight.poke()
        if is_inside or self._is_inside():
            threading.Thread(target=self._finish, name="headrace-stop", daemon=True).start()
        else:
            self._finish()

    def kill(self) -> None:
        """Stop now. Handlers that run go on, and their outcomes count if they come."""
        if self.pid != os.getpid() or self.is_over:
            return
        self.switch.begin_end()
        if threading.current_thread() is not self._completer_thread:
            self.completer.drain(RELEASE_SECONDS)
        self._close(POLL_SECONDS)

    def refused(self, error: AccessError) -> None:
        """A node does not accept the worker. That ends it, unless it has claimed before: then the
        access may be given back."""
        if self.error is None and not self.prefetcher.has_claimed:
            self.error = error
            self.stop(0, is_inside=True)

    def abandon(self) -> None:
        """No handler runs or can run: release everything."""
        self.completer.release(self.in_flight.all())
        self.kill()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is over."""
        return self.pid != os.getpid() or self._is_over.wait(timeout)

    def disconnect(self, timeout: float) -> None:
        """The client is being closed: outcomes of handlers that still run are not stored."""
        self.completer.disconnect()
        self._join_completer(timeout)

    def _finish(self) -> None:
        with self._stopping:
            if self.is_over:
                return
            since = monotonic()
            if self.in_flight.wait_empty(lambda: self._seconds_left(since)):
                self._close(RELEASE_SECONDS)
                return
            if self.in_flight.has_items:
                self.completer.release(self.in_flight.all())
                self.executor.cancel()
                give_up = monotonic() + RELEASE_SECONDS
                self.in_flight.wait_empty(lambda: give_up - monotonic())
            if not self.in_flight.is_empty:
                self._note_unsettled()
                self.completer.give_up()
            # A claim under way has had its time: what it brings is released, if that is possible.
            self._close(POLL_SECONDS if self.in_flight.is_claiming else RELEASE_SECONDS)

    def _seconds_left(self, since: float) -> float:
        """How long to wait still: the grace is for handlers, not for a claim under way."""
        left = self._deadline - monotonic()
        if self.in_flight.has_items:
            return left
        return min(left, since + RELEASE_SECONDS - monotonic())

    def _note_unsettled(self) -> None:
        self.unsettled = tuple(sorted(item.state.id for item in self.in_flight.all()))
        if self.unsettled:
            ids = ", ".join(map(str, self.unsettled))
            self.listeners.log(
                logging.ERROR,
                f"the store did not answer, so these items are not settled: {ids}; they are "
                "claimed again when their leases end",
                "settle",
            )

    def _close(self, timeout: float) -> None:
        """End its threads, and wait until they no longer use the store."""
        self.executor.close()
        self.switch.end()
        self.prefetcher.close(timeout)
        self.completer.wake()
        if self.in_flight.is_empty:
            self._join_completer(timeout)
        self._ended(self)
        self._is_over.set()

    def _join_completer(self, timeout: float) -> None:
        if threading.current_thread() is not self._completer_thread:
            self._completer_thread.join(timeout)

    def _is_inside(self) -> bool:
        here = threading.current_thread()
        return here is self._completer_thread or self.executor.owns(here)

    def _settings_loaded(self, info: QueueInfo) -> None:
        self.listeners.follow(info.settings)
        self.executor.resize(self._options.concurrency or info.settings.concurrency)
        # An update of the settings waits until its workers report the new version.
        self._heartbeat.poke()

    def _state_changed(self, before: WorkerStatus, after: WorkerStatus) -> None:
        if after != "running":
            self.prefetcher.release_buffer()
        self.executor.wake()
        self._heartbeat.poke()
        self.listeners.log(logging.INFO, f"{before} -> {after}", "state")
        change = StateChange(queue=self.queue, before=before, after=after)
        self.listeners.emit("state", change)
