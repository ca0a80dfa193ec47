"""Requests to a node, and its answers, that get lost on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headrace
from faults.crash_case import opened
from faults.crash_cases import CASES
from faults.polling import until
from faults.proxy import Cut, Marks, Proxy
from headrace.drivers.http import store as http_store
from headrace.errors import NodeLost, OutcomeUnknown, StoreUnavailable
from headrace.node import request_log
from headrace.testing import sync_facade
from served_node import ServedNode

REQUESTS: Marks = {"before": (b"POST /api/",), "after": (b"HTTP/1.1 ",)}
MODES: list[sync_facade.ClientMode] = ["blocking", "async"]


@pytest.fixture
def proxy(served: ServedNode) -> Iterator[Proxy]:
    with Proxy(served.port) as proxy:
        yield proxy


def url_of(proxy: Proxy) -> str:
    return f"http://127.0.0.1:{proxy.port}"


@pytest.mark.parametrize("cut", ["before", "after"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("title", [title for title in CASES if title != "transaction"])
def test_a_lost_request_or_answer_is_not_noticed(
    served: ServedNode,
    sqlite_url: str,
    proxy: Proxy,
    mode: sync_facade.ClientMode,
    title: str,
    cut: Cut,
) -> None:
    """The caller gets its answer, and the operation is applied exactly once."""
    case = CASES[title]
    with served.serving(sqlite_url), headrace.connect(served.tcp_url) as direct:
        case.prepare(direct, "stage")
        with opened(mode, url_of(proxy)) as hr:
            proxy.plan(cut, cut, marks=REQUESTS)
            answer = case.act(hr, "stage")
            assert case.effect(direct, "stage") == answer
            assert cut in proxy.cuts
            assert hr.status == 1


@contextmanager
def lost_answer(served: ServedNode, proxy: Proxy, act: Any) -> Iterator[list[Any]]:
    """Perform an act whose answer gets lost. The block runs before it can be sent again."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(act())
        except Exception as error:
            outcome.append(error)

    knocks = proxy.turned_away
    proxy.plan("after", stays_cut=True, marks=REQUESTS)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: proxy.turned_away > knocks, "a client that comes back")
        yield outcome
    finally:
        proxy.is_open = True
        thread.join(60)


@pytest.mark.parametrize("mode", MODES)
def test_a_restarted_node_cannot_answer_for_the_one_before(
    served: ServedNode, sqlite_url: str, proxy: Proxy, mode: sync_facade.ClientMode
) -> None:
    """The push is stored once. The client learns that nobody can tell."""
    with served.serving(sqlite_url), opened(mode, url_of(proxy)) as hr:
        with lost_answer(served, proxy, lambda: hr.push("mail", 1)) as outcome:
            served.restart()
        [error] = outcome
        assert isinstance(error, OutcomeUnknown)
        assert "restarted" in str(error)
        assert hr.queue("mail").stats().pending == 1


def test_a_repeat_stays_with_its_incarnation_when_another_call_learns_of_the_restart(
    served: ServedNode, sqlite_url: str, proxy: Proxy
) -> None:
    """The new node would execute the push once more."""
    with served.serving(sqlite_url), headrace.connect(url_of(proxy)) as hr:
        with lost_answer(served, proxy, lambda: hr.push("mail", 1)) as outcome:
            served.restart()
            # As another thread does whose request meets the new node first.
            hr._store._incarnation = served.incarnation
        [error] = outcome
        assert isinstance(error, OutcomeUnknown)
        assert hr.queue("mail").stats().pending == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_key_is_enough_for_a_restarted_node(
    served: ServedNode, sqlite_url: str, proxy: Proxy, mode: sync_facade.ClientMode
) -> None:
    with served.serving(sqlite_url), opened(mode, url_of(proxy)) as hr:
        with lost_answer(served, proxy, lambda: hr.push("mail", 1, key="once")) as outcome:
            served.restart()
        assert [result.ids for result in outcome] == [(1,)]
        assert hr.queue("mail").stats().pending == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_restart_that_loses_no_answer_is_not_noticed(
    served: ServedNode, sqlite_url: str, mode: sync_facade.ClientMode
) -> None:
    with served.serving(sqlite_url), opened(mode, served.tcp_url) as hr:
        hr.push("mail", 1)
        served.restart()
        hr.push("mail", 2)
        assert hr.queue("mail").stats().pending == 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loses_answer", [False, True])
def test_a_node_that_had_its_store_in_memory_is_lost_once(
    served: ServedNode,
    proxy: Proxy,
    mode: sync_facade.ClientMode,
    memory_url: str,
    loses_answer: bool,
) -> None:
    with served.serving(memory_url), opened(mode, url_of(proxy)) as hr:
        hr.push("mail", 1)
        if loses_answer:
            with lost_answer(served, proxy, lambda: hr.push("mail", 2)) as outcome:
                served.restart(f"{memory_url}-again")
            [error] = outcome
            assert isinstance(error, NodeLost)
        else:
            served.restart(f"{memory_url}-again")
            with pytest.raises(NodeLost, match="memory"):
                hr.push("mail", 2)
        assert hr.queues.list() == []
        hr.push("mail", 3)
        assert hr.queue("mail").stats().pending == 1


def test_an_answer_that_the_node_no_longer_has_is_unknown(
    served: ServedNode, sqlite_url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not executed again."""
    monkeypatch.setattr(request_log, "MAX_ANSWERS", 1)
    with (
        served.serving(sqlite_url),
        headrace.connect(url_of(proxy)) as hr,
        headrace.connect(served.tcp_url) as other,
    ):
        with lost_answer(served, proxy, lambda: hr.push("mail", 1)) as outcome:
            for _ in range(3):
                other.push("other", 1)
        [error] = outcome
        assert isinstance(error, OutcomeUnknown)
        assert hr.queue("mail").stats().pending == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_node_that_stays_away_ends_patience(
    served: ServedNode, sqlite_url: str, proxy: Proxy, mode: sync_facade.ClientMode
) -> None:
    """A write whose answer is missing is in doubt; what cannot be sent was not written."""
    with served.serving(sqlite_url), opened(mode, url_of(proxy), patience=0.5) as hr:
        hr.push("mail", 1)
        proxy.plan("after", stays_cut=True, marks=REQUESTS)
        with pytest.raises(OutcomeUnknown):
            hr.push("mail", 2)
        proxy.close()
        for act in (lambda: hr.push("mail", 3), hr.queues.list, lambda: hr.push("m", 4, key="k")):
            with pytest.raises(StoreUnavailable):
                act()
        with headrace.connect(served.tcp_url) as other:
            assert other.queue("mail").stats().pending == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_silent_node_ends_patience(
    served: ServedNode,
    sqlite_url: str,
    mode: sync_facade.ClientMode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_store, "ANSWER_GRACE_SECONDS", 0.1)
    with served.serving(sqlite_url), opened(mode, served.tcp_url, patience=0.3) as hr:
        hr.push("mail", 1)
        with served.frozen():
            with pytest.raises(StoreUnavailable):
                hr.queues.list()
            with pytest.raises(OutcomeUnknown):
                hr.push("mail", 2)
        assert hr.queue("mail").stats().pending == 2
