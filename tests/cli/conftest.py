"""The command line without any settings but the test's own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_cli import Answer, Cli, on
from typer.testing import CliRunner

from headrace.cli.app import app
from served_node import ServedNode


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but the test's own."""
    for name in list(os.environ):
        if name.startswith("HEADRACE_") and name != "HEADRACE_PG_BIN":
            monkeypatch.delenv(name)
    # Output is buffered where people run it; a test machine may have that turned off.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture
def bare() -> Cli:
    """Call ``headrace`` with exactly these arguments."""

    def call(*args: str, input: str | bytes | None = None) -> Answer:
        result = CliRunner().invoke(app, list(args), input=input, prog_name="headrace")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def cli(bare: Cli, sqlite_url: str) -> Cli:
    """Call ``headrace`` on a SQLite file."""
    return on(bare, sqlite_url)


@pytest.fixture
def node_url(served: ServedNode, sqlite_url: str) -> Iterator[str]:
    """The URL of a node that serves a SQLite file."""
    with served.serving(sqlite_url):
        yield served.unix_url


@pytest.fixture(params=["sqlite", "postgres", "node"])
def durable_url(request: pytest.FixtureRequest) -> str:
    """Every driver that several processes can share, in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def direct_url(request: pytest.FixtureRequest, durable_url: str) -> str:
    """The same store without a node: only a client of the store itself can have another clock."""
    is_node = durable_url.startswith("unix://")
    return str(request.getfixturevalue("sqlite_url")) if is_node else durable_url


@pytest.fixture
def each(bare: Cli, durable_url: str) -> Cli:
    """Call ``headrace`` on SQLite, on PostgreSQL and through a node in turn."""
    return on(bare, durable_url)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person at the terminal types the given input."""
    monkeypatch.setattr("headrace.cli.prompts.is_terminal", lambda: True)
