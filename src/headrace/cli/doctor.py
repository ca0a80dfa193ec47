"""``headrace doctor``: check the store, and report problems with their next steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from headrace import local_nodes
from headrace.cli import output
from headrace.cli.command import CommandSession, command, discard_stdout
from headrace.cli.error_words import message_of
from headrace.cli.exit_codes import Code, code_of
from headrace.contract.values import Finding
from headrace.errors import HeadraceError, InvalidSetting

# An unreachable server is a finding, so the command does not wait for it for long.
PATIENCE_SECONDS = 5.0
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(doctor)


def doctor(
    session: CommandSession,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Also check the whole SQLite file.")] = False,
) -> None:
    """Check the database (version, durability, clock, open transactions, size) and Spark.

    Exits with 1 if a check failed, or with the code of the error if the store cannot be opened.
    """
    findings, code = _diagnose(session, deep=deep)
    try:
        _report(session, findings)
    except BrokenPipeError:
        # The reader has closed the pipe; the exit code still matters.
        discard_stdout()
    if code:
        raise typer.Exit(code)


def _report(session: CommandSession, findings: list[Finding]) -> None:
    url = session.client_settings()["url"].shown
    counts = {verdict: sum(f.verdict == verdict for f in findings) for verdict in _COLOURS}
    if session.is_json:
        output.json_document({"url": url, **counts, "findings": findings})
    else:
        for finding in findings:
            _print(finding)
        output.note(f"{counts['ok']} ok, {counts['warn']} warnings, {counts['fail']} failed: {url}")
    sys.stdout.flush()


def _diagnose(session: CommandSession, *, deep: bool) -> tuple[list[Finding], Code]:
    """The findings, and the exit code that follows from them."""
    # Here, so that other commands do not load it.
    from headrace.pipelines import diagnosis as spark

    try:
        with session.open(patience=PATIENCE_SECONDS) as hr:
            findings = [*hr.admin.diagnose(deep=deep), *_diagnose_nodes(), *spark.diagnose()]
    except InvalidSetting:
        raise
    except HeadraceError as error:
        # A store that cannot be opened or read is a finding as well.
        failure = Finding(
            check="store",
            verdict="fail",
            found=message_of(error),
            next_step="follow the message, then run doctor again",
            facts={"code": error.code},
        )
        return [failure], code_of(error)
    is_healthy = all(finding.verdict != "fail" for finding in findings)
    return findings, Code.OK if is_healthy else Code.FAILED


def _diagnose_nodes() -> Iterator[Finding]:
    """What is to be said of the nodes of this user on this machine."""
    for node in local_nodes.find_all():
        yield Finding(
            check="node",
            verdict="warn" if node.is_open else "ok",
            found=f"a node listens on {node.url}" + (" and needs no token" * node.is_open),
            next_step="start it without --open if other users share this machine"
            if node.is_open
            else "",
            facts={"url": node.url, "pid": node.pid, "open": node.is_open},
        )


def _print(finding: Finding) -> None:
    verdict = output.styled(f"{finding.verdict:<4}", sys.stdout, fg=_COLOURS[finding.verdict])
    found = output.escape_control(finding.found)
    sys.stdout.write(f"{verdict}  {finding.check:<12}  {found}\n")
    if finding.next_step:
        output.line(f"{'':18}  -> {finding.next_step}")
