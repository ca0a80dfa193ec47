"""Connections that break at COMMIT, just before or just after it happened."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
from faults.proxy import COMMITS, ONLY_COMMIT, Cut, Marks, Proxy
from faults.queue_scenes import IN_TRANSACTION
from faults.scene import opened
from faults.scenes import SCENES
from faults.waiting import until
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.testing import faces
from headrace.testing.postgres import PrivatePostgres

USE_MANY_NUMBERS = """
do $$ begin for n in 1..1000 loop perform pg_current_xact_id(); commit; end loop; end $$"""


def marks(title: str) -> Marks:
    return ONLY_COMMIT if title in IN_TRANSACTION else COMMITS


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize(
    ("face", "title"),
    [
        *(("blocking", title) for title in SCENES),
        *(
            ("async", title)
            for title in ("commit", "ack_commit", "push", "claim items", "complete")
        ),
    ],
)
def test_broken_line_at_commit_is_not_noticed(
    postgres_url: str, proxy: Proxy, face: faces.FaceName, title: str, cut: Cut
) -> None:
    """The caller gets its answer, and the operation took place exactly once."""
    scene = SCENES[title]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        with opened(face, proxy.url(postgres_url)) as hr:
            proxy.plan(cut, cut, marks=marks(title))
            answer = scene.act(hr, "stage")
            assert scene.effect(direct, "stage") == answer
            assert cut in proxy.cuts
            assert hr.status() == 1


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_outcome_is_found_out_once_the_server_can_be_reached_again(
    postgres_url: str, proxy: Proxy, face: faces.FaceName
) -> None:
    """A lost answer is asked for until there is somebody to ask."""
    with opened(face, proxy.url(postgres_url)) as hr:
        hr.commit("numbers", {"n": 0})
        proxy.plan("after", stays_cut=True)
        opener = threading.Thread(target=reopen_after_some_knocks, args=[proxy])
        opener.start()
        try:
            id = hr.commit("numbers", {"n": 1})
        finally:
            opener.join()
        assert [record.id for record in hr.range("numbers", ":1")] == [id]


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("title", ["commit to several topics", "push many", "upsert", "settle"])
def test_a_crash_after_a_lost_commit_is_not_noticed_either(
    fragile: PrivatePostgres, title: str, cut: Cut
) -> None:
    """The server that is back knows of other transactions by the numbers of those it has lost;
    what ours has left behind tells them apart."""
    scene = SCENES[title]
    with headrace.connect(fragile.url) as direct, Proxy(fragile.port) as proxy:
        scene.prepare(direct, "stage")
        with headrace.connect(proxy.url(fragile.url)) as hr, ThreadPoolExecutor(1) as threads:
            hr.topics()
            proxy.plan(cut, stays_cut=True, marks=ONLY_COMMIT)
            answer = threads.submit(scene.act, hr, "stage")
            until(lambda: proxy.turned_away, "a client that comes back")
            fragile.restart(immediately=True)
            fragile.execute(USE_MANY_NUMBERS)
            proxy.is_open = True
            assert answer.result(60) == scene.effect(direct, "stage")
            assert proxy.cuts == [cut]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_transaction_is_known_again_after_a_crash(fragile: PrivatePostgres, cut: Cut) -> None:
    """It returns, and is there; or it raises, and is not."""
    with headrace.connect(fragile.url) as direct, Proxy(fragile.port) as proxy:

        def act() -> None:
            with hr.transaction() as tx:
                tx.commit("numbers", {"n": 1})

        with headrace.connect(proxy.url(fragile.url)) as hr, ThreadPoolExecutor(1) as threads:
            hr.commit("numbers", {"n": 0})
            proxy.plan(cut, stays_cut=True, marks=ONLY_COMMIT)
            answer = threads.submit(act)
            until(lambda: proxy.turned_away, "a client that comes back")
            fragile.restart(immediately=True)
            fragile.execute(USE_MANY_NUMBERS)
            proxy.is_open = True
            error = answer.exception(60)
        assert direct.length("numbers") == (2 if cut == "after" else 1)
        if cut == "after":
            assert error is None
        else:
            assert isinstance(error, StoreUnavailable)


def reopen_after_some_knocks(proxy: Proxy) -> None:
    until(lambda: proxy.turned_away >= 3, "a client that comes back")
    proxy.is_open = True


@pytest.mark.parametrize(
    "title",
    [
        "commit",
        "commit with a key",
        "claim",
        "ack",
        "ack_commit",
        "push",
        "push many",
        "claim items",
        "complete",
        "settle",
    ],
)
def test_outcome_that_nobody_can_tell_is_said_to_be_unknown(
    postgres_url: str, proxy: Proxy, title: str
) -> None:
    """After a lost COMMIT and no server to ask, no error claims that nothing was written."""
    scene = SCENES[title]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        with headrace.connect(proxy.url(postgres_url), patience=0.3) as hr:
            # Keeps a connection, so that all that breaks is the COMMIT.
            hr.topics()
            proxy.plan("after", stays_cut=True, marks=marks(title))
            with pytest.raises(OutcomeUnknown):
                scene.act(hr, "stage")
            assert hr.status() == -1
            assert scene.effect(direct, "stage")
            proxy.is_open = True
            hr.topics()
            assert hr.status() == 1


@pytest.mark.parametrize("title", ["ack", "ack_commit"])
def test_ack_that_took_place_is_not_reported_lost_when_others_went_on(
    postgres_url: str, proxy: Proxy, title: str
) -> None:
    """What another worker acks meanwhile does not change what becomes of a lost answer."""
    scene = SCENES[title]
    with headrace.connect(postgres_url) as direct:
        scene.prepare(direct, "stage")
        with headrace.connect(proxy.url(postgres_url)) as hr:
            hr.topics()
            proxy.plan("after", stays_cut=True)
            with ThreadPoolExecutor(1) as threads:
                answer = threads.submit(scene.act, hr, "stage")
                until(lambda: proxy.turned_away, "a client that comes back")
                direct.proc("stage").claim().ack()
                proxy.is_open = True
                assert answer.result(60)
