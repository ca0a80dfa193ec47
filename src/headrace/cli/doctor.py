"""``headrace doctor``: look at the store, and say what is not well."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.text import Text

from headrace.cli import output
from headrace.cli.command import Session, command, hush
from headrace.cli.exits import Code, code_of
from headrace.contract.values import Finding
from headrace.errors import HeadraceError, InvalidSetting
from headrace.pipelines import diagnosis as spark

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def register(app: typer.Typer) -> None:
    """Put the command into place."""
    command(app)(doctor)


def doctor(
    session: Session,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read the whole of a SQLite file.")
    ] = False,
) -> None:
    """Look at the database: version, durability, clock, open transactions, size; and at Spark.

    Exits with 1 if a check failed; a store that cannot be opened has the code of its error.
    """
    findings, code = _examined(session, deep=deep)
    try:
        _report(session, findings)
    except BrokenPipeError:
        # Whoever read us has seen enough; the verdict still counts.
        hush()
    if code:
        raise typer.Exit(code)


def _report(session: Session, findings: list[Finding]) -> None:
    url = session.settings()["url"].shown
    count = {verdict: sum(f.verdict == verdict for f in findings) for verdict in _STYLES}
    if session.is_json:
        output.document({"url": url, **count, "findings": findings})
    else:
        for finding in findings:
            _print(finding)
        output.note(f"{count['ok']} ok, {count['warn']} to watch, {count['fail']} failed: {url}")
    sys.stdout.flush()


def _examined(session: Session, *, deep: bool) -> tuple[list[Finding], Code]:
    """The findings, and the exit code they stand for."""
    try:
        with session.open() as hr:
            findings = [*hr.diagnose(deep=deep), *spark.examine()]
    except InvalidSetting:
        raise
    except HeadraceError as error:
        # That it cannot be opened, or not be read to the end, is a finding as well.
        why = Finding(
            check="store",
            verdict="fail",
            found=str(error),
            next_step="do what the message says, then look again",
            facts={"code": error.code},
        )
        return [why], code_of(error)
    is_well = all(finding.verdict != "fail" for finding in findings)
    return findings, Code.OK if is_well else Code.FAILED


def _print(finding: Finding) -> None:
    console = output.Terminal()
    verdict = (f"{finding.verdict:<4}", _STYLES[finding.verdict])
    console.print(Text.assemble(verdict, f"  {finding.check:<12}  ", output.plain(finding.found)))
    if finding.next_step:
        console.print(Text(f"{'':18}  -> {output.plain(finding.next_step)}"))
