"""``headrace lock``: who has which lock."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.api import Headrace
from headrace.cli import output
from headrace.cli.asking import YesOption, ask
from headrace.cli.command import Session, command
from headrace.cli.paging import everything
from headrace.cli.selecting import QueryOption, WhereOption, key_values, selected, shown
from headrace.core.locks import LockInfo
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query

app = typer.Typer(help="Look at locks, and take them away.", no_args_is_help=True)


@command(app)
def ls(session: Session, *, where: WhereOption = None, query: QueryOption = None) -> None:
    """List the locks that somebody has or waits for."""
    select = selected(where, query)
    with session.open() as hr:
        found = list(everything(hr.locks, select))
    if session.is_json:
        for info in found:
            output.json_line(_described(info))
        return
    output.table(
        ["TOKEN", "HOLDER", "SINCE", "UNTIL", "WAITING", "LOCK"],
        [
            [
                info.token,
                info.holder,
                info.since,
                f"{output.text(info.until)} (over)" if info.is_overdue else info.until,
                info.waiting,
                shown(info.key_values),
            ]
            for info in found
        ],
    )
    if not found:
        output.note("nobody has a lock" + (" like that" if select else ""))


@command(app)
def release(
    session: Session,
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="All its key-values.")],
    *,
    token: Annotated[
        int | None, typer.Option(help="Only if it is held by this number, as ls shows it.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Take a lock away from whoever has it, so that the next one gets it at once."""
    name = key_values(pairs, "lock")
    with session.open() as hr:
        holder = _holder(hr, name)
        who = f" from {holder}, who may still work under it" if holder else ""
        ask(f"the lock {shown(name)} will be taken away{who}", is_agreed=yes)
        info = hr.release_lock(name, token=token)
    if session.is_json:
        output.document(_described(info))
    output.note(f"took the lock {shown(name)} away from {info.holder} (token {info.token})")


def _holder(hr: Headrace, name: KeyValues) -> str | None:
    found = hr.locks(Query.exactly(name), limit=1)
    return found[0].holder if found else None


def _described(info: LockInfo) -> dict[str, Any]:
    return {
        "key_values": info.key_values.to_json(),
        "token": info.token,
        "holder": info.holder,
        "since": info.since,
        "until": info.until,
        "is_overdue": info.is_overdue,
        "waiting": info.waiting,
    }
