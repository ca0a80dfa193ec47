"""Answers about queues that get lost on PostgreSQL while other clients change things.

The operation was applied, its answer never came, and the queue has changed before the operation is
sent again. It must still be applied exactly once, and the answer must say so.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace
from faults.polling import until
from faults.proxy import COMMITS, ONLY_COMMIT, Marks, Proxy
from faults.queue_crash_cases import ALL, IN_TRANSACTION, QUEUE_CASES, claim, ids, run, text
from headrace.contract.items import Outcome
from headrace.model.queues.items import State
from headrace.testing.postgres import PrivatePostgres


def lose(
    url: str,
    proxy: Proxy,
    act: Callable[[Any], Any],
    meanwhile: Callable[[], Any],
    marks: Marks = COMMITS,
) -> Any:
    """The answer to an act whose first answer is lost. Something happens before it is sent
    again."""
    with headrace.connect(proxy.url(url)) as hr, ThreadPoolExecutor(1) as threads:
        # Keeps a connection, so that only the answer breaks.
        hr.topics.list()
        knocks = proxy.turned_away
        proxy.plan("after", stays_cut=True, marks=marks)
        answer = threads.submit(act, hr)
        try:
            until(lambda: proxy.turned_away > knocks, "a client that comes back")
            meanwhile()
        finally:
            proxy.is_open = True
        return answer.result(60)


def settle_all(hr: headrace.Headrace, queue: str) -> None:
    """Another client claims everything and completes it."""
    claimed = claim(hr, queue, "somebody", ALL)
    said = [Outcome(item=int(id), token="somebody", kind="complete") for id in claimed]
    assert all(one.state == "completed" for one in run(hr, "queues.settle", queue, said))


@pytest.mark.parametrize(
    "title", ["push", "push payloads", "push with a subject", "push several", "push many"]
)
def test_push_is_not_repeated_although_its_items_are_done(
    postgres_url: str, proxy: Proxy, title: str
) -> None:
    """Items that are completed before the push is sent again are not pushed again."""
    case = QUEUE_CASES[title]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        before = run(direct, "queues.counts", ["stage"], False)[0].counts.entered
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: case.act(hr, "stage"),
            lambda: settle_all(direct, "stage"),
            ONLY_COMMIT if title in IN_TRANSACTION else COMMITS,
        )
        assert run(direct, "queues.counts", ["stage"], False)[0].counts.entered == before + len(
            answer
        )
        assert len(set(answer)) == len(answer)
        assert set(ids(direct, "stage", State.PENDING, State.PLANNED)) <= set(answer)


@pytest.mark.parametrize("title", ["push", "push payloads", "push with a subject", "push several"])
@pytest.mark.parametrize(
    "changes",
    [{"discipline": "lifo"}, {"metrics": False}, {"unique": "forever"}, {"unique": "window"}],
    ids=str,
)
def test_push_is_not_repeated_under_other_settings(
    postgres_url: str, proxy: Proxy, title: str, changes: dict[str, Any]
) -> None:
    """Settings that require another path do not hide that it was applied."""
    case = QUEUE_CASES[title]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: case.act(hr, "stage"),
            lambda: run(direct, "queues.update", "stage", changes),
        )
        assert case.effect(direct, "stage") == answer


@pytest.mark.parametrize("changes", [{"keep": "all"}, {"metrics": False}], ids=str)
def test_completion_is_not_called_lost_under_other_settings(
    postgres_url: str, proxy: Proxy, changes: dict[str, Any]
) -> None:
    """A client that completed an item gets that answer, whatever the settings are by then."""
    case = QUEUE_CASES["complete"]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        mine = ids(direct, "stage", State.ACTIVE)
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: case.act(hr, "stage"),
            lambda: run(direct, "queues.update", "stage", changes),
        )
        assert answer == mine
        assert ids(direct, "stage", State.ACTIVE, State.COMPLETED) == []


def test_receipts_outlast_maintenance(postgres_url: str, proxy: Proxy) -> None:
    """Counts are folded while a client still needs the result of a push and a completion."""
    for title in ("push", "complete"):
        case = QUEUE_CASES[title]
        with headrace.connect(postgres_url) as direct:
            case.prepare(direct, title)
            answer = lose(
                postgres_url,
                proxy,
                lambda hr, case=case, title=title: case.act(hr, title),
                lambda title=title: run(direct, "queues.maintain", title, 1000),
            )
            assert case.effect(direct, title) == answer


def test_claim_is_found_although_the_queue_was_paused(postgres_url: str, proxy: Proxy) -> None:
    """Items claimed before the pause go to the client that claimed them."""
    case = QUEUE_CASES["claim items"]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: case.act(hr, "stage"),
            lambda: run(direct, "queues.pause", "stage", None),
        )
        items = run(direct, "queues.items", "stage", State.ACTIVE, 0, 1000)
        assert answer == [text(item.id) for item in items] != []


@pytest.mark.usefixtures("slow_wal_writer")
def test_a_push_found_to_be_applied_is_durable(
    postgres: PrivatePostgres, postgres_url: str, proxy: Proxy
) -> None:
    """It has a waiter, so it was committed before it was flushed, and its answer was lost."""
    with headrace.connect(postgres_url) as direct:
        direct.queue("q").push(0)
        waiter = direct._store.waiter("queue/q")
        waiter.wait(0.0)
        [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
        lose(postgres_url, proxy, lambda hr: hr.queue("q").push(1), lambda: None)
        found = postgres.execute(f"select pg_current_wal_flush_lsn() > '{written}'")
        waiter.close()
        assert found == [(True,)]
        assert [item.payload for item in direct.queue("q").claim(9)] == [0, 1]
