"""``headrace worker``: run workers until a signal arrives."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import typer

import headrace.worker
from headrace.cli import output
from headrace.cli.app_client import open_client
from headrace.cli.command import CommandSession, command
from headrace.cli.exit_codes import Code
from headrace.cli.imports import load_object
from headrace.cli.logs import LevelName, LogFormat, configure_logging
from headrace.cli.parse_query import QueryOption, WhereOption, parse_query
from headrace.cli.queue_lookup import queue_exists
from headrace.cli.signals import Events, next_event, run_in_thread, signal_events
from headrace.client._sync.client import Client
from headrace.errors import HeadraceError, InvalidOption, StoreUnavailable
from headrace.model.checks import positive
from headrace.model.failures import own_traceback, words_of
from headrace.model.names import writable_queue
from headrace.model.query.queries import Query
from headrace.node.start_pipe import report_start
from headrace.worker import Task, Worker

FORCED_STOP_SECONDS = 10.0
POLL_SECONDS = 0.25

_log = logging.getLogger("headrace.worker")


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(worker)


def worker(
    session: CommandSession,
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:NAME", help="An app, or a handler for the one --queue."),
    ],
    *,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            "-q",
            metavar="QUEUE[:N]",
            help="A queue, and how many handlers run concurrently; default: the app's queues.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help="How many handlers run concurrently, for queues without :N."),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many items a claim brings; default: the queue's, or as many as handlers run.",
        ),
    ] = None,
    max_items: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after this many items, for a supervisor to start it again."),
    ] = None,
    where: WhereOption = None,
    query: QueryOption = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that running handlers have to finish.")
    ] = 30.0,
    log_level: Annotated[
        LevelName | None,
        typer.Option(
            case_sensitive=False,
            help="Log from this level on; info has a line for each task. Default: your own lines "
            "from info on, Headrace's from warning on.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(case_sensitive=False, help="How log lines look.")
    ] = None,
) -> None:
    """Run workers. SIGTERM or Ctrl-C stops gracefully, a second signal immediately."""
    app_or_handler = load_object(target)
    configure_logging(log_level, log_format)
    parsed = _parse_queues(target, app_or_handler, queues or [])
    concurrencies = {name: number or concurrency for name, number in parsed.items()}
    select = parse_query(where, query)
    app = app_or_handler if isinstance(app_or_handler, headrace.worker.App) else None
    with open_client(session, app) as client, signal_events() as events:
        if app is not None:
            app.bind(client)
        _check_queues(client, target, app, list(concurrencies))
        workers = _register(client, app_or_handler, concurrencies, chunk or "concurrency", select)
        report_start()
        for worker in workers:
            worker.on("state", lambda change: _print_status(session, change.queue, change.after))
        if max_items is not None:
            _stop_after(max_items, workers, events)
        for worker in workers:
            _print_status(session, worker.queue, worker.status)
        _run_until_stopped(workers, events, grace)


def _parse_queues(
    target: str, app_or_handler: object, options: Sequence[str]
) -> dict[str, int | None]:
    """Queues with their concurrency; None is the default of the queue."""
    queues: dict[str, int | None] = {}
    for text in options:
        name, colon, number = text.rpartition(":") if ":" in text else (text, "", "")
        if name in queues:
            raise InvalidOption(f"queue {name!r} is given twice.", option="queue")
        queues[writable_queue(name)] = _parse_concurrency(text, number) if colon else None
    if isinstance(app_or_handler, headrace.worker.App):
        queues = queues or dict.fromkeys(app_or_handler.queues)
        if not queues:
            raise InvalidOption(f"{target} has no tasks: give it some, or a --queue.", option="app")
    elif isinstance(app_or_handler, Task):
        raise InvalidOption(f"{target} is a task: name its app, as in module:app.", option="target")
    elif not callable(app_or_handler):
        raise InvalidOption(
            f"{target} is of type {type(app_or_handler).__name__}: name an App, or a function of an item.",
            option="target",
        )
    elif len(queues) != 1:
        raise InvalidOption(f"{target} is a handler: give it one --queue.", option="queue")
    return queues


def _check_queues(
    client: Client, target: str, app: headrace.worker.App | None, queues: Sequence[str]
) -> None:
    """Refuse a queue that is probably mistyped; say so where it may be meant.

    An app may work on a queue of none of its tasks: dead items may have been moved there.
    """
    for name in queues:
        if app is None:
            if not queue_exists(client, name):
                output.note(f"{name}: there was no such queue; it is created")
        elif name not in app.queues:
            known = (
                f"no task of {target} is in queue {name!r}: its queues are {', '.join(app.queues)}"
            )
            if not queue_exists(client, name):
                raise InvalidOption(f"{known}.", option="queue")
            output.note(known)


def _stop_after(items: int, workers: Sequence[Worker], events: Events) -> None:
    """Stop as a signal does when that many items were settled."""
    numbers = itertools.count(1)

    def count(done: object) -> None:
        if next(numbers) == items:
            events.put("signal")

    for worker in workers:
        worker.on("data", count)


def _parse_concurrency(text: str, number: str) -> int:
    return positive(f"concurrency in {text!r}", int(number) if number.isdecimal() else number)


def _register(
    client: Client,
    app_or_handler: Any,
    queues: dict[str, int | None],
    chunk: int | Literal["concurrency"],
    select: Query | None,
) -> list[Worker]:
    if isinstance(app_or_handler, headrace.worker.App):
        return _start_app(app_or_handler, client, queues, chunk, select)
    return [
        headrace.worker.start_worker(
            client, name, app_or_handler, chunk=chunk, concurrency=concurrency, select=select
        )
        for name, concurrency in queues.items()
    ]


def _start_app(
    app: headrace.worker.App,
    client: Client,
    queues: dict[str, int | None],
    chunk: int | Literal["concurrency"],
    select: Query | None,
) -> list[Worker]:
    from headrace.worker.app_start import start_workers

    try:
        return start_workers(app, client, queues, chunk=chunk, select=select)
    except HeadraceError:
        raise
    except Exception as error:
        # The lifespan is the user's code.
        origin = (type(error), error, own_traceback(error))
        _log.error("the app did not start: %s", words_of(error), exc_info=origin)
        raise typer.Exit(Code.FAILED) from None


def _run_until_stopped(workers: Sequence[Worker], events: Events, grace: float) -> None:
    """Wait until all workers have ended, and stop them when a signal arrives."""
    run_in_thread(lambda: _wait(workers), events)
    if next_event(events) == "finished":
        _end_refused(workers, grace)
        return
    output.note(f"stopping: running handlers have {grace:g} s; a second signal stops immediately")
    _stop(workers, grace)
    if next_event(events) == "finished":
        _check_settled(workers)
        return
    output.note("releasing all items in flight")
    _stop(workers, 0)
    _join(workers, FORCED_STOP_SECONDS)
    if any(worker.busy for worker in workers):
        # Handlers that do not end must not keep the process alive.
        sys.stdout.flush()
        os._exit(Code.UNAVAILABLE if any(worker.unsettled for worker in workers) else Code.OK)
    _check_settled(workers)


def _check_settled(workers: Sequence[Worker]) -> None:
    """Raise which items the workers could not settle."""
    left = [f"{worker.queue}: {id}" for worker in workers for id in worker.unsettled]
    if left:
        raise StoreUnavailable(
            f"the store did not answer, so these items are not settled: {', '.join(left)}. They "
            "are claimed again when their leases end."
        )


def _wait(workers: Sequence[Worker]) -> None:
    """Wait until all workers have ended, or one was refused."""
    while not all(worker.join(POLL_SECONDS) for worker in workers):
        if any(worker.error for worker in workers):
            return


def _end_refused(workers: Sequence[Worker], grace: float) -> None:
    """If a worker was refused, stop the others, and raise why."""
    for error in [worker.error for worker in workers if worker.error is not None]:
        _stop(workers, grace)
        _join(workers)
        raise error


def _stop(workers: Sequence[Worker], grace: float) -> None:
    for worker in workers:
        run_in_thread(partial(worker.stop, grace))


def _join(workers: Sequence[Worker], timeout: float | None = None) -> None:
    for worker in workers:
        worker.join(timeout)


def _print_status(session: CommandSession, queue: str, status: str) -> None:
    if session.is_json:
        output.json_line({"queue": queue, "status": status})
        sys.stdout.flush()
    else:
        output.note(f"{queue}: {status}")
