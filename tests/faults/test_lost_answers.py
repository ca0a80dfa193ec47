"""Answers about queues that get lost on PostgreSQL while somebody else changes things.

The operation was done, its answer never came, and before it is sent again the queue is not
what it was: it must still have taken place exactly once, and the answer must say so.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace
from faults.proxy import COMMITS, ONLY_COMMIT, Marks, Proxy
from faults.queue_scenes import ALL, IN_TRANSACTION, QUEUE_SCENES, claim, ids, run, text
from faults.waiting import until
from headrace.contract.items import Outcome
from headrace.model.items import State
from headrace.testing.postgres import PrivatePostgres


def lose(
    url: str,
    proxy: Proxy,
    act: Callable[[Any], Any],
    meanwhile: Callable[[], Any],
    marks: Marks = COMMITS,
) -> Any:
    """The answer to an act whose first answer is lost; something happens before it is asked for."""
    with headrace.connect(proxy.url(url)) as hr, ThreadPoolExecutor(1) as threads:
        # Keeps a connection, so that all that breaks is the answer.
        hr.topics()
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
    """Somebody claims everything and completes it."""
    taken = claim(hr, queue, "somebody", ALL)
    said = [Outcome(item=int(id), token="somebody", kind="complete") for id in taken]
    assert all(one.state == "completed" for one in run(hr, "settle", queue, said))


@pytest.mark.parametrize(
    "title", ["push", "push payloads", "push with a subject", "push several", "push many"]
)
def test_push_is_not_repeated_although_its_items_are_done(
    postgres_url: str, proxy: Proxy, title: str
) -> None:
    """What was pushed, and is gone by the time the answer is asked for, is not pushed again."""
    scene = QUEUE_SCENES[title]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        before = run(direct, "backlogs", ["stage"], False)[0].counts.entered
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: scene.act(hr, "stage"),
            lambda: settle_all(direct, "stage"),
            ONLY_COMMIT if title in IN_TRANSACTION else COMMITS,
        )
        assert run(direct, "backlogs", ["stage"], False)[0].counts.entered == before + len(answer)
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
    """Settings that call for another way of pushing do not hide that it was done."""
    scene = QUEUE_SCENES[title]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: scene.act(hr, "stage"),
            lambda: run(direct, "update_queue", "stage", changes),
        )
        assert scene.effect(direct, "stage") == answer


@pytest.mark.parametrize("changes", [{"keep": "all"}, {"metrics": False}], ids=str)
def test_completion_is_not_called_lost_under_other_settings(
    postgres_url: str, proxy: Proxy, changes: dict[str, Any]
) -> None:
    """Who completed an item is told so, whatever the settings say by then."""
    scene = QUEUE_SCENES["complete"]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        mine = ids(direct, "stage", State.ACTIVE)
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: scene.act(hr, "stage"),
            lambda: run(direct, "update_queue", "stage", changes),
        )
        assert answer == mine
        assert ids(direct, "stage", State.ACTIVE, State.COMPLETED) == []


def test_receipts_outlast_maintenance(postgres_url: str, proxy: Proxy) -> None:
    """Counts are folded while somebody still asks what became of a push and a completion."""
    for title in ("push", "complete"):
        scene = QUEUE_SCENES[title]
        with headrace.connect(postgres_url) as direct:
            scene.prepare(direct, title)
            answer = lose(
                postgres_url,
                proxy,
                lambda hr, scene=scene, title=title: scene.act(hr, title),
                lambda title=title: run(direct, "tend_queue", title, 1000),
            )
            assert scene.effect(direct, title) == answer


def test_claim_is_found_although_the_queue_was_paused(postgres_url: str, proxy: Proxy) -> None:
    """What was handed out before the pause comes to the one who asked for it."""
    scene = QUEUE_SCENES["claim items"]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        answer = lose(
            postgres_url,
            proxy,
            lambda hr: scene.act(hr, "stage"),
            lambda: run(direct, "pause_queue", "stage", None),
        )
        items = run(direct, "items", "stage", State.ACTIVE, 0, 1000)
        assert answer == [text(item.id) for item in items] != []


@pytest.mark.usefixtures("lazy_disk")
def test_a_push_that_is_found_to_be_done_is_on_the_disk(
    postgres: PrivatePostgres, postgres_url: str, proxy: Proxy
) -> None:
    """Somebody waits for it, so it was committed before it was on the disk, and its answer lost."""
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
