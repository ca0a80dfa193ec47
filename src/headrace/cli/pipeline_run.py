"""``headrace pipeline run``: run pipelines until a signal arrives, or until all is processed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import output
from headrace.cli.app_client import open_client
from headrace.cli.command import CommandSession
from headrace.cli.exit_codes import Code
from headrace.cli.imports import load_object
from headrace.cli.signals import Events, next_event, run_in_thread, signal_events
from headrace.errors import InvalidOption
from headrace.model.pipelines import EngineName
from headrace.node.start_pipe import report_start
from headrace.pipelines.runners import open_runner
from headrace.pipelines.trust import check_allow

if TYPE_CHECKING:
    from headrace.pipelines import PipelineProgress, PipelineRunner
    from headrace.worker import App

REPORT_SECONDS = 5.0

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:APP]",
        help="The app whose pipelines run; default: all stored pipelines that --allow trusts.",
    ),
]
Engine = Annotated[EngineName, typer.Option(help="Spark, or this process only, without a JVM.")]
Master = Annotated[str | None, typer.Option(help="Spark's master; default: local[*].")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="Trust functions of this module or package that the database names; repeatable.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.001, help="Seconds that a call may take, for pipelines without their own limit."
    ),
]
Once = Annotated[bool, typer.Option("--once", help="End when all records are processed.")]
Every = Annotated[float, typer.Option(min=0.1, help="Seconds between reports.")]


def run(
    session: CommandSession,
    target: Target = None,
    *,
    engine: Engine = "spark",
    master: Master = None,
    allow: Allow = None,
    timeout: Timeout = None,
    once: Once = False,
    every: Every = REPORT_SECONDS,
) -> None:
    """Run pipelines. SIGTERM or Ctrl-C stops them when their current claims are acked."""
    if engine == "inline" and master is not None:
        raise InvalidOption(
            "the inline engine has no master: leave one of them out.", option="master"
        )
    app, modules = _load_app(target), check_allow(allow or ())
    if app is None and not modules:
        raise InvalidOption(
            "name an app (MODULE:APP), or trust the modules of stored pipelines by --allow: a "
            "function that only the database names is not run.",
            option="allow",
        )
    # The usage is right. Spark needs longer than a node waits for.
    report_start()
    # Here, so that other commands do not load engines.
    from headrace.pipelines.apps import app_runner
    from headrace.pipelines.engines import open_engine

    with open_client(session, app) as client:
        if app is None:
            opened = open_engine(engine, master=master)
            runner = open_runner(client, None, {}, opened, allow=modules, timeout=timeout)
        else:
            runner = app_runner(
                app, client=client, engine=engine, master=master, allow=modules, timeout=timeout
            )
        _note_refused(runner)
        # Only now: when PySpark starts, it installs a handler of its own for Ctrl-C.
        with signal_events() as events:
            _run_until_stopped(session, runner, events, once=once, every=every)


def _load_app(target: str | None) -> App | None:
    if target is None:
        return None
    from headrace.worker import App

    app = load_object(target)
    if not isinstance(app, App):
        raise InvalidOption(
            f"{target} is {type(app).__name__}: name an App with pipelines.", option="target"
        )
    if not app.pipelines:
        raise InvalidOption(
            f"{target} has no pipelines: declare some with @app.pipeline(...).", option="target"
        )
    return app


def _note_refused(runner: PipelineRunner) -> None:
    for info in runner.refused():
        output.note(
            f"pipeline {info.name!r} is not run: its processor {info.processor} is not in a "
            "module that --allow names"
        )
    if not runner.names():
        output.note("there are no stored pipelines that may run: define some, or name an app")


def _run_until_stopped(
    session: CommandSession, runner: PipelineRunner, events: Events, *, once: bool, every: float
) -> None:
    """Run the pipelines in a thread and report progress; raise the error that ends them."""
    failures: list[BaseException] = []
    is_finished = threading.Event()

    def work() -> None:
        try:
            runner.run(once=once)
        except BaseException as error:  # raised below, in the main thread
            failures.append(error)

    def report() -> None:
        while not is_finished.wait(every):
            _print_progress(session, runner.progress())

    run_in_thread(work, events)
    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    if next_event(events) == "signal":
        output.note("stopping after the current claims; a second signal stops immediately")
        runner.stop()
        if next_event(events) == "signal":
            output.note("leaving: current claims are given back when they expire")
            sys.stdout.flush()
            os._exit(Code.INTERRUPTED)
    is_finished.set()
    reporter.join()
    progress = runner.progress()
    _print_progress(session, progress)
    _note_dead(progress)
    if failures:
        raise failures[0]


def _print_progress(session: CommandSession, progress: Sequence[PipelineProgress]) -> None:
    for each in progress:
        if session.is_json:
            output.json_line(each)
            sys.stdout.flush()
        else:
            output.note(_format_progress(each))


def _note_dead(progress: Sequence[PipelineProgress]) -> None:
    for each in progress:
        if each.dead:
            letters = "1 dead letter" if each.dead == 1 else f"{each.dead:,} dead letters"
            output.note(f"{each.pipeline}: {letters}; see `headrace pipeline show {each.pipeline}`")


def _format_progress(progress: PipelineProgress) -> str:
    text = f"{progress.pipeline}: {output.format_count(progress.moved)}, {progress.rate:,.0f}/s"
    if progress.lag is not None:
        text += f", {output.format_count(progress.lag)} to go"
    if progress.eta:
        text += f" in {progress.eta:,.1f} s"
    if progress.state != "running":
        text += f"; {progress.state}"
    return f"{text}: {progress.error}" if progress.error else text
