"""``headrace push``: put items into a queue."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import commits, pushes
from headrace.cli.command import Session, command
from headrace.cli.references import QueueName
from headrace.cli.selecting import key_values
from headrace.cli.times import moment, wait
from headrace.core.documents import SharedFields
from headrace.errors import InvalidOption

STDIN = "-"


def register(app: typer.Typer) -> None:
    """Put the command into place."""
    command(app)(push)


def push(
    session: Session,
    queue: QueueName,
    payload: Annotated[
        str | None,
        typer.Argument(metavar="PAYLOAD", help="A JSON value; - for lines on stdin."),
    ] = None,
    *,
    subject: Annotated[
        str | None, typer.Option(help="Its identity: skipped if a live item has it.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    delay: Annotated[
        str | None, typer.Option(help="When it is due: seconds from now, or words like 5m.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="When it is due: a time.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A key-value of its channel; may be repeated."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Count once: the same again pushes nothing.")] = (
        None
    ),
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Replace what the live item of its subject carries.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of stdin is a payload, as with -.")
    ] = False,
    docs: Annotated[
        bool,
        typer.Option("--docs", help="Each line of stdin is a document with its own subject etc."),
    ] = False,
) -> None:
    """Put one item into a queue, or each line of stdin; prints the ids."""
    fields: SharedFields = {
        "priority": priority,
        "delay": wait(delay),
        "at": moment("at", at),
        "headers": commits.headers(header or []),
        "channel": key_values(channel, "channel") if channel else None,
    }
    is_many = lines or docs or payload == STDIN
    _check(payload, subject, fields, is_many=is_many, docs=docs)
    with session.open(makes_tables=True) as hr:
        way = pushes.Way(hr, queue, fields, session.settings()["max_body"].value, upsert, docs)
        if is_many:
            pushes.from_stdin(way, key=key, is_json=session.is_json)
        else:
            assert payload is not None
            content = commits.parsed(payload, "PAYLOAD")
            pushes.one(way, content, subject, key=key, is_json=session.is_json)


def _check(
    payload: str | None,
    subject: str | None,
    fields: SharedFields,
    *,
    is_many: bool,
    docs: bool,
) -> None:
    """Refuse what does not go together."""
    if payload is None and not is_many:
        raise InvalidOption("give a PAYLOAD, or - for lines on stdin.", option="payload")
    if is_many and payload not in (None, STDIN):
        raise InvalidOption("--lines and --docs read stdin: leave PAYLOAD out.", option="payload")
    if is_many and subject is not None:
        raise InvalidOption(
            "a subject is for one item: with --docs each line has its own.", option="subject"
        )
    if docs and any(fields.values()):
        raise InvalidOption(
            "with --docs each line says that itself: leave --priority, --delay, --at, --header "
            "and --channel out.",
            option="docs",
        )
