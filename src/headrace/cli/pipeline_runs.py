"""``headrace pipeline run``: until a signal comes, or once through what is there."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import Session
from headrace.cli.exits import Code
from headrace.cli.loading import load
from headrace.cli.signals import aside, heard, signals
from headrace.client.clients import Client
from headrace.errors import InvalidOption
from headrace.pipelines.apps import runner_for
from headrace.pipelines.engines import EngineName, open_engine
from headrace.pipelines.handles import runner_of
from headrace.pipelines.progress import PipelineProgress
from headrace.pipelines.runner import PipelineRunner
from headrace.worker import App

EVERY = 5.0
NOTHING = "there are no pipelines that are stored by name yet: define some, or name an app"


def run(
    session: Session,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:APP]",
            help="The app whose pipelines are run; otherwise all that are stored by name.",
        ),
    ] = None,
    *,
    engine: Annotated[
        EngineName, typer.Option(help="Spark, or this process alone, without a JVM.")
    ] = "spark",
    master: Annotated[
        str | None, typer.Option(help="Spark's master; local[*] unless given.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all is processed.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between reports.")] = EVERY,
) -> None:
    """Run pipelines. SIGTERM or Ctrl-C stops when the claims under way are acked."""
    if engine == "inline" and master is not None:
        raise InvalidOption(
            "the inline engine has no master: leave one of them out.", option="master"
        )
    app = _app(target)
    with _client(session, app) as client:
        if app is None:
            runner = runner_of(client, None, {}, open_engine(engine, master=master))
        else:
            runner = runner_for(app, client=client, engine=engine, master=master)
        if not runner.names():
            output.note(NOTHING)
        # Not before: PySpark takes Ctrl-C for itself when it starts, to cancel what runs.
        with signals() as asked:
            _serve(session, runner, asked, once=once, every=every)


def _app(target: str | None) -> App | None:
    if target is None:
        return None
    found = load(target)
    if not isinstance(found, App):
        raise InvalidOption(
            f"{target} is {type(found).__name__}: name an App with pipelines.", option="target"
        )
    if not found.pipelines:
        raise InvalidOption(
            f"{target} has no pipelines: declare some with @app.pipeline(...).", option="target"
        )
    return found


@contextmanager
def _client(session: Session, app: App | None) -> Iterator[Client]:
    """The store of the command line, or else the app's own."""
    if app is not None and app.is_bound and session.settings()["url"].value is None:
        client = app.client
        if not isinstance(client, Client):
            raise InvalidOption("the app is bound to an async client: give --url.", option="url")
        yield client
        return
    with session.open(makes_tables=True) as hr:
        yield hr


def _serve(
    session: Session,
    runner: PipelineRunner,
    asked: queue.SimpleQueue[str],
    *,
    once: bool,
    every: float,
) -> None:
    """Run in a thread, and report; raise what ends it."""
    failures: list[BaseException] = []
    is_over = threading.Event()

    def work() -> None:
        try:
            runner.run(once=once)
        except BaseException as error:  # raised below, where somebody hears it
            failures.append(error)

    def report() -> None:
        while not is_over.wait(every):
            _tell(session, runner.progress())

    aside(work, asked)
    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    if heard(asked) == "signal":
        output.note("stopping: claims under way are seen through; a second signal stops at once")
        runner.stop()
        if heard(asked) == "signal":
            output.note("leaving: claims under way are given back when their time is over")
            sys.stdout.flush()
            os._exit(Code.INTERRUPTED)
    is_over.set()
    reporter.join()
    _tell(session, runner.progress())
    if failures:
        raise failures[0]


def _tell(session: Session, progress: Sequence[PipelineProgress]) -> None:
    for each in progress:
        if session.is_json:
            output.json_line(each)
            sys.stdout.flush()
        else:
            output.note(_words(each))


def _words(each: PipelineProgress) -> str:
    said = f"{each.pipeline}: {output.counted(each.moved)}, {each.rate:,.0f}/s"
    if each.lag is not None:
        said += f", {output.counted(each.lag)} to go"
    if each.eta:
        said += f" in {each.eta:,.1f} s"
    if each.state != "running":
        said += f"; {each.state}"
    return f"{said}: {each.error}" if each.error else said
