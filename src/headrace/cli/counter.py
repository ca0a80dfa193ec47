"""``headrace counter``: counters of user code, which share the limits of items."""

from __future__ import annotations

from typing import Annotated

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

app = group("List counters and set their values.")


@command(app)
def ls(session: CommandSession, *, where: WhereOption = None, query: QueryOption = None) -> None:
    """List counters, with their counts and how many holders they have."""
    select = parse_query(where, query)
    with session.open() as hr:
        counters = list(all_selected(hr.counters.list, select))
    if session.is_json:
        for info in counters:
            output.json_line(
                {
                    "key_values": info.key_values.described,
                    "count": info.count,
                    "holders": info.holders,
                }
            )
        return
    output.table(
        ["COUNT", "HOLDERS", "COUNTER"],
        [[info.count, info.holders, format_key_values(info.key_values)] for info in counters],
    )
    if not counters:
        output.note(f"there are no {'matching ' if select else ''}counters")


@command(app, "set")
def set_(
    session: CommandSession,
    pairs: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="All key-values of the counter.")
    ],
    *,
    count: Annotated[int, typer.Option(help="The new count; 0 removes it.")],
) -> None:
    """Set a counter, replacing the count set before; limits are not checked."""
    name = parse_key_values(pairs, "counter")
    with session.open() as hr:
        before = hr.counters.set(name, count)
    if session.is_json:
        output.json_document({"key_values": name.described, "count": count, "before": before})
    output.note(f"set {format_key_values(name)} to {count:,}; before it was {before:,}")
