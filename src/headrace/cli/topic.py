"""``headrace topic``: look into topics, and commit to them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from headrace.api import Headrace
from headrace.cli import commits, output
from headrace.cli.command import Session, command
from headrace.cli.following import Follower
from headrace.cli.positions import position
from headrace.cli.progress import progress
from headrace.client.procs import Proc
from headrace.errors import UnknownProc, UnknownTopic
from headrace.model.record import TopicInfo

PAGE = 1000

app = typer.Typer(help="Look into topics, and commit to them.", no_args_is_help=True)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]


@command(app)
def ls(
    session: Session,
    *,
    prefix: Annotated[str, typer.Option(help="Only names that begin so.")] = "",
) -> None:
    """List topics."""
    with session.open() as hr:
        found = list(_all_topics(hr, prefix))
    if session.is_json:
        output.document([_described(info) for info in found])
        return
    output.table(
        ["TOPIC", "RECORDS", "LAST ID", "LAST COMMIT"],
        [[info.name, info.length, info.last_id, output.moment(info.last_ts)] for info in found],
    )
    if not found:
        output.note("there are no topics" + (f" that begin with {prefix!r}" if prefix else ""))


@command(app)
def tail(
    session: Session,
    topic: TopicName,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="How many of the newest records.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is committed, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the newest records, oldest first."""
    with session.open() as hr:
        seq = 0
        try:
            seq = hr.topic_info(topic).next_seq
        except UnknownTopic:
            if not follow:
                raise
            output.note(f"topic {topic!r} has no records yet: waiting for them")
        # A limit of 0 would read everything.
        newest = hr.revrange(topic, limit=limit) if seq and limit else []
        for record in reversed(newest):
            output.record(record, is_json=session.is_json)
        follower = Follower(hr, topic, newest[0].seq + 1 if newest else seq)
        while follow:
            for record in follower.new():
                output.record(record, is_json=session.is_json)
            sys.stdout.flush()
            follower.wait()


@command(app)
def range(
    session: Session,
    topic: TopicName,
    *,
    start: Annotated[
        str, typer.Option(help="An id, ':seq', milliseconds or a time; the high end if reversed.")
    ] = "",
    end: Annotated[str, typer.Option(help="The other end.")] = "",
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Leave the ends out.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most so many records.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Newest first.")] = False,
) -> None:
    """Print the records between two positions."""
    with session.open() as hr:
        records = hr.iterate(
            topic,
            position(start),
            position(end),
            exclusive=exclusive,
            limit=limit,
            reverse=reverse,
        )
        # How many lie between two positions is not known before they are read.
        total = None if start or end else min(hr.length(topic), limit or sys.maxsize)
        with progress(topic, total=total) as advance:
            for record in records:
                output.record(record, is_json=session.is_json)
                advance(1)


@command(app)
def commit(
    session: Session,
    topic: TopicName,
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="A JSON object or list; - for lines on stdin.")
    ],
    *,
    key: Annotated[
        str | None, typer.Option(help="Count once: the same again commits nothing.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; may be repeated.")
    ] = None,
) -> None:
    """Commit one record, or each line of stdin; prints the ids."""
    headers = commits.headers(header or [])
    with session.open(makes_tables=True) as hr:
        if body == "-":
            max_body = session.settings()["max_body"].value
            commits.from_stdin(
                hr, topic, key=key, headers=headers, max_body=max_body, is_json=session.is_json
            )
        else:
            rid = hr.commit(topic, commits.parsed(body), headers=headers, key=key)
            commits.print_ids([rid], is_json=session.is_json)


@command(app)
def stats(session: Session, topic: TopicName) -> None:
    """Tell how much a topic holds, since when, and who is how far behind."""
    with session.open() as hr:
        info = hr.topic_info(topic)
        first = next(hr.iterate(topic, limit=1), None)
        procs = list(_procs(hr, topic))
    if session.is_json:
        ends = {"first_id": first.id if first else None, "first_ts": first.ts if first else None}
        output.document({**_described(info), **ends, "procs": procs})
        return
    output.fields(
        [
            ("topic", info.name),
            ("records", info.length),
            ("first", f"{first.id}  {output.moment(first.ts)}" if first else None),
            ("last", f"{info.last_id}  {output.moment(info.last_ts)}"),
            ("procs", len(procs)),
        ]
    )
    rows = [[p["name"], p["status"], p["lag"].records, p["lag"].seconds] for p in procs]
    output.table(["PROC", "STATUS", "BEHIND", "SECONDS"], rows)


def _all_topics(hr: Headrace, prefix: str) -> Iterator[TopicInfo]:
    after = ""
    while some := hr.topics(prefix=prefix, after=after, limit=PAGE):
        yield from some
        after = some[-1].name


def _described(info: TopicInfo) -> dict[str, Any]:
    return {**msgspec.structs.asdict(info), "length": info.length, "last_id": info.last_id}


def _procs(hr: Headrace, topic: str) -> Iterator[dict[str, Any]]:
    for info in hr.procs(topic=topic):
        try:
            lag = Proc(hr, info.name, info.topic).lag()
        except UnknownProc:
            # Destroyed since we listed it.
            continue
        yield {"name": info.name, "status": info.status, "lag": lag}
