"""``headrace maintain``: run the library's maintenance once."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from headrace.api import Headrace
from headrace.cli import output
from headrace.cli.command import Session, command


def register(app: typer.Typer) -> None:
    """Put the command into place, where the library has maintenance."""
    if hasattr(Headrace, "maintain"):
        command(app)(maintain)


def maintain(session: Session) -> None:
    """Do what keeps the store tidy, once."""
    with session.open() as hr:
        client: Any = hr
        report = msgspec.to_builtins(client.maintain())
    if session.is_json:
        output.document(report)
    elif isinstance(report, dict) and report:
        output.fields(list(report.items()))
    else:
        output.note("maintenance is done")
