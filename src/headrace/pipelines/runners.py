"""The runners of clients: opened with an engine, stopped when their client is closed."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from headrace.client._sync.client import Client
from headrace.model.forks import ModuleLock
from headrace.pipelines.trust import Allow, Trust
from headrace.worker.worker_view import DEFAULT_GRACE

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient
    from headrace.pipelines.engines import PipelineEngine
    from headrace.pipelines.runner import PipelineRunner

Function = Callable[..., Any]

_lock = ModuleLock()
_runners: WeakKeyDictionary[Client | AsyncClient, WeakSet[PipelineRunner]] = WeakKeyDictionary()
_named: WeakKeyDictionary[Client | AsyncClient, set[str]] = WeakKeyDictionary()
"""The processors that code of this process has named, as ``module:function``, by client."""


def note_named_processor(client: Client | AsyncClient, reference: str | None) -> None:
    """Note that this process, and not the database, has named a processor."""
    if reference is not None:
        _named_processors(client).add(reference)


def _named_processors(client: Client | AsyncClient) -> set[str]:
    with _lock.lock:
        return _named.setdefault(client, set())


def open_runner(
    client: Client | AsyncClient,
    names: list[str] | None,
    inline: dict[str, Function],
    engine: PipelineEngine,
    *,
    allow: Allow = (),
    timeout: float | None = None,
) -> PipelineRunner:
    """A runner for pipelines of a client on an engine.

    It imports functions that this client named itself, and those of the modules in ``allow``.
    ``timeout`` is for pipelines without their own limit.
    """
    # Engines load much, and few clients run pipelines.
    from headrace.pipelines.runner import PipelineRunner

    requests = client._requests
    store: Any = client._store
    trust = Trust(allow, _named_processors(client))
    runner = PipelineRunner(
        store,
        engine,
        names=names,
        inline=inline,
        trust=trust,
        max_body=requests.max_body,
        timeout=timeout,
    )
    with _lock.lock:
        _runners.setdefault(client, WeakSet()).add(runner)
    return runner


def close_runners(client: Client | AsyncClient, grace: float = DEFAULT_GRACE) -> None:
    """Stop the runners of a client that is about to be closed."""
    with _lock.lock:
        running = list(_runners.get(client, ()))
    for runner in running:
        runner.stop()
    deadline = monotonic() + grace
    for runner in running:
        runner.wait(max(deadline - monotonic(), 0.0))
