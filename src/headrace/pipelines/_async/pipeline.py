"""References to pipelines: inspect, pause, resume and run them."""

from __future__ import annotations

import asyncio
import contextlib
import functools

# SYNC
# import threading
# END
from typing import Any, Self

from headrace.client._async.client import AsyncClient
from headrace.contract.threads import in_thread
from headrace.errors import HeadraceError
from headrace.model.pipelines import EngineName, PipelineInfo
from headrace.model.topics.positions import check_offset
from headrace.model.topics.procs import Lag
from headrace.pipelines.pipeline_reference import PipelineReference, sum_lags
from headrace.pipelines.trust import Allow


class AsyncPipeline(PipelineReference):
    """A pipeline: procs whose records a processor handles, with each result committed once.

    >>> double = await hr.pipelines.create("double", source="numbers", to="doubled", processor=twice)
    >>> await double.run_once(engine="inline")

    Any number of processes may run it: they take turns. ``run_once`` processes the present
    records, ``run`` continues until it is stopped, ``start`` does so in the background. Processors
    run in threads, also coroutine functions.
    """

    _client: AsyncClient

    async def info(self) -> PipelineInfo:
        """Its definition and state, with its procs."""
        return await self._client._run(self._request("info"))

    async def pause(self) -> PipelineInfo:
        """Stop processing records until ``resume``: disables its procs."""
        return await self._client._run(self._request("switch", "disabled"))

    async def resume(self) -> PipelineInfo:
        """Continue: resumes its procs, including those disabled after too many failures."""
        return await self._client._run(self._request("switch", "active"))

    async def seek(self, offset: str) -> PipelineInfo:
        """Move it as if it were created now with ``offset``; drops its claims."""
        return await self._client._run(self._request("seek", check_offset(offset)))

    async def delete(self) -> PipelineInfo:
        """Remove it and return its last state. Runners of it stop."""
        return await self._client._run(self._request("delete"))

    async def lag(self) -> Lag:
        """The number of records of all its sources that are not acked, and the age of the oldest."""
        run, requests = self._client._run, self._client._requests
        procs = (await self.info()).procs
        return sum_lags([await run(requests.procs.lag(proc.name)) for proc in procs])

    async def run_once(
        self,
        *,
        engine: EngineName = "spark",
        master: str | None = None,
        spark: Any = None,
        allow: Allow = (),
    ) -> int:
        """Process all present records; returns how many.

        If its results come back to its source, it ends with the last record that was there when it
        began: its own results are for the next run.

        It runs on Spark, on ``local[*]`` unless there is a ``master``, or in your own session
        ``spark``. The engine ``inline`` needs no JVM, and runs record and batch processors in this
        process with the same results. Raises ``ProcDisabled`` with the last error after too many
        failures.

        A processor that only the database names is refused, unless ``allow`` has its module or a
        package that contains it.
        """
        return await self._run(engine, master, spark, allow, once=True)

    async def run(
        self,
        *,
        engine: EngineName = "spark",
        master: str | None = None,
        spark: Any = None,
        allow: Allow = (),
    ) -> int:
        """Process records as they arrive, until ``stop``; returns how many.

        If the database is unavailable, it retries until the database is back.
        """
        return await self._run(engine, master, spark, allow, once=False)

    async def start(
        self,
        *,
        engine: EngineName = "spark",
        master: str | None = None,
        spark: Any = None,
        allow: Allow = (),
    ) -> Self:
        """``run`` in the background. ``stop`` raises the error that ended it early."""
        # ASYNC
        runner = await in_thread(self._open_runner, engine, master, spark, allow)
        self._task = asyncio.create_task(in_thread(runner.run), name=self.name)
        # SYNC
        # runner = self._open_runner(engine, master, spark, allow)
        # self._errors: list[BaseException] = []
        #
        # def work() -> None:
        #     try:
        #         runner.run()
        #     except BaseException as error:  # raised by stop()
        #         self._errors.append(error)
        #
        # self._thread = threading.Thread(
        #     target=work, name=f"headrace-{self.name}-run", daemon=True
        # )
        # self._thread.start()
        # END
        return self

    async def stop(self) -> None:
        """End ``run`` when the current claims are acked."""
        self._stop_runner()
        # ASYNC
        task: asyncio.Task[int] | None = getattr(self, "_task", None)
        if task is not None:
            await task
        # SYNC
        # thread: threading.Thread | None = getattr(self, "_thread", None)
        # if thread is not None and thread is not threading.current_thread():
        #     thread.join()
        #     if self._errors:
        #         raise self._errors.pop()
        # END

    async def _run(
        self, engine: EngineName, master: str | None, spark: Any, allow: Allow, *, once: bool
    ) -> int:
        # ASYNC
        runner = await in_thread(self._open_runner, engine, master, spark, allow)
        work = asyncio.ensure_future(in_thread(functools.partial(runner.run, once=once)))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The current claims are still acked: no thread is left with unfinished work.
            runner.stop()
            with contextlib.suppress(HeadraceError):
                await work
            raise
        # SYNC
        # return self._open_runner(engine, master, spark, allow).run(once=once)
        # END

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
