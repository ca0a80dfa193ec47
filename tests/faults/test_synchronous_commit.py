"""A server that is configured, after clients have connected, not to wait for the flush; then it
crashes."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

import headrace
from faults.polling import until
from headrace.testing.postgres import PrivatePostgres

SETTINGS = {
    "server": "alter system",
    "role": "alter role headrace",
    "database": "alter database {database}",
}
STATE = """
    select (select array_agg(next_seq order by id) from headrace.topic),
           (select count(*) from headrace.item),
           (select array_agg(last_acked_range) from headrace.proc)
"""


@pytest.fixture(params=SETTINGS)
def switch_off(fragile: PrivatePostgres, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Switch it off, in one of the possible places."""
    place = SETTINGS[request.param].format(database=fragile.database)

    def switch() -> None:
        fragile.execute(f"{place} set synchronous_commit = off")
        fragile.execute("select pg_reload_conf()")
        until(lambda: fragile.execute("show synchronous_commit") == [("off",)], "the setting")

    yield switch
    fragile.execute(f"{place} reset synchronous_commit")
    fragile.execute("select pg_reload_conf()")
    # It was not waited for.
    fragile.execute("checkpoint")


class Work:
    """Each method does something that must be durable."""

    def __init__(self, hr: headrace.Headrace) -> None:
        self.hr = hr
        self.records = 0

    def commit(self) -> None:
        self.hr.commit("t", {})
        self.records += 1

    def commit_with_a_key(self) -> None:
        self.hr.commit("t", {}, key="key")
        self.records += 1

    def commit_to_two_topics(self) -> None:
        self.hr.commit([("t", {}), ("u", {})])
        self.records += 1

    def transaction(self) -> None:
        with self.hr.transaction() as tx:
            tx.commit("t", {})
            tx.push("q", {})
        self.records += 1

    def push(self) -> None:
        self.hr.push("q", {})

    def push_while_others_wait(self) -> None:
        """With a waiter it commits without waiting, and a flush follows."""
        with closing(self.hr._store.waiter("queue/other")):
            self.hr.push("q", {})

    def push_many(self) -> None:
        self.hr.push_many("q", [{}] * 3)

    def push_with_a_key(self) -> None:
        self.hr.push("q", {}, key="key")

    def push_to_a_channel(self) -> None:
        self.hr.push("q", {}, channel={"n": 1})

    def complete(self) -> None:
        self.hr.push_many("q", [{}] * 2)
        for item in self.hr.queue("q").claim(2):
            item.complete()

    def complete_under_a_limit(self) -> None:
        """Here too it commits without waiting."""
        self.hr.push("limited", {})
        for item in self.hr.queue("limited").claim():
            item.complete()

    def ack(self) -> None:
        claim = self.hr.proc("p").claim()
        assert claim is not None
        claim.ack()


WORK: list[Callable[[Work], None]] = [
    function for name, function in vars(Work).items() if not name.startswith("_")
]


def test_nothing_acknowledged_is_lost(
    fragile: PrivatePostgres, switch_off: Callable[[], None], rng: random.Random
) -> None:
    """The server still has the last operation after a crash."""
    with headrace.connect(fragile.url) as hr:
        work = Work(hr)
        hr.queues.create("q")
        hr.queues.create("limited")
        hr.limits.create(None, 5, queue="limited")
        work.commit()
        hr.procs.create("p", "t")
        switch_off()
        # New sessions as well as open ones: a role's settings are read once.
        hr._store.connections.pool._close_idle()
        for last in rng.sample(WORK, len(WORK)):
            last(work)
            before = fragile.execute(STATE)
            fragile.restart(immediately=True)
            assert fragile.execute(STATE) == before, last.__name__
            assert hr.topic("t").length() == work.records, last.__name__


def test_it_is_switched_off_in_the_middle_of_a_statement(fragile: PrivatePostgres) -> None:
    """A session reads its settings again before the message that ends the transaction."""
    with (
        headrace.connect(fragile.url) as hr,
        psycopg.connect(fragile.url) as other,
        ThreadPoolExecutor() as threads,
    ):
        hr.commit("t", {"n": 1})
        other.execute("select from headrace.topic for update")
        done = threads.submit(hr.commit, "t", {"n": 2})
        blocked = "select pid from pg_stat_activity where wait_event_type = 'Lock'"
        until(lambda: fragile.execute(blocked), "the commit to wait")
        try:
            fragile.execute("alter system set synchronous_commit = off")
            fragile.execute("select pg_reload_conf()")
            until(lambda: fragile.execute("show synchronous_commit") == [("off",)], "the setting")
            other.rollback()
            done.result(60)
            fragile.restart(immediately=True)
            assert [record.body["n"] for record in hr.range("t")] == [1, 2]
        finally:
            fragile.execute("alter system reset synchronous_commit")
            fragile.execute("select pg_reload_conf()")
