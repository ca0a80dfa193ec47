"""Confirmation before a command that cannot be undone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.exit_codes import Code
from headrace.cli.output import error, note

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(consequence: str, *, is_confirmed: bool) -> None:
    """Print what will happen, and exit unless the person confirms it or ``--yes`` did."""
    note(consequence)
    if is_confirmed:
        return
    if not is_terminal():
        error("nothing was done: stdin is not a terminal; use --yes to go on without a question.")
        raise typer.Exit(Code.USAGE)
    # typer's own prompt prints a space to stdout, where only data belongs.
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was done")
        raise typer.Exit(Code.FAILED)


def is_terminal() -> bool:
    """Whether a person can answer."""
    return sys.stdin.isatty()
