"""Queries that are cancelled at the server: each call is answered yes, no or unknown.

``HEADRACE_KILLS`` is the number of calls of each thread of the storm.
"""

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import psycopg
import pytest

import headrace
from faults.answer_log import AnswerLog, acts, names
from faults.crash_case import opened
from faults.kill_loop import KILLS, SECONDS
from faults.queue_crash_cases import NEW, claim, ids, push, run
from headrace.contract.items import Outcome
from headrace.errors import HeadraceError, OutcomeUnknown, StoreError
from headrace.model.queues.items import Document, State
from headrace.testing import sync_facade
from headrace.testing.postgres import PrivatePostgres

ONE = Document(payload=NEW)

# A function that shadows the server's own: as many flushes fail as the sequence is below 0.
TRAP = """
create schema trap;
create sequence trap.flushes minvalue -1000000;
select setval('trap.flushes', 0);
create function trap.pg_logical_emit_message(boolean, text, text) returns pg_lsn
language plpgsql as $$
begin
    if nextval('trap.flushes') <= 0 then
        raise exception 'canceling statement due to user request' using errcode = '57014';
    end if;
    return pg_catalog.pg_logical_emit_message($1, $2, $3);
end $$"""


@pytest.fixture
def trapped(postgres: PrivatePostgres, postgres_url: str) -> Iterator[str]:
    """The URL of a store whose flushes can be cancelled."""
    postgres.execute(TRAP)
    yield f"{postgres_url}&options=-csearch_path%3Dtrap,pg_catalog"
    postgres.execute("drop schema trap cascade")


def cancel_flushes(postgres: PrivatePostgres, number: int) -> None:
    postgres.execute("select setval('trap.flushes', %s)", -number)


@contextlib.contextmanager
def awaited(postgres: PrivatePostgres, hr: Any, sends_behind: bool) -> Iterator[None]:
    """A waiter is registered: pushes commit first and are flushed afterwards."""
    hr._store.queue_cache.are_awaited = sends_behind
    table = f"{hr._store.schema}.waiter"
    until = "(extract(epoch from now()) * 1000)::bigint + 60000"
    postgres.execute(f"insert into {table} values (gen_random_uuid(), {until})")
    yield
    postgres.execute(f"delete from {table}")


@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("sends_behind", [True, False], ids=["behind", "after"])
def test_a_push_whose_flush_is_cancelled_is_answered(
    postgres: PrivatePostgres, trapped: str, mode: sync_facade.ClientMode, sends_behind: bool
) -> None:
    """It is already committed: it is sent again, finds its own result, and is flushed."""
    with opened(mode, trapped) as hr:
        push(hr, "q", ONE)
        with awaited(postgres, hr, sends_behind):
            cancel_flushes(postgres, 1)
            [id] = push(hr, "q", ONE)
        assert ids(hr, "q", State.PENDING)[1:] == [id]
        [[flushes]] = postgres.execute("select last_value from trap.flushes")
        assert flushes > 0, "no flush was cancelled"


@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("sends_behind", [True, False], ids=["behind", "after"])
def test_a_push_whose_flushes_are_all_cancelled_is_unknown(
    postgres: PrivatePostgres, trapped: str, mode: sync_facade.ClientMode, sends_behind: bool
) -> None:
    """It is stored, though perhaps not durable: no error says that nothing is stored."""
    with opened(mode, trapped, patience=0.3) as hr:
        push(hr, "q", ONE)
        with awaited(postgres, hr, sends_behind):
            cancel_flushes(postgres, 10_000)
            with pytest.raises(OutcomeUnknown):
                push(hr, "q", ONE)
        assert len(ids(hr, "q", State.PENDING)) == 2


def test_items_completed_before_a_cancelled_flush_are_completed(
    postgres: PrivatePostgres, trapped: str
) -> None:
    """A completion under limits is flushed after its commit, too."""
    with headrace.connect(trapped) as hr:
        hr.limits.create(None, 5)
        push(hr, "q", ONE, ONE)
        claim(hr, "q", "token", 2)
        cancel_flushes(postgres, 1)
        found = [item.id for item in run(hr, "queues.items", "q", State.ACTIVE, 0, 10)]
        settled = run(
            hr,
            "queues.settle",
            "q",
            [Outcome(item=id, token="token", kind="complete") for id in found],
        )
        assert [one.state for one in settled] == ["completed"] * 2
        assert ids(hr, "q", State.ACTIVE) == []


REFUSE = """
create function {0}.refuse() returns trigger language plpgsql as $$
begin
    if new.payload like '%bad%' then
        raise exception 'canceling statement due to user request' using errcode = '57014';
    end if;
    return new;
end $$;
create trigger refuse before insert on {0}.item for each row execute function {0}.refuse()"""


KEEP = """
create function {0}.keep() returns trigger language plpgsql as $$
begin
    raise exception 'nothing is deleted here';
end $$;
create trigger keep before delete on {0}.item for each row execute function {0}.keep()"""


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_completion_that_is_refused_after_it_has_read_limits_stored_nothing(
    postgres: PrivatePostgres, postgres_url: str, mode: sync_facade.ClientMode
) -> None:
    """Rows of limits are no sign of a stored outcome: the refusal is reported as it is."""
    with headrace.connect(postgres_url) as calm:
        calm.limits.create(None, 5)
        push(calm, "q", ONE)
        claim(calm, "q", "token", 1)
        [item] = run(calm, "queues.items", "q", State.ACTIVE, 0, 10)
        postgres.execute(KEEP.format(postgres_url.rpartition("=")[2]))
        # One that has not read the limits yet.
        with opened(mode, postgres_url, patience=0.5) as hr:
            with pytest.raises(StoreError, match="nothing is deleted here") as refused:
                run(
                    hr,
                    "queues.settle",
                    "q",
                    [Outcome(item=item.id, token="token", kind="complete")],
                )
            assert not isinstance(refused.value, OutcomeUnknown)


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_transaction_continues_after_a_cancelled_statement(
    postgres: PrivatePostgres, postgres_url: str, mode: sync_facade.ClientMode
) -> None:
    """Only the cancelled call leaves nothing: calls before and after it are committed."""
    with opened(mode, postgres_url) as hr:
        push(hr, "q", ONE)
        postgres.execute(REFUSE.format(hr._store.schema))
        with hr.transaction() as tx:
            tx.push("q", "good")
            with pytest.raises(StoreError):
                tx.push("q", "bad")
            tx.push("q", "good again")
        assert len(ids(hr, "q", State.PENDING)) == 3


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_transaction_that_the_server_rolled_back_is_not_committed(
    postgres_url: str, mode: sync_facade.ClientMode
) -> None:
    """The server then answers COMMIT with ROLLBACK, and without an error."""
    with opened(mode, postgres_url) as hr:
        push(hr, "q", ONE)

        def transact() -> None:
            with hr.transaction() as tx:
                tx.push("q", "good")
                abort(tx)

        with pytest.raises(StoreError, match="rolled back"):
            transact()
        assert len(ids(hr, "q", State.PENDING)) == 1


def abort(tx: Any) -> None:
    """Bring a transaction into the state in which it can only be rolled back."""
    pgconn = tx._requests.store._transport.connection.pgconn
    pgconn.send_query(b"no such statement")
    while (result := pgconn.get_result()) is not None:
        assert result.error_message


THREADS = 6
CALLS = max(60, KILLS)


class Canceller:
    """Cancels queries of other sessions until it is stopped."""

    def __init__(self, postgres: PrivatePostgres, weapon: str) -> None:
        self._url = postgres.url
        self._weapon = weapon
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._fire)
        self.shots = 0

    def _fire(self) -> None:
        if self._weapon == "timeouts":
            return
        pids = "select pid from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid()"
        victims = f"select {self._weapon}(pid) from ({pids} and backend_type = 'client backend' "
        with psycopg.connect(self._url, autocommit=True) as connection:
            # Ending a session costs a new one. Too many, and no call succeeds.
            pause = 0.001 if self._weapon == "pg_cancel_backend" else 0.05
            while not self._over.wait(pause):
                rows = connection.execute(f"{victims}order by random() limit 1) v".encode())
                self.shots += len(rows.fetchall())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def acts_at_last(hr: headrace.Headrace) -> list[Callable[[str], object]]:
    for _ in range(50):
        with contextlib.suppress(StoreError):
            return acts(hr)
    raise AssertionError("no queue")


def connect_at_last(url: str) -> headrace.Headrace:
    """A client of a server on which even connecting may take too long."""
    for _ in range(50):
        with contextlib.suppress(HeadraceError):
            return headrace.connect(url, patience=5)
    raise AssertionError("no connection")


@pytest.mark.parametrize("weapon", ["pg_cancel_backend", "pg_terminate_backend", "timeouts"])
def test_a_storm_of_cancelled_queries(
    postgres: PrivatePostgres, postgres_url: str, rng: random.Random, weapon: str
) -> None:
    """Whatever is cancelled, and whenever: yes is stored, no is not, nothing is stored twice."""
    options = "-cstatement_timeout=3 -clock_timeout=2 -cidle_session_timeout=20"
    suffix = f"&options={options.replace(' ', '%20').replace('=', '%3D')}"
    url = postgres_url + (suffix if weapon == "timeouts" else "")
    with headrace.connect(postgres_url) as calm:
        push(calm, "q", Document(payload='"first"'))
        calm.commit("one", {"name": "other"})
        table = f"{calm._store.schema}.waiter"
        postgres.execute(f"insert into {table} values (gen_random_uuid(), 9999999999999)")
        witness = AnswerLog()
        with connect_at_last(url) as hr:
            kinds = acts_at_last(hr)

            def work(thread: int) -> None:
                chance = random.Random(rng.random() + thread)
                for number in range(CALLS):
                    witness.call(f"{thread}-{number}", chance.choice(kinds))

            with Canceller(postgres, weapon) as canceller, ThreadPoolExecutor(THREADS) as threads:
                for done in [threads.submit(work, thread) for thread in range(THREADS)]:
                    done.result(SECONDS)
        stored = names(calm)
        answers = Counter(witness.answers.values())
        print(
            f"{weapon}: {canceller.shots} shots, {dict(answers)}, {witness.errors.most_common(8)}"
        )
        witness.check(stored)
        assert answers["yes"] > 0
        assert weapon == "timeouts" or canceller.shots > 0
