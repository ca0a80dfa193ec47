"""No password is ever in a message, a repr, an attribute, a cause, a log or an event."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from psycopg import sql
from typer.testing import CliRunner

import headrace
from headrace import settings, telemetry
from headrace.cli.app import app
from headrace.cli.command import CommandSession
from headrace.errors import HeadraceError, InvalidUrl, StoreError, StoreUnavailable, UnknownStore
from headrace.model.url import masked, parse_url
from headrace.pipelines.sink.options import SinkOptions
from headrace.pipelines.store_location import StoreLocation
from headrace.testing.postgres import PrivatePostgres

# If a character splits the password, neither half may be visible.
HALVES = ("hush", "quiet")

UNREADABLE = [
    *(f"postgresql://me:hush{c}quiet@127.0.0.1:1/db" for c in "/?#@\n\r\t %"),
    *(f"postgresql://me:hush{c}quiet@h@127.0.0.1:1/db" for c in ":/?"),
    "postgresql://me:hush%zzquiet@127.0.0.1:1/db",
    "postgresql://me:hush%00quiet@127.0.0.1:1/db",
    "postgresql://me:hush%ffquiet@127.0.0.1:1/%ff",
    "postgresql://me:hush\udc80quiet@127.0.0.1:1/db",
    "postgresql://me:hush-quiet/db",
    "postgresql://me:hush-quiet@127.0.0.1:port/db",
    "postgresql://127.0.0.1:1/db?password=hush&quiet=1",
    "postgresql://127.0.0.1:1/db?password=hush&quiet",
    "postgresql://127.0.0.1:1/db?hush-quiet",
    "postgresql://me:hush-quiet@127.0.0.1:1/db?colour=red",
    "postgresql+psycopg://me:hush-quiet@127.0.0.1:1/db",
    "postgresql+asyncpg://me:hush/quiet@127.0.0.1:1/db",
    "mysql://me:hush/quiet@127.0.0.1:1/db",
    "me:hush-quiet@127.0.0.1/db",
    "hush-quiet",
    "host=127.0.0.1 port=1 user=me password=hush-quiet",
    "host=127.0.0.1 port=1 user=me password='hush quiet'",
    "postgresql:/me:hush-quiet@127.0.0.1:1/db",
    " postgresql://me:hush-quiet@127.0.0.1:1/db",
    "postgresql://me:hush-quiet@127.0.0.1:1/db\n",
    *(f"http://{user}hush{c}quiet@127.0.0.1:1" for user in ("", ":", "me:") for c in "/?@\n"),
    "http://me:hush-quiet@127.0.0.1:port",
    "https://hush-quiet@127.0.0.1:70000",
    "http://127.0.0.1:1?token=hush&quiet=1",
    "http://127.0.0.1:1?token=hush&quiet",
    "unix:///run/node.sock?token=hush&quiet=1",
]


def everything(error: BaseException) -> str:
    """Everything visible of an error: its chain of causes, and its attributes."""
    seen: set[int] = set()
    found = ["".join(traceback.format_exception(error))]
    pending: list[object] = [error]
    while pending:
        one = pending.pop()
        if id(one) in seen or one is None:
            continue
        seen.add(id(one))
        found += [str(one), repr(one)]
        if isinstance(one, BaseException):
            pending += [one.__cause__, one.__context__, one.args, *vars(one).values()]
            pending += [getattr(one, name, None) for name in ("pgconn", "doc", "object")]
        elif isinstance(one, dict):
            pending += [*one, *one.values()]
        elif isinstance(one, (list, tuple, set)):
            pending += one
    return "\n".join(found)


def keeps_quiet(text: str) -> bool:
    return not any(half in text for half in HALVES)


@pytest.fixture(autouse=True)
def reported(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Everything that is logged or sent to subscribers."""
    caplog.set_level(logging.DEBUG)
    events: list[object] = []
    stop = telemetry.subscribe(events.append)
    yield
    stop()
    assert keeps_quiet(caplog.text + repr(events))


@pytest.mark.parametrize("url", UNREADABLE)
def test_a_url_that_cannot_be_read(url: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Through every entry: arguments, async, the environment, a file, the command line."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidUrl) as caught:
        headrace.connect(url)
    assert keeps_quiet(everything(caught.value))
    with pytest.raises(InvalidUrl) as caught:
        asyncio.run(headrace.aconnect(url))
    assert keeps_quiet(everything(caught.value))
    if "\udc80" in url:
        return
    with pytest.raises(HeadraceError) as other:
        headrace.connect(settings.load(environ={"HEADRACE_URL": url}).url)
    assert keeps_quiet(everything(other.value))
    quoted = "".join(f"\\u{ord(c):04x}" for c in url)
    (tmp_path / "headrace.toml").write_text(f'url = "{quoted}"')
    with pytest.raises(HeadraceError) as other:
        headrace.connect(settings.load(environ={}).url)
    assert keeps_quiet(everything(other.value))
    (tmp_path / "headrace.toml").unlink()
    for arguments in (
        ["--url", url, "topic", "list", "--debug"],
        ["--url", url, "config", "show"],
        ["--url", url, "config", "show", "--json"],
    ):
        answer = CliRunner().invoke(app, arguments)
        assert answer.exit_code in (0, 2), answer.output
        assert keeps_quiet(answer.output), answer.output


@pytest.mark.parametrize(
    "url",
    [
        "http://:hush-quiet@127.0.0.1:1",
        "http://hush-quiet@127.0.0.1:1",
        "http://127.0.0.1:1?token=hush-quiet",
        "https://me:hush-quiet@127.0.0.1:1/below?ca=/nowhere",
        "unix:///nowhere/node.sock?token=hush-quiet",
    ],
)
def test_the_token_of_a_node(url: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        headrace.connect(url)
    assert keeps_quiet(everything(caught.value))
    assert keeps_quiet(masked(url))
    assert keeps_quiet(repr(parse_url(url)))


@pytest.mark.parametrize(
    "text",
    [
        'url = ["postgresql://me:hush-quiet@h/db"]',
        'url = {password = "hush-quiet"}',
        'url = {"postgresql://me:hush-quiet@h/db" = 1}',
        '"postgresql://me:hush-quiet@h/db" = 1',
        'patience = "postgresql://me:hush-quiet@h/db"',
        'url = "postgresql://me:hush-quiet@h/db',
        "url = postgresql://me:hush-quiet@h/db",
        'url = "postgresql://me:hush-quiet@h/db" # \udcff',
    ],
)
def test_a_file_of_the_wrong_form(text: str, tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text(text, errors="surrogateescape")
    with pytest.raises(HeadraceError) as caught:
        settings.load(folder=tmp_path, environ={})
    assert keeps_quiet(everything(caught.value))


@pytest.mark.parametrize(
    "words",
    [
        ["postgresql://me:hush/quiet@h/db"],
        ["topic", "list", "postgresql://me:hush?quiet@h/db"],
        ["topic", "list", "host=h password=hush-quiet"],
        ["topic", "list", "password='hush quiet' host=h"],
    ],
)
def test_a_url_where_the_command_line_expects_something_else(words: list[str]) -> None:
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert keeps_quiet(answer.output), answer.output


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush-quiet@h:5432/db",
        "postgresql://:hush%2Fquiet@h/db",
        "postgresql://h/db?password=hush-quiet",
        "postgresql://h/db?sslpassword=hush&x=1&passw%6Frd=quiet",
    ],
)
def test_objects_with_a_url_do_not_show_its_password(url: str) -> None:
    found = settings.load(environ={"HEADRACE_URL": url})
    held = [
        found,
        found["url"],
        found["url"].shown,
        settings.Given(url, "--url"),
        CommandSession(url),
        StoreLocation(url),
        SinkOptions(url=url),
        masked(url),
    ]
    assert [one for one in held if not keeps_quiet(f"{one!r} {one}")] == []


def test_an_unreachable_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the database library does not show it either."""
    monkeypatch.setenv("PGPASSWORD", "quiet")
    for url in ("postgresql://me:hush@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db"):
        with pytest.raises(StoreUnavailable) as caught:
            headrace.connect(url, patience=0)
        assert keeps_quiet(everything(caught.value))


@pytest.fixture
def guarded(postgres: PrivatePostgres) -> Iterator[str]:
    """A URL whose password the server checks."""
    file = postgres.folder / "data" / "pg_hba.conf"
    before = file.read_text()
    postgres.execute("create role keeper superuser login password 'right'")
    file.write_text(f"host all keeper all scram-sha-256\n{before}")
    postgres.execute("select pg_reload_conf()")
    yield f"postgresql://keeper:PASSWORD@127.0.0.1:{postgres.port}/postgres"
    file.write_text(before)
    postgres.execute("select pg_reload_conf()")
    postgres.execute("drop owned by keeper cascade")
    postgres.execute("drop role keeper")


def test_a_wrong_password_is_reported_as_such(guarded: str) -> None:
    """Neither connecting nor a later call retries, since that would not help."""
    with pytest.raises(StoreError, match=r"password.*PGPASSWORD") as caught:
        headrace.connect(guarded.replace("PASSWORD", HALVES[0]))
    assert not caught.value.retryable
    assert keeps_quiet(everything(caught.value))
    with pytest.raises(StoreError, match=r"password.*PGPASSWORD") as caught:
        headrace.connect(guarded.replace(":PASSWORD", ""))
    assert not caught.value.retryable


@pytest.mark.parametrize("is_async", [False, True])
def test_a_password_that_was_changed_meanwhile(
    guarded: str, postgres: PrivatePostgres, is_async: bool
) -> None:
    async def in_a_loop() -> None:
        async with await headrace.aconnect(url) as hr:
            change()
            await hr.topics.list()

    def in_a_thread() -> None:
        with headrace.connect(url) as hr:
            change()
            hr.topics.list()

    def change() -> None:
        postgres.execute("alter role keeper password 'quiet'")
        ours = "pg_stat_activity where usename = 'keeper'"
        postgres.execute(f"select pg_terminate_backend(pid) from {ours}")

    url = guarded.replace("PASSWORD", "right") + "?schema=guarded"
    try:
        with pytest.raises(StoreError, match=r"password.*PGPASSWORD") as caught:
            asyncio.run(in_a_loop()) if is_async else in_a_thread()
        assert not caught.value.retryable
    finally:
        postgres.execute("drop schema if exists guarded cascade")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+psycopg://me@h/db", r"drop \+psycopg.*postgresql://"),
        ("postgres+asyncpg://me@h/db", r"drop \+asyncpg"),
        ("sqlite+aiosqlite:///x.db", r"drop \+aiosqlite.*sqlite://"),
        ("postgresql://me:a@b@h/db", r"%40 for @"),
        ("postgresql://me:a/b@h/db", r"%2F for /"),
        ("postgresql://me:ab/db", "port is not a number"),
        ("host=h user=me", r"key=value.*postgresql://"),
        ("flow.db", r"sqlite:///flow\.db"),
        ("postgresql://h/db?colour=red", "no option 'colour'"),
        ("postgresql://h/db\n", "line break"),
    ],
)
def test_the_remedy_is_named(url: str, message: str) -> None:
    with pytest.raises(InvalidUrl, match=message):
        headrace.connect(url)


def test_a_password_with_all_characters_works_when_quoted(
    guarded: str, postgres: PrivatePostgres
) -> None:
    """As user:password and as an option. A plus sign is a plus sign."""
    password = "p/?#@[]: +%&='\\\""
    postgres.execute("alter role keeper password " + sql.quote(password))
    for url in (
        guarded.replace("PASSWORD", quote(password, safe="")),
        guarded.replace(":PASSWORD", "") + f"?password={quote(password, safe='+')}",
    ):
        assert "p%2F" not in masked(url)
        where = f"{url}{'&' if '?' in url else '?'}schema=nowhere"
        with pytest.raises(UnknownStore):
            headrace.connect(where, migrate="off")
