"""A node's application: routes, operations, problem documents, notifications, the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from asgi import Call, ask, run

from headrace import errors
from headrace.contract.operations import table_digest
from headrace.contract.store import Store
from headrace.contract.wire import error_classes
from headrace.model.codec import encode_body
from headrace.node import capacity, http
from headrace.node.app import NodeApp
from headrace.node.guard import OpenGuard
from headrace.node.http import HttpRequest, Response
from headrace.node.problems import STATUS, problem_of
from headrace.node.shutdown import Closing
from headrace.stores import open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with closing(open_store("memory://")) as store:
        yield store


@pytest.fixture
def app(store: Store) -> NodeApp:
    return NodeApp(store, guard=OpenGuard(), closing=Closing())


def document(**fields: Any) -> dict[str, Any]:
    return {"payload": "1", **fields}


def push(queue: str = "mail") -> dict[str, Any]:
    return {"calls": [{"queue": queue, "documents": [document()]}]}


class TestRoutes:
    async def test_a_path_without_a_route_is_a_problem(self, app: NodeApp) -> None:
        answer = await ask(app, "GET", "/api/v1/nothing")
        assert answer.status == 404
        assert answer.json["code"] == "no_such_path"
        assert answer.headers["content-type"] == "application/problem+json"

    async def test_another_method_is_told_which_there_are(self, app: NodeApp) -> None:
        answer = await ask(app, "GET", "/api/v1/operations/queues.push")
        assert answer.status == 405
        assert "POST" in answer.json["detail"]

    async def test_segments_are_decoded_one_by_one(self, app: NodeApp) -> None:
        async def echo(request: HttpRequest) -> Response:
            return Response.json(dict(request.parameters))

        app.add_route("GET", "/echo/{first}/x/{second}", echo)
        answer = await ask(app, "GET", "/echo/a%2Fb%20c/x/%C3%A4")
        assert answer.json == {"first": "a/b c", "second": "ä"}

    async def test_a_path_that_is_not_utf8_is_refused(self, app: NodeApp) -> None:
        assert (await ask(app, "GET", "/api/%FF")).status == 400

    async def test_what_a_handler_did_not_expect_stays_in_the_log(
        self, app: NodeApp, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def fail(request: HttpRequest) -> Response:
            raise RuntimeError("the password is 1234")

        app.add_route("GET", "/fail", fail)
        answer = await ask(app, "GET", "/fail")
        assert answer.status == 500
        assert answer.json["code"] == "internal_error"
        assert b"1234" not in answer.body
        assert "1234" in caplog.text

    async def test_only_open_routes_need_no_identity(self, store: Store) -> None:
        class Closed(OpenGuard):
            async def authenticate(self, request: HttpRequest) -> Any:
                raise errors.InvalidInput("no")

        async def fine(request: HttpRequest) -> Response:
            return Response.json("fine")

        app = NodeApp(store, guard=Closed(), closing=Closing())
        app.add_route("GET", "/health", fine, is_open=True)
        app.add_route("GET", "/other", fine)
        assert (await ask(app, "GET", "/health")).status == 200
        for method, path in (
            ("GET", "/other"),
            ("GET", "/api/v1/node"),
            ("GET", "/api/v1/notifications/t"),
            ("POST", "/api/v1/operations/queues.push"),
        ):
            assert (await ask(app, method, path)).status == 400


class TestOperations:
    async def test_an_operation_runs(self, app: NodeApp) -> None:
        answer = await run(app, "queues.push", **push())
        assert answer.status == 200
        assert answer.json == [{"type": "pushed", "ids": [1], "notes": []}]

    async def test_an_error_has_code_and_details(self, app: NodeApp) -> None:
        answer = await run(app, "queues.info", name="nothing")
        assert answer.status == 404
        assert answer.json["code"] == "unknown_queue"
        assert answer.json["type"] == "urn:headrace:problem:unknown_queue"
        assert answer.json["title"] == "No queue has that name."
        assert answer.json["status"] == 404
        assert "nothing" in answer.json["detail"]

    async def test_an_unknown_operation_names_both_releases(self, app: NodeApp) -> None:
        header = {"headrace-operations": "0123456789abcdef/99.0"}
        answer = await run(app, "queues.dream", header=header)
        assert answer.status == 400
        assert answer.json["code"] == "not_understood"
        assert "99.0" in answer.json["detail"]

    async def test_an_unknown_field_is_refused(self, app: NodeApp) -> None:
        answer = await run(app, "queues.info", name="q", colour="red")
        assert answer.status == 400
        assert "colour" in answer.json["detail"]

    async def test_a_wrong_type_is_refused_with_its_path(self, app: NodeApp) -> None:
        answer = await run(app, "queues.push", calls=[{"queue": 1, "documents": []}])
        assert answer.status == 400
        assert "$.calls[0].queue" in answer.json["detail"]

    async def test_a_body_that_is_not_json_is_refused(self, app: NodeApp) -> None:
        path = "/api/v1/operations/queues.info"
        headers = {"content-type": "application/json"}
        answer = await ask(app, "POST", path, chunks=[b"{"], headers=headers)
        assert (answer.status, answer.json["code"]) == (400, "invalid_input")

    async def test_a_body_that_is_too_deep_is_refused(self, app: NodeApp) -> None:
        path = "/api/v1/operations/queues.info"
        headers = {"content-type": "application/json"}
        deep = b'{"name": ' + b"[" * 100_000
        answer = await ask(app, "POST", path, chunks=[deep], headers=headers)
        assert answer.status == 400

    async def test_another_content_type_is_refused(self, app: NodeApp) -> None:
        path = "/api/v1/operations/queues.info"
        answer = await ask(app, "POST", path, headers={"content-type": "text/plain"})
        assert answer.status == 415

    async def test_a_body_that_is_too_long_is_refused_before_it_is_read(self, app: NodeApp) -> None:
        path = "/api/v1/operations/queues.info"
        headers = {"content-type": "application/json", "content-length": str(9 * 1024 * 1024)}
        answer = await ask(app, "POST", path, chunks=[None], headers=headers)
        assert (answer.status, answer.json["code"]) == (413, "body_too_large")

    async def test_a_body_that_grows_too_long_is_refused(self, app: NodeApp) -> None:
        path = "/api/v1/operations/queues.info"
        headers = {"content-type": "application/json"}
        answer = await ask(app, "POST", path, chunks=[b"x" * 1024 * 1024] * 10, headers=headers)
        assert answer.status == 413

    async def test_a_body_that_never_comes_is_refused(
        self, app: NodeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "BODY_GAP_SECONDS", 0.05)
        path = "/api/v1/operations/queues.info"
        headers = {"content-type": "application/json"}
        for chunks in ([None], [b"{", None]):
            answer = await ask(app, "POST", path, chunks=chunks, headers=headers)
            assert (answer.status, answer.json["code"]) == (408, "request_timeout")

    async def test_a_request_for_another_incarnation_does_nothing(self, app: NodeApp) -> None:
        answer = await run(app, "queues.push", header={"headrace-incarnation": "another"}, **push())
        assert (answer.status, answer.json["code"]) == (409, "node_restarted")
        assert answer.headers["headrace-incarnation"] == app.incarnation
        assert (await run(app, "queues.info", name="mail")).status == 404

    async def test_a_stopping_node_refuses(self, app: NodeApp) -> None:
        app.closing.begin()
        answer = await run(app, "queues.push", **push())
        assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
        assert answer.headers["retry-after"] == "1"

    async def test_a_flood_of_requests_leaves_space_for_settling(
        self, app: NodeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(capacity, "MAX_RUNNING", 1)
        monkeypatch.setattr(capacity, "KEPT_FREE", 1)
        assert (await run(app, "queues.push", **push())).status == 503
        assert (await run(app, "queues.settle", queue="mail", outcomes=[])).status == 200

    async def test_what_is_refused_anyway_is_not_read(
        self, app: NodeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A repeat is read: it may need nothing but the answer to the first request."""
        header = {"headrace-request": "d" * 32}
        first = await run(app, "queues.push", header=header, **push())
        monkeypatch.setattr(capacity, "MAX_RUNNING", 1)
        monkeypatch.setattr(capacity, "KEPT_FREE", 1)
        path = "/api/v1/operations/queues.push"
        headers = {"content-type": "application/json"}
        answer = await ask(app, "POST", path, chunks=[b"{", None], headers=headers)
        assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
        again = await run(app, "queues.push", header=header | {"headrace-repeat": "1"}, **push())
        assert again.json == first.json

    async def test_large_bodies_are_limited_together(
        self, app: NodeApp, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(capacity, "MAX_READING_BYTES", 3_000_000)
        path = "/api/v1/operations/queues.push"
        headers = {"content-type": "application/json", "content-length": "2000000"}
        reading = Call(app, "POST", path, chunks=[b"{", None], headers=headers)
        await asyncio.sleep(0)
        answer = await ask(app, "POST", path, chunks=[b"{", None], headers=headers)
        assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
        assert (await run(app, "queues.push", **push())).status == 200
        reading.task.cancel()

    async def test_an_unexpected_error_of_a_write_leaves_its_outcome_unknown(
        self, app: NodeApp, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The store may have executed it; of a read there is nothing to know."""

        async def fail(op: Any) -> Any:
            await arun(op)
            raise RuntimeError("the password is 1234")

        arun = store.arun
        monkeypatch.setattr(store, "arun", fail)
        answer = await run(app, "queues.create", name="q", changes={}, must_be_new=True)
        assert (answer.status, answer.json["code"]) == (500, "outcome_unknown")
        assert b"1234" not in answer.body
        answer = await run(app, "queues.info", name="q")
        assert (answer.status, answer.json["code"]) == (500, "internal_error")


class TestRepeats:
    async def test_a_repeated_request_gets_the_first_answer(self, app: NodeApp) -> None:
        header = {"headrace-request": "a" * 32}
        first = await run(app, "queues.push", header=header, **push())
        again = await run(app, "queues.push", header=header | {"headrace-repeat": "1"}, **push())
        assert again.json == first.json
        counts = await run(app, "queues.counts", queues=["mail"], computed=True)
        assert counts.json[0]["counts"]["pending"] == 1

    async def test_a_refusal_is_an_answer_too(self, app: NodeApp) -> None:
        header = {"headrace-request": "b" * 32}
        settings = {"name": "q", "changes": {}, "must_be_new": True}
        assert (await run(app, "queues.create", **settings)).status == 200
        first = await run(app, "queues.create", header=header, **settings)
        assert (first.status, first.json["code"]) == (409, "queue_exists")
        assert (await run(app, "queues.drop", name="q", keep_data=False)).status == 200
        again = await run(app, "queues.create", header=header, **settings)
        assert again.json == first.json

    async def test_requests_of_other_operations_do_not_share_ids(self, app: NodeApp) -> None:
        header = {"headrace-request": "c" * 32}
        await run(app, "queues.push", header=header, **push())
        answer = await run(app, "queues.drop", header=header, name="mail", keep_data=False)
        assert answer.json == 1


class TestNotifications:
    async def test_a_stream_has_a_byte_for_each_notification(self, app: NodeApp) -> None:
        call = Call(app, "GET", "/api/v1/notifications/queue%2Fmail")
        await call.answer.until(b".")
        await run(app, "queues.push", **push())
        await call.answer.until(b"!")
        call.left.set()
        async with asyncio.timeout(30):
            await call.task

    async def test_many_streams_for_a_word_share_a_waiter(
        self, app: NodeApp, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = []
        waiter = store.waiter

        def count(word: str) -> Any:
            made.append(word)
            return waiter(word)

        monkeypatch.setattr(store, "waiter", count)
        calls = [Call(app, "GET", "/api/v1/notifications/t") for _ in range(20)]
        for call in calls:
            await call.answer.until(b".")
        body = encode_body({"n": 1})
        parts = [{"topic": "t", "count": 1, "body": body}]
        assert (await run(app, "topics.commit", calls=[{"parts": parts}])).status == 200
        for call in calls:
            await call.answer.until(b"!")
        assert made == ["t"]
        app.closing.begin()
        async with asyncio.timeout(30):
            await asyncio.gather(*(call.task for call in calls))

    async def test_streams_end_when_the_node_stops(self, app: NodeApp) -> None:
        calls = [Call(app, "GET", f"/api/v1/notifications/t{n}") for n in range(5)]
        for call in calls:
            await call.answer.until(b".")
        app.closing.begin()
        async with asyncio.timeout(30):
            await asyncio.gather(*(call.task for call in calls))
        assert all(call.answer.is_complete for call in calls)
        assert (await ask(app, "GET", "/api/v1/notifications/t")).status == 503


class TestNode:
    async def test_a_node_says_what_it_is(self, app: NodeApp) -> None:
        info = (await ask(app, "GET", "/api/v1/node")).json
        assert info["operations"] == table_digest()
        assert info["incarnation"] == app.incarnation
        assert info["store"] == "memory"
        assert info["capabilities"]["survives_restart"] is False


class TestProblems:
    def test_every_error_has_a_status(self) -> None:
        assert set(STATUS) == set(error_classes())

    def test_details_that_json_does_not_have_become_text(self) -> None:
        problem = problem_of(errors.UnknownItem("no item", where=OSError("gone"), seqs=(1, 2)))
        assert problem.details == {"where": "gone", "seqs": (1, 2)}
