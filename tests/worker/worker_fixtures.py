"""Fixtures of worker tests: a queue and its store, events received, and an interceptor of
operations."""

import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import headrace
from headrace.contract.items import ClaimRequest, Counts, FinishedItem, PushCall
from headrace.core.documents import Doc
from headrace.core.documents import document as encoded
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.queues.items import Document
from headrace.worker import Worker, start_worker

PATIENCE = 20.0


def document(payload: Any, **fields: Any) -> Document:
    """A document as the client would push it."""
    return encoded(Doc(payload, **fields), max_body=DEFAULT_MAX_BODY)


class Signal:
    """Records what happens, so that a test can wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.seen: list[Any] = []

    def __call__(self, what: Any = None) -> None:
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[Any]:
        """Wait until it happened that many times."""
        return self.wait_for(lambda seen: len(seen) >= count)

    def wait_for(self, condition: Callable[[list[Any]], bool]) -> list[Any]:
        with self._changed:
            is_there = self._changed.wait_for(lambda: condition(self.seen), PATIENCE)
            assert is_there, f"waited in vain; this is what came: {self.seen}"
            return list(self.seen)


class Gate:
    """Stops its callers until it is opened."""

    def __init__(self) -> None:
        self.arrived = Signal()
        self._open = threading.Event()

    def __call__(self, what: Any = None) -> None:
        self.arrived(what)
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()


class StoreInterceptor:
    """Wraps a store: it records each operation, and can stop it or make it fail."""

    def __init__(self, store: Any) -> None:
        self._run = store.run
        self._gates: dict[str, Gate] = {}
        self._errors: dict[str, deque[Exception]] = defaultdict(deque)
        self._late_errors: dict[str, deque[Exception]] = defaultdict(deque)
        self.ran: dict[str, Signal] = defaultdict(Signal)
        self.failed = Counter[str]()
        self.settles: list[int] = []
        settle = store.queues.settle

        def counted(queue: str, outcomes: Any) -> Any:
            self.settles.append(len(outcomes))
            return settle(queue, outcomes)

        store.queues.settle = counted
        store.run = self.run

    def stop_next(self, operation: str) -> Gate:
        """Stop the next operation of this name before it runs."""
        gate = self._gates[operation] = Gate()
        return gate

    def fail_next(self, operation: str, *errors: Exception) -> None:
        """Let the next operations of this name fail, one per error."""
        self._errors[operation].extend(errors)

    def fail_after_next(self, operation: str, error: Exception) -> None:
        """Let the next operation take effect, and then fail."""
        self._late_errors[operation].append(error)

    def run(self, op: Any) -> Any:
        gate = self._gates.pop(op.name, None)
        if gate is not None:
            gate(op.name)
        if self._errors[op.name]:
            op.accept()
            self.failed[op.name] += 1
            raise self._errors[op.name].popleft()
        answer = self._run(op)
        if self._late_errors[op.name]:
            raise self._late_errors[op.name].popleft()
        self.ran[op.name](answer)
        return answer


class WorkerEnv:
    """A client with one queue, and workers that end with the test."""

    def __init__(self, url: str, queue: str = "q", **options: Any) -> None:
        self.url = url
        self.name = queue
        self.hr = headrace.connect(url, **options)
        self.outside = headrace.connect(url, **options)
        self.interceptor = StoreInterceptor(self.hr._store)
        self.workers: list[Worker] = []

    def run(self, operation: str, *args: Any) -> Any:
        """Run an operation that the interceptor does not see."""
        store: Any = self.outside._store
        return store.run(attrgetter(operation)(store)(*args))

    def create(self, **settings: Any) -> Any:
        return self.run("queues.create", self.name, settings, False)

    def update(self, **settings: Any) -> Any:
        return self.run("queues.update", self.name, settings)

    def push(self, *payloads: Any, **options: Any) -> list[int]:
        documents = tuple(
            one if isinstance(one, Document) else document(one, **options) for one in payloads
        )
        [pushed] = self.run("queues.push", [PushCall(queue=self.name, documents=documents)])
        return list(pushed.ids)

    def work(self, handler: Any, **options: Any) -> Worker:
        worker = start_worker(self.hr, self.name, handler, **options)
        self.workers.append(worker)
        return worker

    def item(self, item: int) -> Any:
        return self.run("queues.item", self.name, item)

    def dead(self) -> list[FinishedItem]:
        found: list[FinishedItem] = self.run("queues.items", self.name, -1, 0, 1000)
        return found

    def errors(self) -> list[Any]:
        found: list[Any] = self.run("queues.logged_errors", self.name, None, 2**62, 1000)
        return found

    def claim(self, count: int = 1) -> list[Any]:
        """Claim with a different token than the worker."""
        request = ClaimRequest(queue=self.name, token=f"other-{time.monotonic_ns()}", count=count)
        return list(self.run("queues.claim", request).items)

    @property
    def counts(self) -> Counts:
        [backlog] = self.run("queues.counts", [self.name], True)
        counts: Counts = backlog.counts
        return counts

    def close(self) -> None:
        for worker in self.workers:
            worker.stop(0)
        self.hr.close()
        self.outside.close()


def events_of(worker: Any, event: str) -> Signal:
    """All events of a kind, from now on."""
    signal = Signal()
    worker.on(event, signal)
    return signal


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition that has no signal."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain for {what}"
        time.sleep(0.001)


def id_of(value: object) -> str:
    """The id of a test: without addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
