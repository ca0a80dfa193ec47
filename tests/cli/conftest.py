"""The command line, alone with its settings."""

import os
from pathlib import Path

import pytest
from calling import Answer, Cli, on
from typer.testing import CliRunner

from headrace.cli.app import app


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
def each(bare: Cli, durable_url: str) -> Cli:
    """Call ``headrace`` on SQLite and on PostgreSQL in turn."""
    return on(bare, durable_url)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody sits at the terminal and types what is given as input."""
    monkeypatch.setattr("headrace.cli.asking.is_terminal", lambda: True)
