"""Names from the store, for the completion of the shell.

Completion never fails and never takes long: without a store, or if the store does not answer in
time, there are no names to offer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import typer

from headrace._sync.headrace import Headrace
from headrace.cli.command import CommandSession

TIME_LIMIT_SECONDS = 1.0
MAX_NAMES = 100


def queue_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of queues that begin with what was typed."""
    return _names(ctx, lambda hr: hr.queues.list(prefix=incomplete, limit=MAX_NAMES))


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of topics that begin with what was typed."""
    return _names(ctx, lambda hr: hr.topics.list(prefix=incomplete, limit=MAX_NAMES))


def proc_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of procs that begin with what was typed."""
    return _names(ctx, lambda hr: hr.procs.list())


def pipeline_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of pipelines that begin with what was typed."""
    return _names(ctx, lambda hr: hr.pipelines.list())


def sink_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of sinks that begin with what was typed."""
    return _names(ctx, lambda hr: hr.sinks.list())


def limit_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of limits that begin with what was typed."""
    return _names(ctx, lambda hr: hr.limits.list(), attribute="id")


def schedule_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of schedules that begin with what was typed."""
    return _names(ctx, lambda hr: hr.schedules.list(prefix=incomplete))


def token_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of access tokens that begin with what was typed."""
    return _names(ctx, lambda hr: hr.tokens.list(), attribute="id")


def _names(
    ctx: typer.Context, read: Callable[[Headrace], Iterable[object]], attribute: str = "name"
) -> list[str]:
    found: list[str] = []

    def ask() -> None:
        # A shell that completes a word has no use for an error.
        with suppress(Exception), _session(ctx).open(patience=TIME_LIMIT_SECONDS) as hr:
            found.extend(getattr(info, attribute) for info in read(hr))

    # A thread, since a server that does not answer may keep its caller for longer.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(TIME_LIMIT_SECONDS)
    return found[:]


def _session(ctx: typer.Context) -> CommandSession:
    """The store that the words before this one name. Typer drops names that do not fit."""
    return CommandSession(ctx.params.get("url") or ctx.find_root().params.get("url"))
