"""Connections that break at COMMIT, just before or just after it happened."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
from faults.crash_case import opened
from faults.crash_cases import CASES
from faults.polling import until
from faults.proxy import COMMITS, ONLY_COMMIT, Cut, Marks, Proxy
from faults.queue_crash_cases import IN_TRANSACTION
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.testing import sync_facade
from headrace.testing.postgres import PrivatePostgres

USE_MANY_NUMBERS = """
do $$ begin for n in 1..1000 loop perform pg_current_xact_id(); commit; end loop; end $$"""


def marks(title: str) -> Marks:
    return ONLY_COMMIT if title in IN_TRANSACTION else COMMITS


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize(
    ("mode", "title"),
    [
        *(("blocking", title) for title in CASES),
        *(
            ("async", title)
            for title in ("commit", "ack_commit", "push", "claim items", "complete")
        ),
    ],
)
def test_a_broken_connection_at_commit_is_not_noticed(
    postgres_url: str, proxy: Proxy, mode: sync_facade.ClientMode, title: str, cut: Cut
) -> None:
    """The caller gets its answer, and the operation is applied exactly once."""
    case = CASES[title]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        with opened(mode, proxy.url(postgres_url)) as hr:
            proxy.plan(cut, cut, marks=marks(title))
            answer = case.act(hr, "stage")
            assert case.effect(direct, "stage") == answer
            assert cut in proxy.cuts
            assert hr.status == 1


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_outcome_is_found_out_once_the_server_can_be_reached_again(
    postgres_url: str, proxy: Proxy, mode: sync_facade.ClientMode
) -> None:
    """The client asks for a lost answer until the server can be reached."""
    with opened(mode, proxy.url(postgres_url)) as hr:
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
    """After its restart the server reuses the transaction ids that it lost. The commit marker distinguishes
    the transactions apart."""
    case = CASES[title]
    with headrace.connect(fragile.url) as direct, Proxy(fragile.port) as proxy:
        case.prepare(direct, "stage")
        with headrace.connect(proxy.url(fragile.url)) as hr, ThreadPoolExecutor(1) as threads:
            hr.topics.list()
            proxy.plan(cut, stays_cut=True, marks=ONLY_COMMIT)
            answer = threads.submit(case.act, hr, "stage")
            until(lambda: proxy.turned_away, "a client that comes back")
            fragile.restart(immediately=True)
            fragile.execute(USE_MANY_NUMBERS)
            proxy.is_open = True
            assert answer.result(60) == case.effect(direct, "stage")
            assert proxy.cuts == [cut]


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_transaction_is_recognized_after_a_crash(fragile: PrivatePostgres, cut: Cut) -> None:
    """It returns and is stored, or it raises and is not."""
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
        assert direct.topic("numbers").length() == (2 if cut == "after" else 1)
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
def test_an_outcome_that_cannot_be_found_out_is_unknown(
    postgres_url: str, proxy: Proxy, title: str
) -> None:
    """After a lost COMMIT, with no server to ask, no error claims that nothing was written."""
    case = CASES[title]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        with headrace.connect(proxy.url(postgres_url), patience=0.3) as hr:
            # Keeps a connection, so that only the COMMIT breaks.
            hr.topics.list()
            proxy.plan("after", stays_cut=True, marks=marks(title))
            with pytest.raises(OutcomeUnknown):
                case.act(hr, "stage")
            assert hr.status == -1
            assert case.effect(direct, "stage")
            proxy.is_open = True
            hr.topics.list()
            assert hr.status == 1


@pytest.mark.parametrize("title", ["ack", "ack_commit"])
def test_an_applied_ack_is_not_reported_lost(postgres_url: str, proxy: Proxy, title: str) -> None:
    """Acks of other workers meanwhile do not change the result of a lost answer."""
    case = CASES[title]
    with headrace.connect(postgres_url) as direct:
        case.prepare(direct, "stage")
        with headrace.connect(proxy.url(postgres_url)) as hr:
            hr.topics.list()
            proxy.plan("after", stays_cut=True)
            with ThreadPoolExecutor(1) as threads:
                answer = threads.submit(case.act, hr, "stage")
                until(lambda: proxy.turned_away, "a client that comes back")
                direct.proc("stage").claim().ack()
                proxy.is_open = True
                assert answer.result(60)
