"""The queues of every driver against the model, by random operations with crashes."""

import itertools
import os

import pytest
from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

import headrace
from faults.polling import until
from headrace.model.queues.settings import DEFAULTS, QueueSettings, changed
from headrace.testing.queue_state_machines import QueueMachine
from headrace.testing.strategies import SETTINGS, WORKER_SETTINGS

# More of the same for a soak: HEADRACE_EXAMPLES=50.
FACTOR = float(os.environ.get("HEADRACE_EXAMPLES", "1"))
TABLES = (
    *(
        "topic",
        "batch",
        "idempotency_key",
        "proc",
        "proc_claim",
        "queue",
        "queue_default",
        "item",
        "finished_item",
        "used_subject",
        "error",
    ),
    *("sample", "tally", "client", "worker", "channel", "ready_channel", "deleted_item"),
    *("limit_rule", "limit_override", "limit_counter", "limit_waiter", "counter", "commit_marker"),
)
PLANNED = ("item", "channel", "ready_channel", "limit_counter", "queue", "tally")
"""Those that statements read in ways that depend on how large they are."""

# Hypothesis takes up to five minutes to make a failure small, and then says what it is.
pytestmark = pytest.mark.timeout(480 + 120 * FACTOR)


def test_every_setting_of_a_queue_is_drawn() -> None:
    """A new one gets some values in ``SETTINGS``, unless only workers follow it."""
    assert {*SETTINGS, *WORKER_SETTINGS} == set(QueueSettings.__struct_fields__)
    assert not WORKER_SETTINGS & SETTINGS.keys()
    for name, values in SETTINGS.items():
        default = getattr(DEFAULTS, name)
        assert any(value != default for value in values), f"{name} is only drawn as it is"
        for value in values:
            changed(DEFAULTS, {name: value})


def play(machine: type[QueueMachine], *, examples: int) -> None:
    many = max(1, round(examples * FACTOR))
    run_state_machine_as_test(machine, settings=settings(max_examples=many, stateful_step_count=40))


def test_queues_in_memory_agree_with_themselves_across_crashes():
    """An operation that crashed in memory leaves nothing behind."""
    numbers = itertools.count()

    class Machine(QueueMachine):
        def url(self) -> str:
            return f"memory://queues{next(numbers)}"

    play(Machine, examples=20)


def test_queues_in_sqlite_agree_with_the_model(quick_path):
    """SQLite answers as the model does and holds what it holds, across crashes."""
    numbers = itertools.count()

    class Machine(QueueMachine):
        def url(self) -> str:
            return f"sqlite:///{quick_path}/{next(numbers)}.db"

    play(Machine, examples=20)


def test_queues_in_postgres_agree_with_the_model(postgres, postgres_url):
    """PostgreSQL answers as the model does and holds what it holds, across crashes."""
    headrace.connect(postgres_url).close()
    schema = postgres_url.partition("schema=")[2]
    tables = ", ".join(f"{schema}.{table}" for table in TABLES)
    planned = ", ".join(f"{schema}.{table}" for table in PLANNED)
    locks = (
        "select l.pid from pg_locks l join pg_class c on c.oid = l.relation"
        f" where c.relnamespace = '{schema}'::regnamespace"
    )

    class Machine(QueueMachine):
        # What one statement did is done, also when the rest of the operation comes to nothing.
        in_parts = frozenset({"queues.push", "queues.claim", "queues.settle"})
        has_late_turns = True

        def url(self) -> str:
            # A tenth of the time that a schema takes to be made.
            postgres.execute(f"truncate {tables}")
            return postgres_url

        @rule()
        def take_stock(self) -> None:
            """The server learns how large tables are, and makes other plans."""
            postgres.execute(f"vacuum analyze {planned}")

        def evidence(self) -> str:
            tables = ("queue", "item", "limit_counter", "counter", "limit_rule")
            rows = {table: postgres.execute(f"select * from {schema}.{table}") for table in tables}
            rows["others"] = postgres.execute(
                "select pid, state, wait_event, query from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            return "".join(f"\n{name}: {found!r}" for name, found in rows.items())

        def await_end(self) -> None:
            until(lambda: not postgres.execute(locks), "the end of what has crashed")

    play(Machine, examples=10)
