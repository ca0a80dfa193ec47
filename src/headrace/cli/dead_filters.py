"""Which dead items, as it is said on the command line; all that is given must hold."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.times import moment
from headrace.client.queue_calls import LAST_ID
from headrace.core.dead_filters import CAUSES, DeadFilter

Fingerprint = Annotated[
    str | None, typer.Option(help="Only those that failed alike: see 'dead groups'.")
]
Cause = Annotated[str | None, typer.Option(help=f"Only those that died so: {', '.join(CAUSES)}.")]
Subject = Annotated[str | None, typer.Option(help="Only those of this subject.")]
Before = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only those that died before this.")
]
After = Annotated[str | None, typer.Option(metavar="TIME", help="Only those that died after this.")]
Ids = Annotated[
    list[int] | None,
    typer.Option("--id", min=0, max=LAST_ID, help="Only this one; may be repeated."),
]
OPTIONS = {
    "fingerprint": Fingerprint,
    "cause": Cause,
    "subject": Subject,
    "before": Before,
    "after": After,
    "id": Ids,
}


def filtered(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a filter in place of its parameter ``filter``."""

    @functools.wraps(function)
    def run(*args: Any, **arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in OPTIONS}
        function(*args, filter=_filter(**given), **arguments)

    own = inspect.signature(function, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, annotation=option, default=None)
        for name, option in OPTIONS.items()
    ]
    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        parameters += options if parameter.name == "filter" else [parameter]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect reads it
    return run


def _filter(
    *,
    fingerprint: str | None,
    cause: str | None,
    subject: str | None,
    before: str | None,
    after: str | None,
    id: list[int] | None,
) -> DeadFilter:
    """The filter that was given; empty if it was none."""
    filter: DeadFilter = {}
    if fingerprint is not None:
        filter["fingerprint"] = fingerprint
    if cause is not None:
        filter["cause"] = cause
    if subject is not None:
        filter["subject"] = subject
    if before is not None:
        filter["died_before"] = moment("before", before)
    if after is not None:
        filter["died_after"] = moment("after", after)
    if id:
        filter["ids"] = id
    return filter
