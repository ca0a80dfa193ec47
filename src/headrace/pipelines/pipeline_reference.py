"""What blocking and async references to pipelines share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from headrace.core.requests.request import Request
from headrace.model.fields import shown
from headrace.model.names import check_proc, writable_proc
from headrace.model.pipelines import EngineName, PipelineInfo
from headrace.model.topics.procs import Lag
from headrace.pipelines.runners import open_runner
from headrace.pipelines.trust import Allow, check_allow

if TYPE_CHECKING:
    from headrace.pipelines.runner import PipelineRunner


class PipelineReference:
    """A pipeline by name. The store has its definition."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = check_proc(name)
        self._lock = threading.Lock()
        self._runner: PipelineRunner | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.name)}>"

    def _open_runner(
        self, engine: EngineName, master: str | None, spark: Any, allow: Allow
    ) -> PipelineRunner:
        # Here, because engines load much.
        from headrace.pipelines.engines import open_engine

        modules = check_allow(allow)
        opened = open_engine(engine, master=master, spark=spark)
        # Those that this client has given to ``pipelines.create``.
        inline = self._client.pipelines._functions
        runner = open_runner(self._client, [self.name], inline, opened, allow=modules)
        with self._lock:
            self._runner = runner
        return runner

    def _stop_runner(self) -> None:
        with self._lock:
            runner = self._runner
        if runner is not None:
            runner.stop()

    def _request(self, build: str, *args: Any) -> Request[PipelineInfo]:
        self._client._check_open()
        if build != "info":
            writable_proc(self.name)
        return Request(getattr(self._client._store.pipelines, build)(self.name, *args))


def sum_lags(lags: list[Lag]) -> Lag:
    """The lag of several procs together."""
    return Lag(sum(lag.records for lag in lags), max((lag.seconds for lag in lags), default=0.0))
