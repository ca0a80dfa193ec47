"""Every driver against the model, by random operations with crashes."""

import itertools
import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import headrace
from headrace.testing.state_machines import StoreMachine

# More of the same for a soak: HEADRACE_EXAMPLES=50.
FACTOR = float(os.environ.get("HEADRACE_EXAMPLES", "1"))
TABLES = ("topic", "batch", "idempotency_key", "proc", "proc_claim")

# Hypothesis takes up to five minutes to make a failure small, and then says what it is.
pytestmark = pytest.mark.timeout(480 + 120 * FACTOR)


def play(machine: type[StoreMachine], *, examples: int) -> None:
    many = max(1, round(examples * FACTOR))
    run_state_machine_as_test(machine, settings=settings(max_examples=many, stateful_step_count=50))


def test_memory_agrees_with_itself_across_crashes():
    """An operation that crashed in memory leaves nothing behind."""
    numbers = itertools.count()

    class Machine(StoreMachine):
        def url(self) -> str:
            return f"memory://state{next(numbers)}"

    play(Machine, examples=100)


def test_sqlite_agrees_with_the_model(quick_path):
    """SQLite answers as the model does and holds what it holds, across crashes."""
    numbers = itertools.count()

    class Machine(StoreMachine):
        def url(self) -> str:
            return f"sqlite:///{quick_path}/{next(numbers)}.db"

    play(Machine, examples=100)


def test_postgres_agrees_with_the_model(postgres, postgres_url):
    """PostgreSQL answers as the model does and holds what it holds, across crashes."""
    headrace.connect(postgres_url).close()
    schema = postgres_url.partition("schema=")[2]
    tables = ", ".join(f"{schema}.{table}" for table in TABLES)

    class Machine(StoreMachine):
        def url(self) -> str:
            # A tenth of the time that a schema takes to be made.
            postgres.execute(f"truncate {tables}")
            return postgres_url

    play(Machine, examples=60)
