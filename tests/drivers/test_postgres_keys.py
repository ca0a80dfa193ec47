"""Calls with idempotency keys on PostgreSQL: one statement each, also for several callers together."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import headrace
from faults.polling import until
from headrace.contract.items import PushCall
from headrace.contract.op import Steps
from headrace.contract.values import CommitCall, CommitPart
from headrace.drivers.postgres import attempts, round_trip, runner
from headrace.drivers.postgres.fastpath import push as fastpath_push
from headrace.model.queues.items import Document
from headrace.testing.postgres import PrivatePostgres

Act = Callable[[headrace.Headrace, str], object]
ACTS: dict[str, Act] = {
    "push": lambda hr, key: hr.push("q", 1, key=key),
    "push several": lambda hr, key: hr.push_many("q", [1, 2], key=key),
    "push with options": lambda hr, key: hr.push("q", 1, subject=key, priority=1, key=key),
    "push to a channel": lambda hr, key: hr.push("q", 1, channel={"os": "mac"}, key=key),
    "commit": lambda hr, key: hr.commit("t", {"n": 1}, key=key),
    "commit several": lambda hr, key: hr.commit_many("t", [{"n": 1}, {"n": 2}], key=key),
}


class Answers:
    """The statements that were answered. Some of the answers may get lost, by their numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.lost: set[int] = set()
        self._send = round_trip.send_autocommit
        for module in (attempts, runner):
            monkeypatch.setattr(module, "send_autocommit", self.send)

    def send(self, connection: Any, statements: Any, behind: Any = None) -> Any:
        rows = self._send(connection, statements, behind)
        self.names += [statement.name for statement in statements]
        if len(self.names) - 1 in self.lost:
            self.lost.remove(len(self.names) - 1)
            connection.close()
            raise psycopg.OperationalError("the answer got lost")
        return rows


@pytest.fixture
def answers(hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch) -> Answers:
    hr.push("q", 0, channel={"os": "mac"})
    hr.push("q", 0)
    hr.commit("t", {"n": 0})
    return Answers(monkeypatch)


@pytest.mark.parametrize("title", ACTS)
def test_a_call_with_a_key_is_one_statement(
    hr: headrace.Headrace, answers: Answers, title: str
) -> None:
    """So is its repeat."""
    first = ACTS[title](hr, "k")
    assert ACTS[title](hr, "k") == first
    assert answers.names == ["append_keyed" if "commit" in title else "push_keyed"] * 2


def push_calls(hr: headrace.Headrace, *calls: tuple[int, str | None]) -> list[Any]:
    """The ids of items."""
    store: Any = hr._store
    pushed = store.run(
        store.queues.push(
            [
                PushCall(queue="q", documents=(Document(payload=str(n)),), key=key, digest="d")
                for n, key in calls
            ]
        )
    )
    return [outcome.ids for outcome in pushed]


def commit_calls(hr: headrace.Headrace, *calls: tuple[int, str | None]) -> list[Any]:
    """The ids of records."""
    store: Any = hr._store
    committed = store.run(
        store.topics.commit(
            [
                CommitCall(parts=(CommitPart("t", 1, f'{{"n":{n}}}'),), key=key, digest="d")
                for n, key in calls
            ]
        )
    )
    return [outcome.ids() for outcome in committed]


def pushed_numbers(hr: headrace.Headrace) -> list[Any]:
    return [(item.payload, (item.id,)) for item in hr.queue("q").claim(99)][2:]


def committed_numbers(hr: headrace.Headrace) -> list[Any]:
    return [(record.body["n"], [record.id]) for record in hr.range("t")][1:]


@pytest.mark.parametrize(
    ("send", "stored"),
    [(push_calls, pushed_numbers), (commit_calls, committed_numbers)],
    ids=["push", "commit"],
)
@pytest.mark.parametrize("lost", [{0}, {1}, {0, 2}, {1, 2}], ids=str)
def test_a_lost_answer_among_calls_with_and_without_keys(
    hr: headrace.Headrace, answers: Answers, send: Any, stored: Any, lost: set[int]
) -> None:
    """The first statement finds a key in use, the second does the rest; whichever answer is lost,
    each call is applied once and gets its own answer."""
    [old] = send(hr, (1, "old"))
    answers.names.clear()
    answers.lost = set(lost)
    got = send(hr, (2, None), (1, "old"), (3, "new"), (4, None), (3, "new"))
    assert not answers.lost
    assert got[1] == old
    assert got[2] == got[4]
    assert send(hr, (3, "new"), (1, "old")) == [got[2], old]
    assert stored(hr) == [(1, old), (2, got[0]), (3, got[2]), (4, got[3])]


@pytest.fixture
def lazy_commits(postgres: PrivatePostgres) -> Iterator[None]:
    """By default the server does not wait for the flush."""

    def configure(change: str, default: str) -> None:
        postgres.execute(f"alter system {change}")
        postgres.execute("select pg_reload_conf()")
        until(lambda: postgres.execute("show synchronous_commit") == [(default,)], "the setting")

    [[before]] = postgres.execute("show synchronous_commit")
    configure("set synchronous_commit = off", "off")
    yield
    configure("reset synchronous_commit", before)


@pytest.mark.usefixtures("slow_wal_writer", "lazy_commits")
def test_the_answer_to_a_repeat_is_durable(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A push with a waiter is committed before it is flushed. A repeat is answered after the flush,
    whatever the server's default is."""
    hr.push("q", 0)

    def no_flush(store: Any) -> Steps[None]:
        yield from ()

    with headrace.connect(postgres_url) as other:
        waiter = other._store.waiter("queue/q")
        waiter.wait(0.0)
        monkeypatch.setattr(fastpath_push, "flush_now", no_flush)
        store: Any = hr._store
        store.queue_cache.are_awaited = False
        first = hr.push("q", 1, key="k")
        [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
        assert other.push("q", 1, key="k") == first
        [[is_flushed]] = postgres.execute(f"select pg_current_wal_flush_lsn() >= '{written}'")
        waiter.close()
    assert is_flushed


def test_a_push_that_must_wait_for_settings_keeps_no_key(
    hr: headrace.Headrace, answers: Answers, postgres_url: str
) -> None:
    """The statement finds other settings, releases the key, and is sent again."""
    with headrace.connect(postgres_url) as other:
        other.queue("q").update(discipline="lifo")
    hr.push("q", 1, key="k")
    assert answers.names == ["push_keyed", "find_queue", "push_keyed"]


def test_a_commit_to_a_new_topic_keeps_its_key(hr: headrace.Headrace, answers: Answers) -> None:
    """The statement finds no topic, releases the key, and is sent again."""
    first = hr.commit("new", {"n": 1}, key="k")
    assert hr.commit("new", {"n": 1}, key="k") == first
    assert answers.names == ["append_keyed", "add_topics", "append_keyed", "append_keyed"]


def test_a_subject_that_is_used_meanwhile(
    hr: headrace.Headrace, postgres: PrivatePostgres, postgres_url: str
) -> None:
    """The statement waits for a transaction that pushes the same subject. Then the item is there."""
    queue = hr.queue("q")
    queue.push(0)
    with headrace.connect(postgres_url) as other, ThreadPoolExecutor(1) as threads:
        with other.transaction() as tx:
            tx.push("q", 1, subject="s")
            pushed = threads.submit(queue.push, 2, subject="s", key="k")
            blocked = "select pid from pg_stat_activity where wait_event_type = 'Lock'"
            until(lambda: postgres.execute(blocked), "the push to wait")
        first = pushed.result(60)
        assert queue.push(2, subject="s", key="k") == first
    assert [(item.payload, item.id) for item in queue.claim(9)][1:] == [(1, first.id)]
