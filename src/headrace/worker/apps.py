"""Apps: tasks by name, and the handler that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from headrace.client.clients import AsyncClient, Client
from headrace.errors import InvalidOption, NotConnected
from headrace.model.checks import positive
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import Failure
from headrace.model.names import check_queue
from headrace.model.queues import NO_LIMIT
from headrace.stores import open_store
from headrace.worker.handlers import Context
from headrace.worker.items import Item, Wait
from headrace.worker.outcomes import Kill, Outcome, Reject
from headrace.worker.pipelines import DeclaredPipeline, PipelineOptions, Topics, declare
from headrace.worker.registering import register_worker
from headrace.worker.tasks import Delays, Task, TaskOptions
from headrace.worker.workers import AsyncWorker, Worker

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_current: contextvars.ContextVar[tuple[Item, Context | None]] = contextvars.ContextVar("current")


class App:
    """Functions as tasks of queues.

    >>> app = App("sqlite:///flow.db")
    >>> @app.task(queue="mail", retry=3)
    ... def send(to: str, *, text: str = "") -> None: ...
    >>> send.push("ann", text="hello")
    >>> app.work()

    It opens its own client when it is first needed, or uses the one it is bound to.
    """

    def __init__(
        self, url: str | None = None, *, client: Client | AsyncClient | None = None
    ) -> None:
        self._url = url
        self._client = client
        self._lock = threading.Lock()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.pipelines: dict[str, DeclaredPipeline] = {}

    @property
    def client(self) -> Client | AsyncClient:
        """The client it pushes with."""
        with self._lock:
            if self._client is None:
                if self._url is None:
                    raise NotConnected("this app has no client: use App(url) or app.bind(client).")
                self._client = Client(open_store(self._url), max_body=DEFAULT_MAX_BODY)
            return self._client

    @property
    def is_bound(self) -> bool:
        """Whether it knows a store."""
        return self._client is not None or self._url is not None

    def bind(self, client: Client | AsyncClient) -> Self:
        """Push with this client from now on."""
        with self._lock:
            self._client = client
        return self

    @property
    def queues(self) -> list[str]:
        """The queues of its tasks, by name."""
        return sorted({task.queue for task in self.tasks.values()})

    def task(
        self,
        *,
        queue: str,
        name: str | None = None,
        retry: int | None = None,
        subject: Callable[..., str | None] | None = None,
        priority: int = 0,
        delay: Wait | None = None,
        timeout: timedelta | float | None = None,
        backoff: Delays | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function, or a coroutine function, a task of a queue.

        ``name`` is what is stored, the function's own unless given: keep it when you rename the
        function. ``retry`` is how many times a call is handed out before it is dead, ``backoff``
        how long it waits in between, ``timeout`` its lease. ``subject`` makes one of the call's
        arguments: while a call of that subject waits or runs, another one is not pushed.
        """
        check_queue(queue)
        if retry is not None and retry != NO_LIMIT:
            positive("retry", retry)
        options = TaskOptions(
            subject=subject, priority=priority, delay=delay, retry=retry, timeout=timeout
        )

        def declare(function: Callable[P, R]) -> Task[P, R]:
            known = name or function.__name__
            if known in self.tasks:
                raise InvalidOption(
                    f"this app has a task {known!r} already: give one of them another name=.",
                    option="name",
                )
            task = Task(self, function, name=known, queue=queue, options=options, backoff=backoff)
            self.tasks[known] = task
            return task

        return declare

    def pipeline(
        self, *, source: Topics, name: str | None = None, **options: Unpack[PipelineOptions]
    ) -> Callable[[F], F]:
        """Make a function the processor of a pipeline, which has the function's name unless given.

        >>> @app.pipeline(source="orders", to="invoices")
        ... def invoice(order: dict) -> dict: ...

        The options are those of ``system_proc``. The function stays as it is. The pipeline is
        stored and run by ``headrace pipeline run module:app`` or ``headrace.pipelines.run(app)``.
        """
        return declare(self.pipelines, name, source, options)

    def handle(self, item: Item, context: Context | None = None) -> Outcome | None:
        """Run the task of an item: the handler for a worker. A coroutine gets a loop of its own."""
        call = self._call(item)
        if isinstance(call, Kill):
            return call
        task, run = call
        with _as_current(item, context):
            try:
                result = asyncio.run(run()) if task.is_async else run()
            except Exception as error:  # the task's own: it says when it is tried again
                return _failed(task, item, error)
        return _outcome(result)

    async def ahandle(self, item: Item, context: Context | None = None) -> Outcome | None:
        """``handle`` on an event loop, where coroutines run; functions run in threads."""
        call = self._call(item)
        if isinstance(call, Kill):
            return call
        task, run = call
        with _as_current(item, context):
            try:
                result = await (run() if task.is_async else _in_thread(run))
            except Exception as error:  # as above
                return _failed(task, item, error)
        return _outcome(result)

    def handler(self, queue: str) -> Callable[..., Any]:
        """The handler for a queue: on an event loop if any of its tasks is a coroutine."""
        mine = [task for task in self.tasks.values() if task.queue == queue]
        return self.ahandle if any(task.is_async for task in mine) else self.handle

    def work(
        self,
        client: Client | AsyncClient | None = None,
        *,
        queues: Mapping[str, int | None] | None = None,
    ) -> list[Worker | AsyncWorker]:
        """Register a worker for each of its queues, or for these, with their concurrency."""
        wanted = dict.fromkeys(self.queues) if queues is None else queues
        found = client or self.client
        return [
            register_worker(found, queue, self.handler(queue), concurrency=concurrency)
            for queue, concurrency in wanted.items()
        ]

    def _call(self, item: Item) -> Kill | tuple[Task[..., Any], Callable[[], Any]]:
        """The task of an item and its call; Kill for what no retry would mend."""
        payload = item.payload
        is_call = isinstance(payload, dict) and set(payload) == {"task", "args", "kwargs"}
        if not is_call or not isinstance(payload["task"], str):
            return _kill("NotATask", "the payload is not the call of a task")
        task = self.tasks.get(payload["task"])
        if task is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            return _kill("UnknownTask", f"no task {payload['task']!r} here: there is {known}")
        try:
            bound = task.signature.bind(*payload["args"], **payload["kwargs"])
        except TypeError as error:
            return _kill("WrongArguments", f"{task.name}{task.signature}: {error}")
        return task, functools.partial(task.function, *bound.args, **bound.kwargs)


async def _in_thread(run: Callable[[], Any]) -> Any:
    """Run a function in a thread of its own.

    The loop's pool has fewer threads than a worker may have handlers, and waits for all of them
    when the process ends.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result, error = context.run(run), None
        except BaseException as raised:  # it is raised where it is awaited
            result, error = None, raised
        # The loop may have been closed meanwhile, and nobody be left to hear of it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_give, answer, result, error)

    threading.Thread(target=work, name="headrace-task", daemon=True).start()
    return await answer


def _give(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return  # nobody waits any more
    if error is None:
        answer.set_result(result)
    elif isinstance(error, StopIteration):
        # A future cannot hold it, since it would end the coroutine that awaits it.
        answer.set_exception(RuntimeError(f"the task raised {error!r}"))
    else:
        answer.set_exception(error)


def current_item() -> Item | None:
    """The item of the task that runs here, if one does."""
    found = _current.get(None)
    return None if found is None else found[0]


def current_context() -> Context | None:
    """The context of the task that runs here, if a worker runs it."""
    found = _current.get(None)
    return None if found is None else found[1]


@contextmanager
def _as_current(item: Item, context: Context | None) -> Iterator[None]:
    token = _current.set((item, context))
    try:
        yield
    finally:
        _current.reset(token)


def _failed(task: Task[..., Any], item: Item, error: Exception) -> Outcome:
    try:
        return Reject(error, delay=task.delay_after(item, error))
    except Exception as mistake:  # a bad backoff must not hide what it was asked about
        error.add_note(f"and its backoff raised {mistake!r}")
        return Reject(error)


def _outcome(result: Any) -> Outcome | None:
    """What a task returns is its own affair, unless it is an outcome."""
    if isinstance(result, type) and issubclass(result, Outcome):
        return result()
    return result if isinstance(result, Outcome) else None


def _kill(type: str, message: str) -> Kill:
    return Kill(Failure(type=type, message=message))
