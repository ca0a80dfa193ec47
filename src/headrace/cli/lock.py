"""``headrace lock``: locks, their holders and waiters."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace._sync.headrace import Headrace
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
from headrace.cli.prompts import YesOption, confirm
from headrace.core.locks import LockInfo
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query

app = group("List locks, and release them by force.")


@command(app)
def ls(session: CommandSession, *, where: WhereOption = None, query: QueryOption = None) -> None:
    """List the locks that have a holder or waiters."""
    select = parse_query(where, query)
    with session.open() as hr:
        locks = list(all_selected(hr.locks.list, select))
    if session.is_json:
        for info in locks:
            output.json_line(_to_dict(info))
        return
    output.table(
        ["TOKEN", "HOLDER", "SINCE", "UNTIL", "WAITING", "LOCK"],
        [
            [
                info.token,
                info.holder,
                info.since,
                f"{output.format_value(info.until)} (over)" if info.is_overdue else info.until,
                info.waiting,
                format_key_values(info.key_values),
            ]
            for info in locks
        ],
    )
    if not locks:
        output.note(f"there are no {'matching ' if select else ''}locks")


@command(app, "force-release")
def force_release(
    session: CommandSession,
    pairs: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="All key-values of the lock.")
    ],
    *,
    token: Annotated[
        int | None, typer.Option(help="Only if the lock has this token, as ls shows it.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Release a lock by force; its holder loses it, and the next waiter gets it immediately."""
    name = parse_key_values(pairs, "lock")
    with session.open() as hr:
        holder = _holder(hr, name)
        warning = f"; {holder} loses it and may still be using it" if holder else ""
        confirm(f"lock {format_key_values(name)} will be released{warning}", is_confirmed=yes)
        info = hr.locks.force_release(name, token=token)
    if session.is_json:
        output.json_document(_to_dict(info))
    output.note(f"released lock {format_key_values(name)} of {info.holder} (token {info.token})")


def _holder(hr: Headrace, name: KeyValues) -> str | None:
    locks = hr.locks.list(Query.exactly(name), limit=1)
    return locks[0].holder if locks else None


def _to_dict(info: LockInfo) -> dict[str, Any]:
    return {
        "key_values": info.key_values.described,
        "token": info.token,
        "holder": info.holder,
        "since": info.since,
        "until": info.until,
        "is_overdue": info.is_overdue,
        "waiting": info.waiting,
    }
