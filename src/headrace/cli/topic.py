"""``headrace topic``: list and read topics, and commit to them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from headrace._sync.headrace import Headrace
from headrace.cli import commit_input, output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.completion import topic_names
from headrace.cli.pages import all_pages
from headrace.cli.parse_body import parse_headers, parse_json
from headrace.cli.parse_position import parse_position
from headrace.cli.proc_views import lags
from headrace.cli.progress import progress
from headrace.cli.tail import TailFollower
from headrace.errors import UnknownTopic
from headrace.model.topics.records import TopicInfo

app = group("List and read topics, and commit to them.")

TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=topic_names)
]


@command(app)
def ls(
    session: CommandSession,
    *,
    prefix: Annotated[str, typer.Option(help="Only names with this prefix.")] = "",
) -> None:
    """List topics."""
    with session.open() as hr:
        topics = list(_all_topics(hr, prefix))
    if session.is_json:
        output.json_document([_to_dict(info) for info in topics])
        return
    output.table(
        ["TOPIC", "RECORDS", "LAST ID", "LAST COMMIT"],
        [
            [info.name, info.length, info.last_id, output.format_time(info.last_ts)]
            for info in topics
        ],
    )
    if not topics:
        output.note("there are no topics" + (f" that begin with {prefix!r}" if prefix else ""))


@command(app)
def tail(
    session: CommandSession,
    topic: TopicName,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="How many of the newest records.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the newest records, oldest first."""
    with session.open() as hr:
        seq = 0
        try:
            seq = hr.topic(topic).info().next_seq
        except UnknownTopic:
            if not follow:
                raise
            output.note(f"topic {topic!r} has no records yet: waiting for them")
        # revrange() treats a limit of 0 as no limit.
        newest = hr.range(topic, limit=limit, reverse=True) if seq and limit else []
        for record in reversed(newest):
            output.record(record, is_json=session.is_json)
        follower = TailFollower(hr, topic, newest[0].seq + 1 if newest else seq)
        while follow:
            for record in follower.new_records():
                output.record(record, is_json=session.is_json)
            sys.stdout.flush()
            follower.wait()


@command(app)
def range(
    session: CommandSession,
    topic: TopicName,
    *,
    start: Annotated[
        str, typer.Option(help="An id, ':seq', milliseconds or a time; the upper end if reversed.")
    ] = "",
    end: Annotated[str, typer.Option(help="The other end.")] = "",
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Leave the ends out.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most N records.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Newest first.")] = False,
) -> None:
    """Print the records between two positions."""
    with session.open() as hr:
        records = hr.iterate(
            topic,
            parse_position(start),
            parse_position(end),
            exclusive=exclusive,
            limit=limit,
            reverse=reverse,
        )
        # The number of records between two positions is not known in advance.
        total = None if start or end else min(hr.topic(topic).length(), limit or sys.maxsize)
        with progress(topic, total=total) as advance:
            for record in records:
                output.record(record, is_json=session.is_json)
                advance(1)


@command(app)
def commit(
    session: CommandSession,
    topic: TopicName,
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="A JSON object or list; - for lines on stdin.")
    ],
    *,
    key: Annotated[
        str | None, typer.Option(help="Idempotency key: the same commit again does nothing.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
) -> None:
    """Commit one record, or each line of stdin, and print the ids."""
    headers = parse_headers(header or [])
    with session.open(may_create_tables=True) as hr:
        if body == "-":
            commit_input.from_stdin(hr, topic, key=key, headers=headers, is_json=session.is_json)
        else:
            rid = hr.commit(topic, parse_json(body), headers=headers, key=key)
            commit_input.print_ids([rid], is_json=session.is_json)


@command(app)
def show(session: CommandSession, topic: TopicName) -> None:
    """Show a topic's length, its first and last record, and the lag of its procs."""
    with session.open() as hr:
        info = hr.topic(topic).info()
        first = next(hr.iterate(topic, limit=1), None)
        proc_lags = list(lags(hr, hr.procs.list(topic=topic)))
    if session.is_json:
        start = {"first_id": first.id if first else None, "first_ts": first.ts if first else None}
        procs = [{"name": proc.name, "status": proc.status, "lag": lag} for proc, lag in proc_lags]
        output.json_document({**_to_dict(info), **start, "procs": procs})
        return
    output.fields(
        [
            ("topic", info.name),
            ("records", info.length),
            ("first", f"{first.id}  {output.format_time(first.ts)}" if first else None),
            ("last", f"{info.last_id}  {output.format_time(info.last_ts)}"),
            ("procs", len(proc_lags)),
        ]
    )
    output.table(
        ["PROC", "STATUS", "BEHIND", "SECONDS"],
        [[proc.name, proc.status, lag.records, lag.seconds] for proc, lag in proc_lags],
    )


def _all_topics(hr: Headrace, prefix: str) -> Iterator[TopicInfo]:
    return all_pages(
        lambda after, limit: hr.topics.list(prefix=prefix, after=after, limit=limit),
        cursor="name",
        after="",
    )


def _to_dict(info: TopicInfo) -> dict[str, Any]:
    return {**msgspec.structs.asdict(info), "length": info.length, "last_id": info.last_id}
