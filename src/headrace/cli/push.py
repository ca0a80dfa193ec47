"""``headrace push``: push items to a queue."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.command import CommandSession, command
from headrace.cli.parse_body import parse_headers, parse_json
from headrace.cli.parse_query import parse_key_values
from headrace.cli.parse_time import parse_delay, parse_moment
from headrace.cli.push_input import PushTarget, push_one, push_stdin
from headrace.cli.queue_lookup import QueueName
from headrace.core.documents import SharedItemOptions
from headrace.errors import InvalidOption

STDIN = "-"


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(push)


def push(
    session: CommandSession,
    queue: QueueName,
    payload: Annotated[
        str | None,
        typer.Argument(metavar="PAYLOAD", help="A JSON value; - for lines on stdin."),
    ] = None,
    *,
    subject: Annotated[
        str | None, typer.Option(help="Its identity: skipped if a live item has the same.")
    ] = None,
    priority: Annotated[int, typer.Option(help="Items with a higher priority run first.")] = 0,
    delay: Annotated[
        str | None, typer.Option(help="Due after this delay: seconds, or a duration like 5m.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="The time when it is due.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
    channel: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A key-value of its channel; may be repeated."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same push again does nothing.")
    ] = None,
    upsert: Annotated[
        bool, typer.Option("--upsert", help="Update the live item with this subject, if any.")
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of stdin is a payload, as with -.")
    ] = False,
    docs: Annotated[
        bool,
        typer.Option("--docs", help="Each line of stdin is a document with its own fields."),
    ] = False,
) -> None:
    """Push one item, or each line of stdin, and print the ids."""
    fields: SharedItemOptions = {
        "priority": priority,
        "delay": parse_delay(delay),
        "at": parse_moment("at", at),
        "headers": parse_headers(header or []),
        "channel": parse_key_values(channel, "channel") if channel else None,
    }
    is_many = lines or docs or payload == STDIN
    _check(payload, subject, fields, is_many=is_many, docs=docs)
    with session.open(may_create_tables=True) as hr:
        target = PushTarget(hr, queue, fields, session.settings()["max_body"].value, upsert, docs)
        if is_many:
            push_stdin(target, key=key, is_json=session.is_json)
        else:
            assert payload is not None
            content = parse_json(payload, "PAYLOAD")
            push_one(target, content, subject, key=key, is_json=session.is_json)


def _check(
    payload: str | None,
    subject: str | None,
    fields: SharedItemOptions,
    *,
    is_many: bool,
    docs: bool,
) -> None:
    """Refuse options that exclude each other."""
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
            "with --docs each line has its own fields: leave --priority, --delay, --at, --header "
            "and --channel out.",
            option="docs",
        )
