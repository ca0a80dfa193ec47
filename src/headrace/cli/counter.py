"""``headrace counter``: what user code counts under the limits of items."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.cli.paging import everything
from headrace.cli.selecting import QueryOption, WhereOption, key_values, selected, shown

app = typer.Typer(help="Look at counters, and set their numbers.", no_args_is_help=True)


@command(app)
def ls(session: Session, *, where: WhereOption = None, query: QueryOption = None) -> None:
    """List what is counted beside items, and by how many holders."""
    select = selected(where, query)
    with session.open() as hr:
        found = list(everything(hr.counters, select))
    if session.is_json:
        for info in found:
            output.json_line(
                {
                    "key_values": info.key_values.to_json(),
                    "count": info.count,
                    "holders": info.holders,
                }
            )
        return
    output.table(
        ["COUNT", "HOLDERS", "COUNTER"],
        [[info.count, info.holders, shown(info.key_values)] for info in found],
    )
    if not found:
        output.note("nothing is counted" + (" like that" if select else ""))


@command(app, "set")
def set_(
    session: Session,
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="All its key-values.")],
    *,
    count: Annotated[int, typer.Option(help="How many there are; 0 removes the number.")],
) -> None:
    """Say how many there are of something, in place of what was set before, whatever limits say."""
    name = key_values(pairs, "counter")
    with session.open() as hr:
        before = hr.set_counter(name, count)
    if session.is_json:
        output.document({"key_values": name.to_json(), "count": count, "before": before})
    output.note(f"set {shown(name)} to {count:,}; before it was {before:,}")
