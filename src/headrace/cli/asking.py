"""Questions before what cannot be undone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.cli.exits import Code
from headrace.cli.output import complain, note

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def ask(will: str, *, is_agreed: bool) -> None:
    """Say what will happen, and go on only if somebody agrees."""
    note(will)
    if is_agreed:
        return
    if not is_terminal():
        complain("nobody is there to ask: say --yes to go on without a question.")
        raise typer.Exit(Code.USAGE)
    # typer's own question prints a blank to stdout, where only data belongs.
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        note("nothing was done")
        raise typer.Exit(Code.FAILED)


def is_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()
