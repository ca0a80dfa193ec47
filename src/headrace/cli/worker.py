"""``headrace worker``: work on queues until a signal comes."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.cli.loading import load
from headrace.cli.signals import aside, heard, signals
from headrace.client.clients import Client
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.names import check_queue
from headrace.worker import App, StateChange, Worker, register_worker

LAST_WORDS = 10.0


def register(app: typer.Typer) -> None:
    """Put the command into place."""
    command(app)(worker)


def worker(
    session: Session,
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
            help="A queue, and how many handlers run at once; an app's own queues unless given.",
        ),
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that running handlers get to end.")
    ] = 30.0,
) -> None:
    """Work on queues. SIGTERM or Ctrl-C stops gracefully, a second one at once."""
    found = load(target)
    wanted = _wanted(target, found, queues or [])
    with _client(session, found) as client, signals() as asked:
        workers = _register(client, found, wanted)
        for each in workers:
            each.on("state", lambda change: _tell(session, change))
        _announce(session, workers)
        _serve(workers, asked, grace)


def _wanted(target: str, found: object, given: Sequence[str]) -> dict[str, int | None]:
    """Queues with their concurrency."""
    wanted: dict[str, int | None] = {}
    for text in given:
        name, _, number = text.partition(":")
        if name in wanted:
            raise InvalidOption(f"queue {name!r} is given twice.", option="queue")
        wanted[check_queue(name)] = _number(text, number) if _ else None
    if isinstance(found, App):
        wanted = wanted or dict.fromkeys(found.queues)
        if not wanted:
            raise InvalidOption(f"{target} has no tasks: give it some, or a --queue.", option="app")
    elif not callable(found):
        raise InvalidOption(
            f"{target} is {type(found).__name__}: name an App, or a function of an item.",
            option="target",
        )
    elif len(wanted) != 1:
        raise InvalidOption(f"{target} is a handler: give it one --queue.", option="queue")
    return wanted


def _number(text: str, number: str) -> int:
    return positive(f"concurrency in {text!r}", int(number) if number.isdecimal() else number)


@contextmanager
def _client(session: Session, found: object) -> Iterator[Client]:
    """The store of the command line, or else the app's own."""
    if isinstance(found, App) and found.is_bound and session.settings()["url"].value is None:
        client = found.client
        if not isinstance(client, Client):
            raise InvalidOption("the app is bound to an async client: give --url.", option="url")
        yield client
        return
    with session.open(makes_tables=True) as hr:
        if isinstance(found, App):
            found.bind(hr)
        yield hr


def _register(client: Client, found: Any, wanted: dict[str, int | None]) -> list[Worker]:
    return [
        register_worker(
            client,
            name,
            found.handler(name) if isinstance(found, App) else found,
            concurrency=concurrency,
        )
        for name, concurrency in wanted.items()
    ]


def _serve(workers: Sequence[Worker], asked: queue.SimpleQueue[str], grace: float) -> None:
    """Wait for a signal, or for the workers to end by themselves; then see them out."""
    aside(lambda: _await(workers), asked)
    if heard(asked) == "signal":
        output.note(f"stopping: handlers that run get {grace:g} s; a second signal stops at once")
        for each in workers:
            aside(lambda each=each: each.stop(grace))  # type: ignore[misc]  # bound in a loop
        if heard(asked) == "signal":
            output.note("handing everything back")
            for each in workers:
                aside(lambda each=each: each.stop(0))  # type: ignore[misc]  # bound in a loop
            _await(workers, LAST_WORDS)
            if any(each.busy for each in workers):
                # Handlers that do not end must not keep the process.
                sys.stdout.flush()
                os._exit(0)


def _await(workers: Sequence[Worker], timeout: float | None = None) -> None:
    for each in workers:
        each.join(timeout)


def _announce(session: Session, workers: Sequence[Worker]) -> None:
    for each in workers:
        _say(session, each.queue, each.status)


def _tell(session: Session, change: StateChange) -> None:
    _say(session, change.queue, change.after)


def _say(session: Session, name: str, status: str) -> None:
    if session.is_json:
        output.json_line({"queue": name, "status": status})
        sys.stdout.flush()
    else:
        output.note(f"{name}: {status}")
