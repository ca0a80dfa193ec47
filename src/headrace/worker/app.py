"""Apps: tasks by name, and the handler that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Never, ParamSpec, Self, TypeVar, Unpack

from headrace.client._sync.client import Client
from headrace.contract.shield import is_cancelled
from headrace.core.documents import Channel
from headrace.core.limits import GroupBy
from headrace.core.schedules import ScheduleOptions
from headrace.errors import InvalidBody, InvalidOption, NotConnected
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.failures import Failure, words_of
from headrace.model.fields import shown
from headrace.model.limits.rules import Subject as LimitSubject
from headrace.model.names import writable_queue
from headrace.model.times import Duration, duration_ms
from headrace.stores import open_store
from headrace.worker._async.worker import AsyncWorker
from headrace.worker._sync.worker import Worker
from headrace.worker.app_limits import DeclaredLimits
from headrace.worker.handlers import Context
from headrace.worker.items import Item
from headrace.worker.lifespan import Lifespan, check_lifespan
from headrace.worker.middleware import Middleware, TaskCall, chain, check_middleware
from headrace.worker.outcomes import HandlerOutcome, Kill, Reject, RetryLater
from headrace.worker.pipelines import DeclaredPipeline, PipelineOptions, Topics, declare, name_of
from headrace.worker.retry import Delays, Retry, check_retry
from headrace.worker.schedules import DeclaredSchedules, timing_options
from headrace.worker.task_log import ended, started
from headrace.worker.tasks import Task, TaskOptions, check_backoff, check_options
from headrace.worker.time_limits import within

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)
L = TypeVar("L", bound=Lifespan)

_log = logging.getLogger("headrace.worker")
_current: contextvars.ContextVar[tuple[Item, Context | None]] = contextvars.ContextVar("current")


class App:
    """Functions as tasks of queues.

    >>> app = App("sqlite:///flow.db")
    >>> @app.task(queue="mail", max_attempts=3)
    ... def send(to: str, *, text: str = "") -> None: ...
    >>> send.push("ann", text="hello")
    >>> app.work()

    It opens its own client when it is first needed, or uses the one it is bound to. ``name`` tells
    its schedules and limits from those of other apps: the module of its first task, unless given.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Client | AsyncClient | None = None,
        name: str | None = None,
    ) -> None:
        if url is not None and not isinstance(url, str):
            raise InvalidOption(
                f"url is {shown(url)}: use text; a client is given as App(client=...).",
                option="url",
            )
        self._url = url
        self._client = None if client is None else _checked(client)
        self.lifespan_function: Lifespan | None = None
        self.limits = DeclaredLimits(name)
        self._middleware: list[Middleware] = []
        self._chains: dict[str, Callable[[TaskCall], Any]] = {}
        self._lock = threading.Lock()
        self.tasks: dict[str, Task[..., Any]] = {}
        self.pipelines: dict[str, DeclaredPipeline] = {}
        self.schedules = DeclaredSchedules(name)

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
        """Whether it has a client or a URL."""
        return self._client is not None or self._url is not None

    def bind(self, client: Client | AsyncClient) -> Self:
        """Push with this client from now on."""
        with self._lock:
            self._client = _checked(client)
        return self

    @property
    def queues(self) -> list[str]:
        """The queues of its tasks, by name."""
        return sorted({task.queue for task in self.tasks.values()})

    def task(
        self,
        *misplaced: Never,
        queue: str,
        name: str | None = None,
        max_attempts: int | None = None,
        subject: Callable[..., str | None] | None = None,
        priority: int = 0,
        delay: Duration | None = None,
        lease: Duration | None = None,
        timeout: Duration | None = None,
        channel: Channel | Callable[..., Channel | None] | None = None,
        serial: bool = False,
        retry: Retry | None = None,
        backoff: Delays | None = None,
        schedule: str | ScheduleOptions | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function, or a coroutine function, a task of a queue.

        ``name`` is what is stored, the function's own unless given: keep it when you rename the
        function. ``max_attempts`` is how many times a call is claimed before it is dead, ``backoff`` how
        long it waits in between, ``lease`` how long a claim lasts. ``subject`` makes one of the call's
        arguments: while a call of that subject waits or runs, another one is not pushed. ``channel``
        is the key-values of the call's channel, which limits count by, or makes them of the call's
        arguments: ``channel=lambda customer: {"customer": customer}``. With ``serial`` no two calls of
        one channel run at the same time: its workers make the queue serial when they start.
        ``retry`` is a policy in place of ``max_attempts`` and ``backoff``, which also says which
        errors are worth another attempt. ``timeout`` is how long one attempt of a coroutine function
        may run; then it is cancelled, and has failed with ``TaskTimeout``.

        ``schedule`` pushes a call without arguments when it is due: a cron expression in UTC, or
        options of ``hr.schedules.add`` like ``{"cron": "30 2 * * *", "zone": "Europe/Berlin"}``. Its
        workers store it when they start, under the name of the task.
        """
        _refuse_positional("task", misplaced)
        writable_queue(queue)
        if name is not None and not (isinstance(name, str) and name):
            raise InvalidOption(f"name is {shown(name)}: use text.", option="name")
        if subject is not None and not callable(subject):
            raise InvalidOption(
                f"subject is {shown(subject)}: use a function that makes it of the call's arguments, "
                "or give it to one push with options(subject=...).",
                option="subject",
            )
        check_backoff(backoff)
        check_retry(retry, max_attempts, backoff)
        timeout_ms = None if timeout is None else duration_ms("timeout", timeout, least=1)
        if serial and channel is None:
            raise InvalidOption(
                "serial is about calls of the same channel: give channel= too.", option="serial"
            )
        if retry is not None:
            max_attempts, backoff = retry.max_attempts, retry.backoff
            check_backoff(backoff)
        options = check_options(
            TaskOptions(
                subject=subject,
                priority=priority,
                delay=delay,
                max_attempts=max_attempts,
                lease=lease,
                channel=channel,
            )
        )

        def declare(function: Callable[P, R]) -> Task[P, R]:
            if not callable(function):
                raise InvalidOption(
                    f"{shown(function)} cannot be a task: use a function.", option="function"
                )
            known = name or name_of(function)
            if timeout_ms is not None and not inspect.iscoroutinefunction(function):
                raise InvalidOption(
                    f"{shown(known)} has a timeout and is a plain function, which cannot be "
                    "interrupted: use 'async def', or limit what it calls.",
                    option="timeout",
                )
            if known in self.tasks:
                raise InvalidOption(
                    f"this app has a task {shown(known)} already: give one of them another name=.",
                    option="name",
                )
            task = Task(self, function, name=known, queue=queue, options=options, backoff=backoff)
            self.schedules.note_module(function)
            if schedule is not None:
                self.schedules.add(known, {**timing_options(schedule), "push": task.as_push()})  # type: ignore[call-arg]  # checked against its signature
            self.tasks[known] = task
            task.is_serial, task.retry = serial, retry
            task.timeout = None if timeout_ms is None else timeout_ms / 1000
            return task

        return declare

    def limit(
        self,
        group_by: GroupBy,
        limit: int,
        *,
        queue: str | None = None,
        on: LimitSubject = "running",
        per: Duration | None = None,
        name: str | None = None,
    ) -> None:
        """Declare a limit, which this app's workers store before they claim.

        >>> app.limit({"customer": ANY}, 1)
        >>> app.limit({"shop": ANY}, 100, per="1m")

        The arguments are those of ``hr.limits.create``. The rule's name is that of the app, ``-``,
        and ``name``. What is stored under the name gets this number. A limit that is declared no longer
        is named in the log of the workers, and applies until it is deleted.
        """
        self.limits.add(group_by, limit, queue=queue, on=on, per=per, name=name)

    def middleware(self, function: M) -> M:
        """Run a generator function around each task: what is before its ``yield`` first.

        >>> @app.middleware
        ... def timed(call: TaskCall) -> Iterator[None]:
        ...     with metrics.timer(call.name):
        ...         yield

        What the task raises is raised at the ``yield``; a generator that does not raise it again
        lets the call succeed. The first that is declared is the outermost. An async generator is for
        an app of coroutine functions.
        """
        check_middleware(function)
        self._middleware.append(function)
        self._chains.clear()
        return function

    def lifespan(self, function: L) -> L:
        """Let a generator function make what the tasks need, before the first claim.

        >>> @app.lifespan
        ... async def resources(app: App) -> AsyncIterator[Resources]:
        ...     async with httpx.AsyncClient() as http:
        ...         yield Resources(http)

        It runs once for all workers that start together. A task gets what it yields by
        ``current_resources(Resources)``, and sees the context variables it has set. What follows the
        ``yield`` runs after the last settle. If it fails before that, no worker starts.
        """
        check_lifespan(function)
        if self.lifespan_function is not None:
            raise InvalidOption(
                f"this app has the lifespan {shown(self.lifespan_function.__name__)} already: it has one.",
                option="lifespan",
            )
        self.lifespan_function = function
        return function

    def pipeline(
        self,
        *misplaced: Never,
        source: Topics,
        name: str | None = None,
        **options: Unpack[PipelineOptions],
    ) -> Callable[[F], F]:
        """Make a function the processor of a pipeline, which has the function's name unless given.

        >>> @app.pipeline(source="orders", to="invoices")
        ... def invoice(order: dict) -> dict: ...

        The options are those of ``hr.pipelines.create``. The function stays as it is. The pipeline is
        stored and run by ``headrace pipeline run module:app`` or ``headrace.pipelines.run(app)``.
        """
        _refuse_positional("pipeline", misplaced)
        return declare(self.pipelines, name, source, options)

    def schedule(self, name: str, **options: Unpack[ScheduleOptions]) -> None:
        """Declare a schedule, which this app's workers store when they start.

        >>> app.schedule("nightly", cron="30 2 * * *", push=report.as_push("sales"))

        The options are those of ``hr.schedules.add``. What was stored under the name before is
        replaced. A schedule that is declared no longer is named in the log of the workers, and goes on
        until it is removed.
        """
        self.schedules.add(name, options)

    @property
    def must_be_awaited(self) -> bool:
        """Whether its workers have something to do in the store, or a lifespan, before they start."""
        is_serial = any(task.is_serial for task in self.tasks.values())
        return self.lifespan_function is not None or is_serial or bool(self.limits)

    def handle(self, item: Item, context: Context | None = None) -> HandlerOutcome | None:
        """Run the task of an item: the handler for a worker. A coroutine gets a loop of its own."""
        call = self._call(item)
        if isinstance(call, Kill):
            return call
        with _as_current(item, context):
            run = started(call)
            try:
                run_it = self._runner(call)
                result = asyncio.run(run_it()) if call.task.is_async else run_it()
            except BaseException as error:  # the task decides when it runs again
                if issubclass(type(error), RetryLater):
                    raise
                return _failed(call.task, item, error)
            return ended(call, run, _outcome(result))

    async def ahandle(self, item: Item, context: Context | None = None) -> HandlerOutcome | None:
        """``handle`` on an event loop, where coroutines run; functions run in threads."""
        call = self._call(item)
        if isinstance(call, Kill):
            return call
        with _as_current(item, context):
            run = started(call)
            try:
                run_it = self._runner(call)
                result = await (run_it() if call.task.is_async else _in_thread(run_it))
            except BaseException as error:  # as above
                if issubclass(type(error), RetryLater) or is_cancelled(error):
                    raise
                return _failed(call.task, item, error)
            return ended(call, run, _outcome(result))

    def _runner(self, call: TaskCall) -> Callable[[], Any]:
        """The call of a task, with its middleware and its time limit, if there is any."""
        run: Callable[[], Any]
        if self._middleware:
            run = functools.partial(self._chain(call.task), call)
        else:
            run = functools.partial(call.task.function, *call.args, **call.kwargs)
        if call.task.timeout is None:
            return run
        return functools.partial(within, call.task.timeout, call.name, run)

    def _chain(self, task: Task[..., Any]) -> Callable[[TaskCall], Any]:
        found = self._chains.get(task.name)
        if found is None:
            found = self._chains[task.name] = chain(self._middleware, task)
        return found

    def handler(self, queue: str) -> Callable[..., Any]:
        """The handler for a queue: on an event loop if any of its tasks is a coroutine."""
        mine = [task for task in self.tasks.values() if task.queue == queue]
        for task in mine:
            self._chain(task)
        return self.ahandle if any(task.is_async for task in mine) else self.handle

    def work(
        self,
        client: Client | AsyncClient | None = None,
        *,
        queues: Mapping[str, int | None] | None = None,
    ) -> list[Worker | AsyncWorker]:
        """Start a worker for each of its queues, or for these, with their concurrency.

        Its limits are stored and its lifespan is entered before. With an async client such an app
        needs ``await app.awork()``.
        """
        from headrace.worker.app_start import start_now

        return start_now(self, client or self.client, self._wanted(queues))

    def _wanted(self, queues: Mapping[str, int | None] | None) -> Mapping[str, int | None]:
        wanted = dict.fromkeys(self.queues) if queues is None else queues
        if not isinstance(wanted, Mapping):
            raise InvalidOption(
                f"queues is {shown(wanted)}: give each with its concurrency, as in "
                "{'mail': 4}; None is the queue's own.",
                option="queues",
            )
        for queue in wanted.keys() - set(self.queues):
            known = ", ".join(self.queues) or "none"
            _log.warning(
                "%s: no task of this app is in this queue: its queues are %s",
                queue,
                known,
                extra={"action": "work", "queue": queue},
            )
        return wanted

    def store_schedules(self, client: Client | AsyncClient) -> None:
        """Let the workers of a client store what is declared, in the background."""
        self.schedules.store(client)

    async def awork(
        self, client: AsyncClient | None = None, *, queues: Mapping[str, int | None] | None = None
    ) -> list[AsyncWorker]:
        """``work`` with an async client, on the event loop that runs: limits and the lifespan are
        awaited."""
        from headrace.client._async.client import AsyncClient
        from headrace.worker.app_start import astart_workers

        found = client or self.client
        if not isinstance(found, AsyncClient):
            raise InvalidOption(
                f"client is {shown(found)}: await needs an async client; use app.work().",
                option="client",
            )
        return await astart_workers(self, found, self._wanted(queues))

    def _call(self, item: Item) -> Kill | TaskCall:
        """The call of an item's task; Kill if no retry could succeed."""
        payload = item.payload
        is_call = isinstance(payload, dict) and set(payload) == {"task", "args", "kwargs"}
        if not is_call or not isinstance(payload["task"], str):
            return _kill(
                "NotATask",
                "the payload is not the call of a task: push with the task's own push(...)",
            )
        task = self.tasks.get(payload["task"])
        if task is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            return _kill("UnknownTask", f"no task {payload['task']!r} here: there is {known}")
        try:
            bound = task.signature.bind(*payload["args"], **payload["kwargs"])
            args, kwargs = task.arguments.decoded(bound.args, bound.kwargs)
        except (TypeError, InvalidBody) as error:
            return _kill("WrongArguments", f"{task.name}{task.signature}: {error}")
        return TaskCall(task, args, kwargs, item)


def _checked(client: Any) -> Client | AsyncClient:
    if hasattr(client, "_requests") and hasattr(client, "transaction"):
        found: Client | AsyncClient = client
        return found
    raise InvalidOption(
        f"client is {shown(client)}: give what headrace.connect(url) returned.", option="client"
    )


def _refuse_positional(method: str, given: tuple[object, ...]) -> None:
    """Refuse ``@app.task`` without options, where the function is an argument."""
    if given:
        name = f": write name={shown(given[0])}" if isinstance(given[0], str) else ""
        raise TypeError(f"App.{method}() has keyword arguments only, not {shown(given[0])}{name}")


async def _in_thread(run: Callable[[], Any]) -> Any:
    """Run a function in a thread of its own.

    The loop's pool has fewer threads than a worker may have handlers, and waits for all of them
    when the process ends.
    """
    loop = asyncio.get_running_loop()
    # Not as an exception of the future: some exceptions cannot be set on one.
    answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result, error = context.run(run), None
        except BaseException as raised:  # it is raised where it is awaited
            result, error = None, raised
        # The event loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_set_result, answer, (result, error))

    threading.Thread(target=work, name="headrace-task", daemon=True).start()
    result, error = await answer
    if error is not None:
        raise error
    return result


def _set_result(answer: asyncio.Future[Any], value: Any) -> None:
    if not answer.done():  # else its task was cancelled
        answer.set_result(value)


def current_item() -> Item | None:
    """The item of the running task, if there is one."""
    found = _current.get(None)
    return None if found is None else found[0]


def current_context() -> Context | None:
    """The context of the running task, if a worker runs it."""
    found = _current.get(None)
    return None if found is None else found[1]


@contextmanager
def _as_current(item: Item, context: Context | None) -> Iterator[None]:
    token = _current.set((item, context))
    try:
        yield
    finally:
        _current.reset(token)


def _failed(task: Task[..., Any], item: Item, error: BaseException) -> HandlerOutcome:
    try:
        if task.retry is not None and task.retry.gives_up(error):
            return Kill(error)
        return Reject(error, delay=task.delay_after(item, error))
    except BaseException as mistake:  # a bad backoff must not hide the error of the task
        with contextlib.suppress(BaseException):
            error.add_note(f"and its backoff raised {words_of(mistake)}")
        return Reject(error)


def _outcome(result: Any) -> HandlerOutcome | None:
    """What a task returns is ignored, unless it is an outcome."""
    if isinstance(result, type) and issubclass(result, HandlerOutcome):
        return result()
    return result if isinstance(result, HandlerOutcome) else None


def _kill(type: str, message: str) -> Kill:
    return Kill(Failure(type=type, message=message))
