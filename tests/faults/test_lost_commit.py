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
from headrace.errors import OutcomeUnknown
from headrace.testing import faces


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
