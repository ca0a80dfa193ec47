"""Options that select dead items; an item must match all options that are given."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from headrace.cli.parse_time import parse_moment
from headrace.core.dead_filters import CAUSES, DeadFilter
from headrace.core.requests.items import LAST_ID

Fingerprint = Annotated[
    str | None, typer.Option(help="Only items of this group: see 'dead groups'.")
]
Cause = Annotated[
    str | None, typer.Option(help=f"Only items with this cause: {', '.join(CAUSES)}.")
]
Subject = Annotated[str | None, typer.Option(help="Only items with this subject.")]
Before = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only items that died before this time.")
]
After = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only items that died after this time.")
]
Ids = Annotated[
    list[int] | None,
    typer.Option("--id", min=0, max=LAST_ID, help="Only this item; may be repeated."),
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
    """Replace the parameter ``filter`` of a command by the options of a filter."""

    @functools.wraps(function)
    def run(*args: Any, **arguments: Any) -> None:
        options = {name: arguments.pop(name) for name in OPTIONS}
        function(*args, filter=_parse_filter(**options), **arguments)

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


def _parse_filter(
    *,
    fingerprint: str | None,
    cause: str | None,
    subject: str | None,
    before: str | None,
    after: str | None,
    id: list[int] | None,
) -> DeadFilter:
    """The filter from the options; empty if none is given."""
    filter: DeadFilter = {}
    if fingerprint is not None:
        filter["fingerprint"] = fingerprint
    if cause is not None:
        filter["cause"] = cause
    if subject is not None:
        filter["subject"] = subject
    if before is not None:
        filter["died_before"] = parse_moment("before", before)
    if after is not None:
        filter["died_after"] = parse_moment("after", after)
    if id:
        filter["ids"] = id
    return filter
