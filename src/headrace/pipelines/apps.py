"""The pipelines of an app: stored, and run together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.client._sync.client import Client
from headrace.errors import InvalidOption
from headrace.model.checks import seconds_of
from headrace.model.fields import shown
from headrace.model.pipelines import EngineName
from headrace.model.times import Duration, optional_ms
from headrace.pipelines.definition import plan_definition, reference_of
from headrace.pipelines.engines import open_engine
from headrace.pipelines.runner import PipelineRunner
from headrace.pipelines.runners import note_named_processor, open_runner
from headrace.pipelines.trust import Allow, check_allow
from headrace.worker.app import App

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


def define(client: Client, app: App) -> dict[str, Callable[..., Any]]:
    """Store the pipelines of an app; returns the functions that other processes cannot import.

    A function at the top level of a module is stored by its name, so that any process can run it.
    """
    inline = {}
    for declared in app.pipelines.values():
        plan = plan_definition(
            client._store,  # noqa: SLF001  # a pipeline is part of its client
            declared.name,
            declared.source,
            reference_of(declared.function) or declared.function,
            declared.options,
        )
        note_named_processor(client, plan.reference)
        client._run(plan.request)  # noqa: SLF001  # as above
        if plan.function is not None:
            inline[declared.name] = plan.function
    return inline


def app_runner(
    app: App,
    *,
    client: Client | AsyncClient | None = None,
    engine: EngineName = "spark",
    master: str | None = None,
    spark: Any = None,
    allow: Allow = (),
    timeout: Duration | None = None,
) -> PipelineRunner:
    """A runner for all pipelines of an app, in one session: ``run()``, ``stop()``, ``progress()``.

    It runs the app's functions. If another process stores another function for one of the
    pipelines, that function runs only if its module is in ``allow``. ``timeout`` is how many
    seconds a call may take, for pipelines without their own limit.
    """
    if not isinstance(app, App):
        raise InvalidOption(f"app is {shown(app)}: give an App with pipelines.", option="app")
    client = client or app.client
    if not isinstance(client, Client):
        raise InvalidOption(
            "the app is bound to an async client: give one that blocks.", option="client"
        )
    if not app.pipelines:
        raise InvalidOption(
            "this app has no pipelines: declare some with @app.pipeline(...).", option="app"
        )
    modules = check_allow(allow)
    limit = seconds_of(optional_ms("timeout", timeout))
    # Before anything is stored: the engine may fail to start.
    opened = open_engine(engine, master=master, spark=spark)
    return open_runner(
        client, list(app.pipelines), define(client, app), opened, allow=modules, timeout=limit
    )


def run(
    app: App,
    *,
    client: Client | None = None,
    engine: EngineName = "spark",
    master: str | None = None,
    spark: Any = None,
    once: bool = False,
    allow: Allow = (),
    timeout: Duration | None = None,
) -> int:
    """Run all pipelines of an app until the process ends, or ``once`` until all is processed."""
    runner = app_runner(
        app,
        client=client,
        engine=engine,
        master=master,
        spark=spark,
        allow=allow,
        timeout=timeout,
    )
    return runner.run(once=once)
