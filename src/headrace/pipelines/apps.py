"""The pipelines of an app: stored, and run together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.client.clients import AsyncClient, Client
from headrace.errors import InvalidOption
from headrace.pipelines.defining import plan, reference_of
from headrace.pipelines.engines import EngineName, open_engine
from headrace.pipelines.handles import runner_of
from headrace.pipelines.runner import PipelineRunner
from headrace.worker.apps import App


def define(client: Client, app: App) -> dict[str, Callable[..., Any]]:
    """Store the pipelines of an app; those functions that other processes cannot find.

    A function at the top of a module is stored by its name, so that any process can run it.
    """
    inline = {}
    for declared in app.pipelines.values():
        wanted = plan(
            client._store,  # noqa: SLF001  # a pipeline is part of its client
            declared.name,
            declared.source,
            reference_of(declared.function) or declared.function,
            declared.options,
        )
        client._run(wanted.call)  # noqa: SLF001  # as above
        if wanted.function is not None:
            inline[declared.name] = wanted.function
    return inline


def runner_for(
    app: App,
    *,
    client: Client | None = None,
    engine: EngineName = "spark",
    master: str | None = None,
    spark: Any = None,
) -> PipelineRunner:
    """What runs all pipelines of an app, in one session: ``run()``, ``stop()``, ``progress()``."""
    found = client or app.client
    if isinstance(found, AsyncClient):
        raise InvalidOption(
            "the app is bound to an async client: give one that blocks.", option="client"
        )
    if not app.pipelines:
        raise InvalidOption("this app has no pipelines: declare some.", option="app")
    # An engine that does not start leaves nothing behind in the store.
    opened = open_engine(engine, master=master, spark=spark)
    return runner_of(found, list(app.pipelines), define(found, app), opened)


def run(
    app: App,
    *,
    client: Client | None = None,
    engine: EngineName = "spark",
    master: str | None = None,
    spark: Any = None,
    once: bool = False,
) -> int:
    """Run all pipelines of an app until the process ends, or ``once`` through what is there."""
    wanted = runner_for(app, client=client, engine=engine, master=master, spark=spark)
    return wanted.run(once=once)
