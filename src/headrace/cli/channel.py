"""``headrace channel``: the lines inside a queue."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.paging import everything
from headrace.cli.references import QueueName, reference
from headrace.cli.selecting import QueryOption, WhereOption, key_values, selected, shown
from headrace.cli.times import moment, wait
from headrace.core.channels import ChannelInfo
from headrace.errors import InvalidOption
from headrace.model.queries import Query

app = typer.Typer(
    help="Look at the channels of a queue, hold them, and delete them.", no_args_is_help=True
)

ChannelName = Annotated[
    list[str], typer.Argument(metavar="KEY=VALUE...", help="All its key-values.")
]


@command(app)
def ls(
    session: Session,
    queue: QueueName,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
) -> None:
    """List the channels that have items: how many wait, and are out."""
    select = selected(where, query)
    with session.open() as hr:
        found = list(everything(reference(session, hr, queue).channels, select))
    if session.is_json:
        for info in found:
            output.json_line(_described(info))
        return
    output.table(
        ["WAITING", "ACTIVE", "HELD UNTIL", "CHANNEL"],
        [[info.waiting, info.active, info.held_until, shown(info.key_values)] for info in found],
    )
    if not found:
        output.note(f"queue {queue!r} has no channels" + (" like that" if select else ""))


@command(app)
def show(
    session: Session,
    queue: QueueName,
    pairs: ChannelName,
) -> None:
    """Tell how many items of one channel wait, and are out, and whether it is held."""
    with session.open() as hr:
        info = reference(session, hr, queue).channel(key_values(pairs, "channel"))
    if session.is_json:
        output.document(_described(info))
        return
    typed = [(key, str(value.type.name.lower())) for key, value in info.key_values.items()]
    output.fields(
        [
            ("channel", shown(info.key_values)),
            ("types", ", ".join(f"{key} is {name}" for key, name in typed)),
            ("waiting", info.waiting),
            ("active", info.active),
            ("held until", info.held_until),
        ]
    )


@command(app)
def hold(
    session: Session,
    queue: QueueName,
    pairs: ChannelName,
    *,
    delay: Annotated[
        str | None, typer.Option(help="For how long: seconds, or words like 5m.")
    ] = None,
    at: Annotated[str | None, typer.Option(help="Until when: a time.")] = None,
) -> None:
    """Let nothing of a channel run for some time; of two holds the later one counts."""
    name = key_values(pairs, "channel")
    with session.open() as hr:
        home = reference(session, hr, queue)
        until = home.hold_channel(name, at=moment("at", at), delay=wait(delay))
    if session.is_json:
        output.document({"key_values": name.to_json(), "held_until": until})
    output.note(f"channel {shown(name)} of queue {queue!r} is held until {output.text(until)}")


@command(app)
def resume(session: Session, queue: QueueName, pairs: ChannelName) -> None:
    """Let a channel that is held run again, now."""
    name = key_values(pairs, "channel")
    with session.open() as hr:
        home = reference(session, hr, queue)
        before = home.channel(name).held_until
        home.end_channel_hold(name)
    if session.is_json:
        output.document({"key_values": name.to_json(), "held_until": before})
    was = "was not held" if before is None else f"was held until {output.text(before)}"
    output.note(f"channel {shown(name)} of queue {queue!r} {was}, and may run")


@command(app)
def delete(
    session: Session,
    queue: QueueName,
    *,
    where: WhereOption = None,
    query: QueryOption = None,
    is_all: Annotated[bool, typer.Option("--all", help="All channels of the queue.")] = False,
    yes: YesOption = False,
) -> None:
    """Remove channels with all their items, those that are out included."""
    select = selected(where, query)
    if (select is None) != is_all:
        raise InvalidOption("say which: --where or --query, or --all.", option="all")
    chosen = select or Query()
    with session.open() as hr:
        home = reference(session, hr, queue)
        found = list(everything(home.channels, chosen))
        waiting, active = (sum(getattr(i, n) for i in found) for n in ("waiting", "active"))
        said = f"{output.counted(len(found), 'channel')} of queue {queue!r} will be removed with "
        said += f"{waiting:,} waiting items and {active:,} in flight, whose workers find them gone"
        ask(said, is_agreed=yes)
        deleted = home.delete_channels(chosen)
    if session.is_json:
        output.document(deleted)
    items = output.counted(deleted.items, "item")
    output.note(f"removed {output.counted(deleted.channels, 'channel')} with {items}")


def _described(info: ChannelInfo) -> dict[str, Any]:
    return {
        "key_values": info.key_values.to_json(),
        "waiting": info.waiting,
        "active": info.active,
        "held_until": info.held_until,
    }
