"""``headrace migrate``: make or upgrade the tables, or print the SQL that would."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace.api import connect
from headrace.cli import output
from headrace.cli.command import Session, command
from headrace.contract.values import Finding
from headrace.errors import InvalidOption, SchemaTooOld, UnknownStore
from headrace.model.url import StoreUrl, parse_url
from headrace.stores import DialectName, migration_script

_DIALECTS: dict[str, DialectName] = {"sqlite": "sqlite", "postgresql": "postgres"}


def register(app: typer.Typer) -> None:
    """Put the command into place."""
    command(app)(migrate)


def migrate(
    session: Session,
    *,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL and connect to nothing.")
    ] = False,
    dialect: Annotated[
        DialectName | None, typer.Option(help="For --sql: which one, if the URL does not say.")
    ] = None,
    after: Annotated[
        int, typer.Option("--from", min=0, help="For --sql: the version the tables have.")
    ] = 0,
) -> None:
    """Make the tables, or bring them to this version."""
    if sql:
        _print_script(session, dialect, after)
        return
    if dialect is not None or after:
        raise InvalidOption("--dialect and --from go with --sql.", option="sql")
    before = _version_before(session)
    found = session.settings()
    with connect(found.url, **{**found.options(), "migrate": "auto"}) as hr:
        now = _version(hr.diagnose())
    before = now if before is None else before
    if session.is_json:
        output.document({"from": before, "to": now})
    elif before == now:
        output.line(f"the tables are at version {now} already")
    else:
        output.line(f"the tables went from version {before} to {now}")


def _version_before(session: Session) -> int | None:
    """The version of the tables before anything is done; None if it is the newest."""
    try:
        with session.open():
            return None
    except UnknownStore:
        return 0
    except SchemaTooOld as error:
        return int(error.version)


def _version(findings: list[Finding]) -> int:
    for finding in findings:
        if finding.check == "schema":
            return int(finding.facts["version"] or 0)
    raise InvalidOption("this store has no tables to migrate.", option="url")


def _print_script(session: Session, dialect: DialectName | None, after: int) -> None:
    name = None
    found = session.settings()
    url = parse_url(found.url) if dialect is None or found["url"].value else None
    if url is not None:
        dialect, name = _placed(url, dialect)
    assert dialect is not None
    script = migration_script(dialect, name=name, after=after)
    sys.stdout.write(script)
    if not script:
        output.note(f"version {after} is the newest: there is nothing to do")


def _placed(url: StoreUrl, dialect: DialectName | None) -> tuple[DialectName, str | None]:
    """The dialect, and the schema or prefix that the URL names if it is of that dialect."""
    its_own = _DIALECTS.get(url.scheme)
    if dialect is not None and its_own != dialect:
        return dialect, None
    if its_own is None:
        raise InvalidOption(f"a {url.scheme} store has no tables.", option="url")
    return its_own, url.options.get("schema" if its_own == "postgres" else "prefix")
