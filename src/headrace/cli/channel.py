"""``headrace channel``: the channels of a queue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.command import CommandSession, command, group
from headrace.cli.pages import all_selected
from headrace.cli.parse_query import (
    QueryOption,
    WhereOption,
    format_key_values,
    parse_key_values,
    parse_query,
)
from headrace.cli.parse_time import parse_delay, parse_moment
from headrace.cli.prompts import YesOption, confirm
from headrace.cli.queue_lookup import QueueName
from headrace.core.channels import ChannelInfo
from headrace.errors import InvalidOption
from headrace.model.query.queries import Query

app = group("List the channels of a queue, delay and delete them.")

ChannelName = Annotated[
    list[str], typer.Argument(metavar="KEY=VALUE...", help="All key-values of the channel.")
]


@command(app)
def ls(
    session: CommandSession,
    queue: QueueName,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
) -> None:
    """List the channels that have items, with how many wait and how many are in flight."""
    select = parse_query(where, query)
    with session.open() as hr:
        channels = list(all_selected(hr.queue(queue).channels.list, select))
    if session.is_json:
        for info in channels:
            output.json_line(_to_dict(info))
        return
    output.table(
        ["WAITING", "ACTIVE", "DELAYED UNTIL", "CHANNEL"],
        [
            [info.waiting, info.active, info.delayed_until, format_key_values(info.key_values)]
            for info in channels
        ],
    )
    if not channels:
        output.note(f"queue {queue!r} has no {'matching ' if select else ''}channels")


@command(app)
def show(
    session: CommandSession,
    queue: QueueName,
    pairs: ChannelName,
) -> None:
    """Show how many items of a channel wait and are in flight, and whether it is delayed."""
    with session.open() as hr:
        info = hr.queue(queue).channels.get(parse_key_values(pairs, "channel"))
    if session.is_json:
        output.json_document(_to_dict(info))
        return
    types = [(key, str(value.type.name.lower())) for key, value in info.key_values.items()]
    output.fields(
        [
            ("channel", format_key_values(info.key_values)),
            ("types", ", ".join(f"{key} is {name}" for key, name in types)),
            ("waiting", info.waiting),
            ("active", info.active),
            ("delayed until", info.delayed_until),
        ]
    )


@command(app)
def delay(
    session: CommandSession,
    queue: QueueName,
    pairs: ChannelName,
    *,
    delay: Annotated[
        str | None, typer.Option(help="How long: seconds, or a duration like 5m.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="The time that the delay ends.")] = None,
) -> None:
    """Stop claims from a channel for some time; of two delays the one that ends later applies."""
    name = parse_key_values(pairs, "channel")
    with session.open() as hr:
        ref = hr.queue(queue)
        until = ref.channels.delay(name, at=parse_moment("at", at), delay=parse_delay(delay))
    if session.is_json:
        output.json_document({"key_values": name.described, "delayed_until": until})
    output.note(
        f"channel {format_key_values(name)} of queue {queue!r} is delayed until "
        f"{output.format_value(until)}"
    )


@command(app)
def resume(session: CommandSession, queue: QueueName, pairs: ChannelName) -> None:
    """End the delay of a channel."""
    name = parse_key_values(pairs, "channel")
    with session.open() as hr:
        ref = hr.queue(queue)
        before = ref.channels.get(name).delayed_until
        ref.channels.end_delay(name)
    if session.is_json:
        output.json_document({"key_values": name.described, "delayed_until": before})
    was = (
        "was not delayed" if before is None else f"was delayed until {output.format_value(before)}"
    )
    output.note(
        f"channel {format_key_values(name)} of queue {queue!r} {was}; it is not delayed now"
    )


@command(app)
def delete(
    session: CommandSession,
    queue: QueueName,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    is_all: Annotated[bool, typer.Option("--all", help="All channels of the queue.")] = False,
    yes: YesOption = False,
) -> None:
    """Remove channels with all their items, including those in flight."""
    select = parse_query(where, query)
    if (select is None) != is_all:
        raise InvalidOption("select channels by --where or --query, or use --all.", option="all")
    query_or_all = select or Query()
    with session.open() as hr:
        ref = hr.queue(queue)
        channels = list(all_selected(ref.channels.list, query_or_all))
        waiting = sum(info.waiting for info in channels)
        active = sum(info.active for info in channels)
        confirm(
            f"{output.format_count(len(channels), 'channel')} of queue {queue!r} will be removed "
            f"with {waiting:,} waiting items and {active:,} in flight, which their workers lose",
            is_confirmed=yes,
        )
        deleted = ref.channels.delete(query_or_all)
    if session.is_json:
        output.json_document(deleted)
    items = output.format_count(deleted.items, "item")
    output.note(f"removed {output.format_count(deleted.channels, 'channel')} with {items}")


def _to_dict(info: ChannelInfo) -> dict[str, Any]:
    return {
        "key_values": info.key_values.described,
        "waiting": info.waiting,
        "active": info.active,
        "delayed_until": info.delayed_until,
    }
