"""Connections to a node that break before, in and after each write: it takes effect once."""

from collections.abc import Iterator
from typing import Any

import pytest

from faults.crash_case import opened
from faults.crash_cases import CASES, IS_REPEATABLE
from faults.node_proxy import NODE_CUTS, NodeCut, NodeProxy
from headrace.errors import HeadraceError, NotAuthenticated, OutcomeUnknown, StoreUnavailable
from headrace.node.app import NodeApp
from headrace.node.guard import OpenGuard, RequestIdentity
from headrace.node.http import HttpRequest
from headrace.node.shutdown import Closing
from headrace.testing.sync_facade import ClientMode
from served_node import ServedNode

# A node keeps no transaction open.
IS_REPEATED = IS_REPEATABLE - {"push with a subject", "upsert"} | {"claim", "claim items"}
WRITES = [title for title in CASES if title != "transaction"]


@pytest.fixture(
    params=[
        "memory",
        *(pytest.param(it, marks=pytest.mark.thorough) for it in ("sqlite", "postgres")),
    ]
)
def any_url(request: pytest.FixtureRequest) -> str:
    """The store behind the node."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def lasting_url(request: pytest.FixtureRequest) -> str:
    """One that outlives the node."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def cutter(served: ServedNode) -> Iterator[NodeProxy]:
    """The way to the node that breaks on demand."""
    with NodeProxy(served.port) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "resets",
    [
        pytest.param(False, id="closed"),
        pytest.param(True, id="reset", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("title", WRITES)
def test_a_cut_write_takes_effect_once(
    served: ServedNode,
    cutter: NodeProxy,
    any_url: str,
    mode: ClientMode,
    title: str,
    resets: bool,
) -> None:
    """Its caller notices nothing, wherever and however often the connection breaks."""
    case = CASES[title]
    plans: list[tuple[NodeCut, ...]] = [*((cut,) for cut in NODE_CUTS), NODE_CUTS]
    with served.serving(any_url), opened(mode, cutter.url) as hr:
        for plan in plans:
            name = "-".join(plan).replace(" ", "-")
            case.prepare(hr, name)
            cutter.cuts.clear()
            cutter.plan(*plan, operation=case.operation, resets=resets)
            answer = case.act(hr, name)
            assert tuple(cutter.cuts) == plan
            assert sorted(answer) == case.effect(hr, name)


@pytest.mark.parametrize("mode", ["blocking", "async"])
@pytest.mark.parametrize("title", WRITES)
def test_a_write_whose_answer_died_with_the_node_is_unknown_or_repeated(
    served: ServedNode, cutter: NodeProxy, lasting_url: str, mode: ClientMode, title: str
) -> None:
    """Only what may not be repeated is unknown: the next incarnation does not have its answer."""
    case = CASES[title]
    with served.serving(lasting_url), opened(mode, cutter.url) as hr:
        case.prepare(hr, "it")
        replace_after_request(served, case.operation)
        cutter.plan("answer", operation=case.operation)
        try:
            answer = case.act(hr, "it")
        except OutcomeUnknown:
            assert title not in IS_REPEATED
            assert case.effect(hr, "it")
        else:
            assert sorted(answer) == case.effect(hr, "it")


class RefusingGuard(OpenGuard):
    """Refuses requests after the first ``count``, for the given reasons."""

    def __init__(self, count: int, *refusals: HeadraceError) -> None:
        self._count = count
        self._refusals = list(refusals)

    async def authenticate(self, request: HttpRequest) -> RequestIdentity:
        if request.method == "POST":
            self._count -= 1
            if self._count < 0 and self._refusals:
                raise self._refusals.pop(0)
        return await super().authenticate(request)


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_refused_repeat_says_nothing_about_the_first_request(
    served: ServedNode, cutter: NodeProxy, memory_url: str, mode: ClientMode
) -> None:
    """Tokens cannot be checked for a moment, or are no longer valid."""
    away = StoreUnavailable("tokens cannot be read: try again.")
    with served.serving(memory_url, guard=RefusingGuard(1, away)), opened(mode, cutter.url) as hr:
        cutter.plan("answer", operation="queues.push")
        hr.queue("q").push("once")
        assert hr.queue("q").stats().pending == 1
    revoked = NotAuthenticated("the token was revoked.")
    with (
        served.serving(memory_url, guard=RefusingGuard(1, revoked)),
        opened(mode, cutter.url) as hr,
    ):
        cutter.plan("answer", operation="queues.push")
        with pytest.raises(OutcomeUnknown, match="revoked"):
            hr.queue("q").push("twice?")
        assert hr.queue("q").stats().pending == 2


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_an_error_of_a_proxy_says_nothing_about_the_request(
    served: ServedNode, memory_url: str, mode: ClientMode
) -> None:
    """The node has executed it, and a proxy that lost the answer reports an error of its own."""
    with served.serving(memory_url), opened(mode, served.tcp_url) as hr:
        node = served.app
        assert node is not None

        async def gateway(scope: Any, receive: Any, send: Any) -> None:
            async def drop(message: Any) -> None:
                pass

            served.app = node
            await node(scope, receive, drop)
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 502, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

        served.app = gateway
        hr.queue("q").push("once")
        assert hr.queue("q").stats().pending == 1


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_what_comes_while_a_connection_is_idle_is_no_answer(
    served: ServedNode, cutter: NodeProxy, memory_url: str, mode: ClientMode
) -> None:
    """Some proxies report that they end an idle connection."""
    with served.serving(memory_url), opened(mode, cutter.url) as hr:
        for number in range(3):
            hr.queue("q").push(number)
            cutter.end_idle(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        assert hr.queue("q").stats().pending == 3


def replace_after_request(served: ServedNode, operation: str) -> None:
    """Let another incarnation answer what comes after the next request for an operation."""
    node = served.app
    assert isinstance(node, NodeApp)
    following = NodeApp(node.store, guard=OpenGuard(), closing=Closing())

    async def last_request(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith(f"/{operation}"):
            served.app = following
        await node(scope, receive, send)

    served.app = last_request
