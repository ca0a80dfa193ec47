"""``headrace migrate``: create or upgrade the tables, or print the SQL for it."""

from __future__ import annotations

import sys
from typing import Annotated, NamedTuple

import typer

from headrace._sync.headrace import connect
from headrace.cli import output
from headrace.cli.command import CommandSession, command
from headrace.contract.values import Finding
from headrace.errors import InvalidOption, SchemaTooOld, UnknownStore
from headrace.model.url import NODE_SCHEMES, StoreUrl, parse_url
from headrace.stores import DialectName, migration_script

_DIALECTS: dict[str, DialectName] = {"sqlite": "sqlite", "postgresql": "postgres"}


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app)(migrate)


def migrate(
    session: CommandSession,
    *,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL without connecting.")] = False,
    dialect: Annotated[
        DialectName | None, typer.Option(help="For --sql: the dialect, if no URL is set.")
    ] = None,
    after: Annotated[
        int, typer.Option("--from", min=0, help="For --sql: the current version of the tables.")
    ] = 0,
) -> None:
    """Create the tables, or upgrade them to this version."""
    if sql:
        _print_script(session, dialect, after)
        return
    if dialect is not None or after:
        raise InvalidOption("--dialect and --from go with --sql.", option="sql")
    settings = session.settings()
    if parse_url(settings.url).scheme in NODE_SCHEMES:
        raise _node_migrates()
    before = _schema_before(session)
    with connect(settings.url, **{**settings.options(), "migrate": "auto"}) as hr:
        now = _schema(hr.admin.diagnose())
    is_upgrade = 0 < before.version < now.version
    replaced = bool(now.is_current) and (is_upgrade or before.is_current is False)
    if session.is_json:
        document = {"from": before.version, "to": now.version, "functions_replaced": replaced}
        output.json_document(document)
        return
    if before.version == now.version:
        output.line(f"the tables are at version {now.version} already")
    elif before.version:
        output.line(f"migrated the tables from version {before.version} to {now.version}")
    else:
        output.line(f"created the tables, at version {now.version}")
    if replaced:
        output.line("replaced the functions by those of this release")


def _node_migrates() -> InvalidOption:
    return InvalidOption(
        "this URL is that of a node, which migrates its own store: start the node with "
        "HEADRACE_MIGRATE=auto, or run `headrace migrate` with the URL of its store.",
        option="url",
    )


class _Schema(NamedTuple):
    """What a store's schema is like, as far as a migration may change it."""

    version: int
    # Whether the functions need no replacement; None if there are none, or it is unknown.
    is_current: bool | None


def _schema_before(session: CommandSession) -> _Schema:
    """The schema before the migration."""
    try:
        with session.open() as hr:
            return _schema(hr.admin.diagnose())
    except UnknownStore:
        return _Schema(0, is_current=None)
    except SchemaTooOld as error:
        return _Schema(int(error.version), is_current=None)


def _schema(findings: list[Finding]) -> _Schema:
    verdicts = {finding.check: finding.verdict for finding in findings}
    functions = verdicts.get("functions")
    return _Schema(_version(findings), None if functions is None else functions == "ok")


def _version(findings: list[Finding]) -> int:
    for finding in findings:
        if finding.check == "schema":
            return int(finding.facts["version"] or 0)
    raise InvalidOption("this store has no tables to migrate.", option="url")


def _print_script(session: CommandSession, dialect: DialectName | None, after: int) -> None:
    name = None
    settings = session.settings()
    url = parse_url(settings.url) if dialect is None or settings["url"].value else None
    if url is not None:
        dialect, name = _dialect_and_schema(url, dialect)
    assert dialect is not None
    script = migration_script(dialect, name=name, after=after)
    sys.stdout.write(script)
    if not script:
        output.note(f"version {after} is the newest: there is nothing to do")


def _dialect_and_schema(
    url: StoreUrl, dialect: DialectName | None
) -> tuple[DialectName, str | None]:
    """The dialect, and the schema or prefix that the URL names if it is of that dialect."""
    url_dialect = _DIALECTS.get(url.scheme)
    if dialect is not None and url_dialect != dialect:
        return dialect, None
    if url.scheme in NODE_SCHEMES:
        raise InvalidOption(
            "the URL of a node does not say which database it uses: name it with --dialect.",
            option="dialect",
        )
    if url_dialect is None:
        raise InvalidOption(f"a {url.scheme} store has no tables.", option="url")
    return url_dialect, url.options.get("schema" if url_dialect == "postgres" else "prefix")
