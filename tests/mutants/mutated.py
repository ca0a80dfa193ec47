"""A pytest plugin for the runs that test the tests: ``pytest -p mutated``.

``HEADRACE_MUTANT`` names the mutant to apply, if any. ``HEADRACE_POSTGRES`` is the URL of a server
that the parent starts and stops. ``HEADRACE_FAILED`` is the file that gets the names of failed
tests.
"""

import os
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg
import pytest
from hypothesis import Phase, settings

import headrace.testing.postgres
from mutants import MUTANTS, StalePatch


class BorrowedPostgres:
    """The part of ``PrivatePostgres`` that the tests use, on a server that already runs."""

    url = os.environ["HEADRACE_POSTGRES"]
    port = urlsplit(url).port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, statement: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []


# Before any conftest imports the name.
headrace.testing.postgres.PrivatePostgres = BorrowedPostgres


def pytest_configure() -> None:
    name = os.environ.get("HEADRACE_MUTANT")
    if not name:
        return
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == name]
    try:
        for patch in mutant.patches:
            patch.apply()
    except StalePatch as error:
        raise pytest.UsageError(f"mutant {name!r} no longer fits: {error}") from error


def pytest_sessionstart() -> None:
    # All that matters is whether a mutant is noticed, in the same way every time.
    settings.register_profile(
        "mutants", settings(), phases=[Phase.generate], database=None, derandomize=True
    )
    settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        with Path(os.environ["HEADRACE_FAILED"]).open("a") as names:
            print(report.nodeid, file=names)
