"""What tests of workers are made of: a queue from outside, ears, and a valve before the store."""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

import headrace
from headrace.contract.items import Counts, EndedItem, PushCall, Take
from headrace.core.documents import Doc
from headrace.core.documents import document as encoded
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.items import Document
from headrace.worker import Worker, register_worker

PATIENCE = 20.0


def document(payload: Any, **fields: Any) -> Document:
    """A document as the client would push it."""
    return encoded(Doc(payload, **fields), max_body=DEFAULT_MAX_BODY)


class Signal:
    """Counts what happens, so that a test can wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.seen: list[Any] = []

    def __call__(self, what: Any = None) -> None:
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def wait(self, count: int = 1) -> list[Any]:
        """Wait until it happened so often."""
        return self.wait_for(lambda seen: len(seen) >= count)

    def wait_for(self, condition: Callable[[list[Any]], bool]) -> list[Any]:
        with self._changed:
            is_there = self._changed.wait_for(lambda: condition(self.seen), PATIENCE)
            assert is_there, f"waited in vain; this is what came: {self.seen}"
            return list(self.seen)


class Gate:
    """Holds up whoever comes through, until it is opened."""

    def __init__(self) -> None:
        self.arrived = Signal()
        self._open = threading.Event()

    def __call__(self, what: Any = None) -> None:
        self.arrived(what)
        assert self._open.wait(PATIENCE), "nobody opened the gate"

    def open(self) -> None:
        self._open.set()


class Valve:
    """Stands before a store: sees each operation, and holds up or breaks those it is told to."""

    def __init__(self, store: Any) -> None:
        self._run = store.run
        self._gates: dict[str, Gate] = {}
        self._errors: dict[str, deque[Exception]] = defaultdict(deque)
        self._late_errors: dict[str, deque[Exception]] = defaultdict(deque)
        self.ran: dict[str, Signal] = defaultdict(Signal)
        self.failed = Counter[str]()
        self.settles: list[int] = []
        settle = store.settle

        def counted(queue: str, outcomes: Any) -> Any:
            self.settles.append(len(outcomes))
            return settle(queue, outcomes)

        store.settle = counted
        store.run = self.run

    def hold(self, operation: str) -> Gate:
        """Hold up the next such operation, before it runs."""
        gate = self._gates[operation] = Gate()
        return gate

    def break_next(self, operation: str, *errors: Exception) -> None:
        """Let the next ones fail in turn."""
        self._errors[operation].extend(errors)

    def break_after(self, operation: str, error: Exception) -> None:
        """Let the next one take effect, and fail all the same."""
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


class Shop:
    """A client with one queue, and workers that are ended with the test."""

    def __init__(self, url: str, queue: str = "q", **options: Any) -> None:
        self.url = url
        self.name = queue
        self.hr = headrace.connect(url, **options)
        self.outside = headrace.connect(url, **options)
        self.valve = Valve(self.hr._store)
        self.workers: list[Worker] = []

    def run(self, operation: str, *args: Any) -> Any:
        """An operation that the worker's valve does not see."""
        store: Any = self.outside._store
        return store.run(getattr(store, operation)(*args))

    def create(self, **settings: Any) -> Any:
        return self.run("create_queue", self.name, settings, False)

    def update(self, **settings: Any) -> Any:
        return self.run("update_queue", self.name, settings)

    def push(self, *payloads: Any, **options: Any) -> list[int]:
        documents = tuple(
            one if isinstance(one, Document) else document(one, **options) for one in payloads
        )
        [pushed] = self.run("push", [PushCall(queue=self.name, documents=documents)])
        return list(pushed.ids)

    def work(self, handler: Any, **options: Any) -> Worker:
        worker = register_worker(self.hr, self.name, handler, **options)
        self.workers.append(worker)
        return worker

    def item(self, item: int) -> Any:
        return self.run("item", self.name, item)

    def dead(self) -> list[EndedItem]:
        found: list[EndedItem] = self.run("items", self.name, -1, 0, 1000)
        return found

    def errors(self) -> list[Any]:
        found: list[Any] = self.run("logged_errors", self.name, None, 2**62, 1000)
        return found

    def claim(self, count: int = 1) -> list[Any]:
        """Claim as somebody else."""
        take = Take(queue=self.name, token=f"other-{time.monotonic_ns()}", count=count)
        return list(self.run("claim_items", take).items)

    @property
    def counts(self) -> Counts:
        [backlog] = self.run("backlogs", [self.name], True)
        counts: Counts = backlog.counts
        return counts

    def close(self) -> None:
        for worker in self.workers:
            worker.stop(0)
        self.hr.close()
        self.outside.close()


def heard(worker: Any, event: str) -> Signal:
    """All events of a kind, from now on."""
    signal = Signal()
    worker.on(event, signal)
    return signal


def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something that gives no signal."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain for {what}"
        time.sleep(0.001)
