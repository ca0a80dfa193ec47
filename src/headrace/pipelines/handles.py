"""References to pipelines: to look at them, to stop and start them, to run them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakSet

from headrace.client.calls import Call
from headrace.client.clients import AsyncClient, Client
from headrace.client.running import documented
from headrace.errors import HeadraceError
from headrace.model.pipelines import PipelineInfo
from headrace.model.position import check_offset
from headrace.model.procs import Lag
from headrace.pipelines.engines import Engine, EngineName, open_engine
from headrace.pipelines.runner import PipelineRunner
from headrace.worker.workers import DEFAULT_GRACE

Function = Callable[..., Any]

_lock = threading.Lock()
_runners: WeakKeyDictionary[Client | AsyncClient, WeakSet[PipelineRunner]] = WeakKeyDictionary()


def runner_of(
    client: Client | AsyncClient,
    names: list[str] | None,
    inline: dict[str, Function],
    engine: Engine,
) -> PipelineRunner:
    """What runs pipelines of a client on an engine."""
    calls = client._calls  # noqa: SLF001  # raises when the client is closed
    store: Any = client._store  # noqa: SLF001  # a pipeline is part of its client
    runner = PipelineRunner(store, engine, names=names, inline=inline, max_body=calls.max_body)
    with _lock:
        _runners.setdefault(client, WeakSet()).add(runner)
    return runner


def close_runners(client: Client | AsyncClient, grace: float = DEFAULT_GRACE) -> None:
    """Stop what runs pipelines of a client, which is about to be closed."""
    with _lock:
        running = list(_runners.get(client, ()))
    for runner in running:
        runner.stop()
    over = monotonic() + grace
    for runner in running:
        runner.wait(max(over - monotonic(), 0.0))


class _Handle:
    """A pipeline by name. It lives in the store; only an inline processor lives here."""

    def __init__(self, client: Any, name: str, function: Function | None) -> None:
        self._client = client
        self.name = name
        self._function = function
        self._lock = threading.Lock()
        self._runner: PipelineRunner | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _take(self, engine: EngineName, master: str | None, spark: Any) -> PipelineRunner:
        inline = {} if self._function is None else {self.name: self._function}
        opened = open_engine(engine, master=master, spark=spark)
        runner = runner_of(self._client, [self.name], inline, opened)
        with self._lock:
            self._runner = runner
        return runner

    def _end(self) -> None:
        with self._lock:
            runner = self._runner
        if runner is not None:
            runner.stop()

    def _call(self, build: str, *args: Any) -> Call[PipelineInfo]:
        _ = self._client._calls  # noqa: SLF001  # raises when the client is closed
        return Call(getattr(self._client._store, build)(self.name, *args), _same)  # noqa: SLF001


class SystemProc(_Handle):
    """A pipeline: procs whose records a processor handles, exactly once as far as the log goes.

    >>> double = hr.system_proc("double", source="numbers", to="doubled", processor=twice)
    >>> double.run_once(engine="inline")

    Any number of processes may run it: they take turns. ``run_once`` processes what is there,
    ``run`` goes on until it is stopped, ``start`` does so in a thread.
    """

    _client: Client

    def inspect(self) -> PipelineInfo:
        """What is known of it, its procs included."""
        return self._client._run(self._call("pipeline"))  # noqa: SLF001  # part of its client

    def pause(self) -> PipelineInfo:
        """Process no more records until ``resume``: disables its procs."""
        return self._client._run(self._call("switch_pipeline", "disabled"))  # noqa: SLF001

    def resume(self) -> PipelineInfo:
        """Go on: resumes its procs, those that failed too often too."""
        return self._client._run(self._call("switch_pipeline", "active"))  # noqa: SLF001

    def seek(self, offset: str) -> PipelineInfo:
        """Move it as if it were made now with ``offset``; drops its claims."""
        return self._client._run(self._call("seek_pipeline", check_offset(offset)))  # noqa: SLF001

    def destroy(self) -> PipelineInfo:
        """Remove it; returns what it was. Whoever runs it stops."""
        return self._client._run(self._call("destroy_pipeline"))  # noqa: SLF001

    def lag(self) -> Lag:
        """Records of all its sources that are not acked yet, and the age of the oldest."""
        run, calls = self._client._run, self._client._calls  # noqa: SLF001
        return _total([run(calls.lag(proc.name)) for proc in self.inspect().procs])

    def run_once(
        self, *, engine: EngineName = "spark", master: str | None = None, spark: Any = None
    ) -> int:
        """Process all records that are there; how many.

        On Spark, ``local[*]`` unless there is a ``master``, or in your own session ``spark``; the
        engine ``inline`` needs no JVM, and runs record and batch processors here with the same
        results. ``ProcDisabled`` with the last error if it failed too often.
        """
        return self._take(engine, master, spark).run(once=True)

    def run(
        self, *, engine: EngineName = "spark", master: str | None = None, spark: Any = None
    ) -> int:
        """Process records as they come, until ``stop``; how many. Waits out a database away."""
        return self._take(engine, master, spark).run()

    def start(
        self, *, engine: EngineName = "spark", master: str | None = None, spark: Any = None
    ) -> Self:
        """``run`` in a thread. What ends it early is raised by ``stop``."""
        runner = self._take(engine, master, spark)
        self._errors: list[BaseException] = []

        def work() -> None:
            try:
                runner.run()
            except BaseException as error:  # raised where somebody hears it
                self._errors.append(error)

        self._thread = threading.Thread(target=work, name=f"headrace-{self.name}-run", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End ``run`` when the claims under way are acked."""
        self._end()
        thread: threading.Thread | None = getattr(self, "_thread", None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()
            if self._errors:
                raise self._errors.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class AsyncSystemProc(_Handle):
    """``SystemProc`` for async code. It is run in threads, whatever the processor is."""

    _client: AsyncClient

    async def inspect(self) -> PipelineInfo:
        return await self._client._run(self._call("pipeline"))  # noqa: SLF001  # part of its client

    async def pause(self) -> PipelineInfo:
        return await self._client._run(self._call("switch_pipeline", "disabled"))  # noqa: SLF001

    async def resume(self) -> PipelineInfo:
        return await self._client._run(self._call("switch_pipeline", "active"))  # noqa: SLF001

    async def seek(self, offset: str) -> PipelineInfo:
        return await self._client._run(self._call("seek_pipeline", check_offset(offset)))  # noqa: SLF001

    async def destroy(self) -> PipelineInfo:
        return await self._client._run(self._call("destroy_pipeline"))  # noqa: SLF001

    async def lag(self) -> Lag:
        run, calls = self._client._run, self._client._calls  # noqa: SLF001
        return _total([await run(calls.lag(proc.name)) for proc in (await self.inspect()).procs])

    async def run_once(
        self, *, engine: EngineName = "spark", master: str | None = None, spark: Any = None
    ) -> int:
        return await self._aside(engine, master, spark, once=True)

    async def run(
        self, *, engine: EngineName = "spark", master: str | None = None, spark: Any = None
    ) -> int:
        return await self._aside(engine, master, spark, once=False)

    async def start(
        self, *, engine: EngineName = "spark", master: str | None = None, spark: Any = None
    ) -> Self:
        runner = await asyncio.to_thread(self._take, engine, master, spark)
        self._task = asyncio.create_task(asyncio.to_thread(runner.run), name=self.name)
        return self

    async def stop(self) -> None:
        self._end()
        task: asyncio.Task[int] | None = getattr(self, "_task", None)
        if task is not None:
            await task

    async def _aside(self, engine: EngineName, master: str | None, spark: Any, once: bool) -> int:
        runner = await asyncio.to_thread(self._take, engine, master, spark)
        work = asyncio.ensure_future(asyncio.to_thread(runner.run, once=once))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # Its claims are seen through: nothing is left half done in a thread.
            runner.stop()
            with contextlib.suppress(HeadraceError):
                await work
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


def _total(lags: list[Lag]) -> Lag:
    return Lag(sum(lag.records for lag in lags), max((lag.seconds for lag in lags), default=0.0))


def _same(value: Any) -> Any:
    return value


documented(AsyncSystemProc, SystemProc)
