"""Mistakes in requests to the API: each gets a problem document that names the place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from asgi import Answer, ask

import headrace
from api_examples import Request, Walk, prepare
from headrace.contract.wire import PROBLEM, PROBLEM_TYPE
from headrace.model.query.queries import Query
from headrace.node import http
from headrace.node.app import NodeApp
from headrace.node.guard import OpenGuard
from headrace.node.resources import pages as api_pages
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint
from headrace.node.shutdown import Closing
from headrace.node.token_guard import TokenGuard
from headrace.stores import open_store
from wrong_values import WRONG, spoiled

API = "/api/v1"
JSON = {"content-type": "application/json"}
LISTS = [one.path for one in ENDPOINTS if "limit" in getattr(one.query, "__struct_fields__", ())]
QUERIES = [one.path for one in ENDPOINTS if one.name.startswith("query_")]


@asynccontextmanager
async def serving(url: str, **options: Any) -> AsyncIterator[NodeApp]:
    store = open_store(url)
    closing = Closing()
    guard = TokenGuard(store, closing, is_open=True) if options.get("guarded") else OpenGuard()
    app = NodeApp(store, guard=guard, closing=closing)
    try:
        yield app
    finally:
        await app.aclose()
        await store.aclose()
        store.close()


async def send(app: NodeApp, method: str, path: str, text: bytes, **more: Any) -> Answer:
    headers = {"content-length": str(len(text)), **JSON}
    return await ask(app, method, API + path, chunks=[text], headers=headers, **more)


async def post(app: NodeApp, path: str, body: Any) -> Answer:
    return await send(app, "POST", path, json.dumps(body).encode())


async def get(app: NodeApp, path: str) -> Answer:
    return await ask(app, "GET", API + path)


def check_problem(answer: Answer) -> dict[str, Any]:
    assert 400 <= answer.status < 500, answer.body
    assert answer.headers["content-type"] == PROBLEM
    problem: dict[str, Any] = answer.json
    assert problem["status"] == answer.status
    assert problem["type"] == PROBLEM_TYPE + problem["code"]
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in problem["detail"]
    return problem


async def refused(app: NodeApp, path: str, body: Any) -> tuple[int, str, str]:
    problem = check_problem(await post(app, path, body))
    return problem["status"], problem["code"], problem["details"]["path"]


class TestEveryEndpoint:
    """What differs from a good request in one place is never an error of the node."""

    async def check(self, url: str) -> None:
        with headrace.connect(url) as hr:
            prepare(hr, hr._store)
        async with serving(url) as app:
            walk, done = Walk(), set()
            for request in walk:
                if request.endpoint.name not in done:
                    done.add(request.endpoint.name)
                    await self.check_endpoint(app, request)
                answer = await self.sent(app, request.endpoint, walk)
                if answer.status < 400 and answer.body:
                    walk.learn(request.endpoint, answer.json)

    async def sent(self, app: NodeApp, endpoint: Endpoint, walk: Walk) -> Answer:
        body = walk.filled(endpoint.example)
        return await self.send(app, endpoint, walk.path(endpoint), body)

    async def check_endpoint(self, app: NodeApp, request: Request) -> None:
        endpoint = request.endpoint
        if endpoint.body is not None:
            for body in _wrong_bodies(request):
                answer = await self.send(app, endpoint, request.path, body)
                self.check_answer(answer, names_place=True)
        for option in getattr(endpoint.query, "__struct_fields__", ()):
            for value in ("", "a", "-1", "0", str(2**70), "1e9", "%00", "x" * 300, "true", "%ff"):
                answer = await ask(app, endpoint.method, f"{request.path}?{option}={value}")
                self.check_answer(answer, names_place=True)
        if "{" in endpoint.path:
            for name in ("%00", "%ff", "%2F", "a%20b", "%F0%9F%98%80", "x" * 300, "_x", "..", ":5"):
                path = API + _with_names(endpoint.path, name)
                answer = await self.send(app, endpoint, path, request.body)
                self.check_answer(answer, names_place=False)

    async def send(self, app: NodeApp, endpoint: Endpoint, path: str, body: Any) -> Answer:
        if isinstance(body, dict) and type(body.get("wait")) in (int, float):
            wait = body["wait"]
            body = {**body, "wait": 0 if 0 <= wait <= 60 else wait}
        text = b"" if endpoint.body is None else json.dumps(body).encode()
        headers = {"content-length": str(len(text)), **JSON}
        return await ask(app, endpoint.method, path, chunks=[text], headers=headers)

    def check_answer(self, answer: Answer, *, names_place: bool) -> None:
        if answer.status < 300:
            return
        problem = check_problem(answer)
        if names_place and problem["status"] == 400:
            assert problem["details"]["path"][0] in "$?"

    async def test_spoiled_requests(self, memory_url: str) -> None:
        await self.check(memory_url)

    @pytest.mark.thorough
    async def test_spoiled_requests_before_a_database(self, durable_url: str) -> None:
        await self.check(durable_url)


def _wrong_bodies(request: Request) -> Iterator[Any]:
    yield from (None, 1, "a", [], [1])
    good = request.body
    if isinstance(good, dict):
        yield good | {"unknown": 1}
        for field in request.endpoint.body.__struct_fields__:
            for wrong in () if field in good else WRONG:
                yield good | {field: wrong}
    yield from spoiled(good)


def _with_names(path: str, name: str) -> str:
    segments = path.split("/")
    return "/".join(name if segment.startswith("{") else segment for segment in segments)


class TestBodies:
    @pytest.mark.parametrize(
        ("path", "body", "place"),
        [
            ("/queues", {"name": "q", "colour": 1}, "$.colour"),
            ("/queues/q/items", {"items": [{"payload": 1}, {"payload": 1, "foo": 2}]}, "$.items[1].foo"),
            ("/queues/q/items", {"items": [{"subject": "a"}]}, "$.items[0].payload"),
            ("/queues/q/items", {"items": [{"payload": 1, "subject": ""}]}, "$.items[0].subject"),
            ("/queues/q/items", {"payload": 1, "priority": "high"}, "$.priority"),
            ("/queues/q/items", {"payload": 1, "lease": "soon"}, "$.lease"),
            ("/queues/q/items", {"payload": 1, "wait": 61}, "$.wait"),
            ("/queues/q/items", {"payload": 1, "items": []}, "$.items"),
            ("/queues/q/items", {"items": [], "subject": "a"}, "$.items"),
            ("/queues/q/items", {}, "$.payload"),
            ("/queues/q/items", {"payload": 1, "debounce": 1}, "$.debounce"),
            ("/queues/q/items", {"payload": 1, "channel": {"os": True}}, "$.channel[os]"),
            ("/queues/q/claim", {"count": 0}, "$.count"),
            ("/queues/q/settle", {"outcomes": [{"item": 1, "token": "t", "kind": "x"}]}, "$.outcomes[0].kind"),
            ("/topics/t/records", {"body": 1}, "$.body"),
            ("/topics/t/records", {"records": [{"body": {}}, {"body": 7}]}, "$.records[1].body"),
            ("/topics/t/records", {"records": [], "body": {}}, "$.body"),
            ("/commits", [{"topic": "t", "body": {}}, {"topic": "a b", "body": {}}], "$[1].topic"),
            ("/commits", [{"topic": "t", "body": {}}, {"topic": "u", "body": 7}], "$[1].body"),
            ("/queues", {"name": "q", "settings": {"lease": "soon"}}, "$.settings.lease"),
            ("/limits", {"limit": -2}, "$.limit"),
            ("/locks/query", {"select": {"Or": []}}, "$.select.Or"),
            ("/locks/query", {"select": {"Selections": {}, "Selection": {}}}, "$.select.Selection"),
            ("/procs/p/ack", {"token": "", "commit": []}, "$.token"),
        ],
    )  # fmt: skip
    async def test_the_field_is_named(
        self, memory_url: str, path: str, body: Any, place: str
    ) -> None:
        async with serving(memory_url) as app:
            status, _, found = await refused(app, path, body)
            assert (status, found) == (400, place)

    @pytest.mark.parametrize(
        ("path", "text", "place"),
        [
            ("/queues/q/items", '{"payload": {"to": 1, "to": 2}}', "$.payload.to"),
            ("/queues/q/items", '{"payload": 1, "payload": 2}', "$.payload"),
            ("/queues/q/items", '{"payload": 1, "channel": {"a": 1, "a": 1}}', "$.channel.a"),
            ("/queues/q/items", '{"items": [{"payload": [1, {"a": 1, "a": 2}]}]}', "$.items[0].payload[1].a"),
            ("/locks/acquire", '{"key_values": {"os": 1, "\\u006fs": 2}}', "$.key_values.os"),
            ("/locks/query", '{"select": {"And": [{}], "And": [{}]}}', "$.select.And"),
            ("/limits", '{"limit": 1, "group_by": {"a": "*", "a": 1}}', "$.group_by.a"),
        ],
    )  # fmt: skip
    async def test_a_key_that_is_there_twice(
        self, memory_url: str, path: str, text: str, place: str
    ) -> None:
        async with serving(memory_url) as app:
            problem = check_problem(await send(app, "POST", path, text.encode()))
            assert problem["details"]["path"] == place
            assert "twice" in problem["detail"]

    async def test_a_key_that_is_there_twice_in_a_long_body(self, memory_url: str) -> None:
        many = ",".join('{"payload": {"text": "' + "x" * 1000 + '"}}' for _ in range(300))
        text = f'{{"items": [{many}, {{"payload": {{"a": 1, "a": 2}}}}]}}'
        async with serving(memory_url) as app:
            problem = check_problem(await send(app, "POST", "/queues/q/items", text.encode()))
            assert problem["details"]["path"] == "$.items[300].payload.a"

    @pytest.mark.parametrize(
        "text", [b"", b"{", b'{"payload": NaN}', b"\xff", b'{"payload": "\\ud800"}', b"[]", b"null"]
    )
    async def test_what_is_no_document(self, memory_url: str, text: bytes) -> None:
        async with serving(memory_url) as app:
            problem = check_problem(await send(app, "POST", "/queues/q/items", text))
            assert (problem["status"], problem["details"]["path"]) == (400, "$")

    @pytest.mark.parametrize("depth", [2_000, 100_000])
    async def test_a_deep_body(self, memory_url: str, depth: int) -> None:
        text = b'{"payload": %s%s}' % (b"[" * depth, b"]" * depth)
        async with serving(memory_url) as app:
            problem = check_problem(await send(app, "POST", "/queues/q/items", text))
            assert (problem["status"], problem["details"]["path"]) == (400, "$")
            assert "deep" in problem["detail"]

    async def test_a_huge_number_is_no_error_of_the_node(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            text = b'{"payload": {"n": %s, "m": 1}}' % (b"9" * 5000)
            answer = await send(app, "POST", "/queues/q/items", text)
            assert answer.status < 500

    async def test_a_body_that_is_too_long(self, memory_url: str) -> None:
        headers = {"content-length": str(http.MAX_BODY_BYTES + 1), **JSON}
        async with serving(memory_url) as app:
            answer = await ask(app, "POST", f"{API}/queues/q/items", headers=headers)
            assert check_problem(answer)["code"] == "body_too_large"

    async def test_a_body_that_comes_too_slowly(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http, "BODY_GAP_SECONDS", 0.05)
        headers = {"transfer-encoding": "chunked", **JSON}
        chunks = [b'{"payload":', None]
        async with serving(memory_url) as app:
            path = f"{API}/queues/q/items"
            answer = await ask(app, "POST", path, chunks=chunks, headers=headers)
            assert check_problem(answer)["code"] == "request_timeout"

    @pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
    async def test_a_body_that_is_not_called_json(self, memory_url: str, kind: str | None) -> None:
        """Pages of other sites cannot call theirs so."""
        headers = {} if kind is None else {"content-type": kind}
        async with serving(memory_url) as app:
            path = f"{API}/queues/q/items"
            headers["content-length"] = "13"
            answer = await ask(app, "POST", path, chunks=[b'{"payload":1}'], headers=headers)
            assert check_problem(answer)["status"] == 415
            assert (await get(app, "/queues")).json["queues"] == []

    async def test_a_body_where_none_is_needed(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            await post(app, "/queues", {"name": "q"})
            assert await refused(app, "/queues/q/resume", {"by": "ann"}) == (
                400,
                "invalid_input",
                "$",
            )
            assert (await post(app, "/queues/q/resume", {})).status == 200

    async def test_a_number_with_more_than_64_bits(self, postgres_url: str) -> None:
        """The database cannot compare it."""
        async with serving(postgres_url) as app:
            assert (await post(app, "/queues", {"name": "q"})).status == 201
            body = {"items": [{"id": 2**70, "token": "t"}], "lease": 30}
            status, _, place = await refused(app, "/queues/q/extend", body)
            assert (status, place) == (400, "$.items[0].id")

    async def test_an_update_waits_for_workers_no_longer_than_other_requests(
        self, memory_url: str
    ) -> None:
        async with serving(memory_url) as app:
            await post(app, "/queues", {"name": "q"})
            text = b'{"settings": {"max_attempts": 4}, "time_limit": 4611686018427387904}'
            problem = check_problem(await send(app, "PATCH", "/queues/q", text))
            assert problem["details"]["path"] == "$.time_limit"


class TestOptions:
    @pytest.mark.parametrize("path", LISTS)
    @pytest.mark.parametrize("limit", ["0", "-1", "1001", "a", "1.5", ""])
    async def test_a_limit_that_no_page_has(self, memory_url: str, path: str, limit: str) -> None:
        path = _with_names(path, "q")
        async with serving(memory_url) as app:
            await post(app, "/queues", {"name": "q"})
            problem = check_problem(await get(app, f"{path}?limit={limit}"))
            assert (problem["status"], problem["details"]["path"]) == (400, "?limit")

    @pytest.mark.parametrize("path", QUERIES)
    async def test_a_limit_that_no_page_of_a_query_has(self, memory_url: str, path: str) -> None:
        async with serving(memory_url) as app:
            for limit in (0, 1001):
                found = await refused(app, _with_names(path, "q"), {"limit": limit})
                assert found == (400, "invalid_option", "$.limit")

    async def test_an_unknown_option(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            for path in ("/topics?page=2", "/topics/t?page=2", "/queues/q/items?page=2"):
                problem = check_problem(await get(app, path))
                assert (problem["status"], problem["details"]["path"]) == (400, "?page")

    async def test_an_option_that_is_there_twice(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            problem = check_problem(await get(app, "/topics?limit=1&limit=2"))
            assert (problem["status"], problem["details"]["path"]) == (400, "?limit")

    async def test_a_stale_cursor(self, memory_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """One of another release, of another list, of another type, or of nobody."""
        async with serving(memory_url) as app:
            for name in ("a", "b"):
                await post(app, "/queues", {"name": name})
            cursor = (await get(app, "/queues?limit=1")).json["next"]
            assert (await get(app, f"/queues?cursor={cursor}")).json["queues"][0]["name"] == "b"
            for path in (
                f"/topics?cursor={cursor}",
                f"/queues/a/items?cursor={cursor}",
                f"/topics/t/records?cursor={cursor}",
                "/queues?cursor=a",
                "/queues?cursor=%00",
                "/queues?cursor=",
            ):
                problem = check_problem(await get(app, path))
                assert (problem["status"], problem["details"]["path"]) == (400, "?cursor")
            monkeypatch.setattr(api_pages, "VERSION", 2)
            assert (await get(app, f"/queues?cursor={cursor}")).status == 400
            found = await refused(app, "/locks/query", {"cursor": cursor})
            assert found == (400, "invalid_option", "$.cursor")


class TestKeyValues:
    @pytest.mark.parametrize(
        ("path", "more"),
        [
            ("/locks/acquire", {}),
            ("/locks/force-release", {}),
            ("/counters/acquire", {}),
            ("/counters/set", {"count": 1}),
            ("/queues/q/channels/delay", {"delay": 1}),
            ("/queues/q/channels/get", {}),
        ],
    )
    async def test_any_is_refused_where_a_value_is_needed(
        self, memory_url: str, path: str, more: Any
    ) -> None:
        async with serving(memory_url) as app:
            for value in ("*", {"Type": 1024}):
                body = {"key_values": {"os": value}, **more}
                found = await refused(app, path, body)
                assert found == (400, "invalid_key_values", "$.key_values[os]")

    async def test_a_channel_of_any_is_refused(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            body: Any = {"payload": 1, "channel": {"os": "*"}}
            assert (await refused(app, "/queues/q/items", body))[2] == "$.channel[os]"
            body = {"items": [{"payload": 1}, body]}
            assert (await refused(app, "/queues/q/items", body))[2] == "$.items[1].channel[os]"

    async def test_a_value_keeps_its_type(self, memory_url: str) -> None:
        """What an answer has can be sent again, and names the same."""
        pairs = {"n": {"Type": 1, "Data": "3"}, "star": {"Type": 13, "Data": "*"}, "s": "3", "i": 3}
        async with serving(memory_url) as app:
            await post(app, "/locks/acquire", {"key_values": pairs})
            [lock] = (await post(app, "/locks/query", {})).json["locks"]
            assert lock["key_values"] == pairs
            again = await post(app, "/locks/acquire", {"key_values": lock["key_values"]})
            assert again.json["code"] == "lock_taken"
            other = await post(app, "/locks/acquire", {"key_values": {**pairs, "n": 3}})
            assert other.status == 200

    async def test_a_limit_says_any(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            body = {"name": "l", "limit": 1, "group_by": {"os": "*", "n": 1}}
            answer = await post(app, "/limits", body)
            assert answer.json["group_by"] == body["group_by"]

    async def test_an_unknown_field_of_a_query_never_selects_everything(
        self, memory_url: str
    ) -> None:
        async with serving(memory_url) as app:
            body = {"select": {"Selektion": {}}}
            for path in ("/queues/q/channels/delete", "/locks/query", "/queues/q/claim"):
                found = await refused(app, path, body)
                assert found == (400, "invalid_query", "$.select.Selektion")
            assert Query.from_json("{}").is_all


class TestPaths:
    async def test_an_unknown_path(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            for path in ("/nothing", "/queues/q/nothing", "/queues/q/items/1/why/more", "/queues/"):
                problem = check_problem(await get(app, path))
                assert (problem["status"], problem["code"]) == (404, "no_such_path")

    async def test_another_method_says_which_there_are(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            answer = await ask(app, "PUT", f"{API}/queues/q")
            assert check_problem(answer)["status"] == 405
            assert answer.headers["allow"] == "DELETE, GET, PATCH"

    async def test_an_item_that_is_no_number(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            for name in ("x", "0", "-1", "1.5", str(2**70), "%D9%A3"):
                problem = check_problem(await get(app, f"/queues/q/items/{name}"))
                assert problem["code"] == "invalid_option"

    async def test_an_idempotency_key_that_is_none(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            for key in ("", '""', "x" * 300):
                headers = {**JSON, "idempotency-key": key, "content-length": "13"}
                path = f"{API}/queues/q/items"
                answer = await ask(app, "POST", path, chunks=[b'{"payload":1}'], headers=headers)
                assert check_problem(answer)["details"]["option"] == "key"

    async def test_pages_of_other_sites(self, memory_url: str) -> None:
        """On a node without tokens, too."""
        text = b'{"name": "q"}'
        good = {"host": "localhost:7070", "content-length": str(len(text)), **JSON}
        async with serving(memory_url, guarded=True) as app:
            for wrong, status in (
                ({"host": "evil.example"}, 421),
                ({"origin": "http://evil.example"}, 403),
                ({"origin": "null"}, 403),
            ):
                for endpoint in ENDPOINTS:
                    headers = good | wrong
                    path = API + _with_names(endpoint.path, "q")
                    answer = await ask(app, endpoint.method, path, chunks=[text], headers=headers)
                    assert (endpoint.name, answer.status) == (endpoint.name, status)
            answer = await ask(app, "POST", f"{API}/queues", chunks=[text], headers=good)
            assert answer.status == 201


class TestPages:
    async def test_a_page_has_no_more_bytes_than_it_may(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the pages together have everything, once."""
        monkeypatch.setattr(api_pages, "MAX_PAGE_BYTES", 10_000)
        monkeypatch.setattr("headrace.node.resources.topics.MAX_PAGE_BYTES", 10_000)
        items = [{"payload": {"n": n, "text": "x" * (n * 100)}} for n in range(60)]
        records = [{"body": one["payload"]} for one in items]
        async with serving(memory_url) as app:
            assert (await post(app, "/queues/q/items", {"items": items})).status == 201
            for record in records:
                # What is committed together is read together, up to 128 KiB.
                assert (await post(app, "/topics/t/records", record)).status == 201
            for path, name, field in (
                ("/queues/q/items", "items", "payload"),
                ("/topics/t/records", "records", "body"),
                ("/topics/t/records?order=desc", "records", "body"),
            ):
                found, cursor, pages = [], None, 0
                while pages == 0 or cursor is not None:
                    more = "" if cursor is None else f"{'&' if '?' in path else '?'}cursor={cursor}"
                    answer = await get(app, path + more)
                    assert len(answer.body) < 10_000 + 6_500
                    found += [one[field]["n"] for one in answer.json[name]]
                    cursor, pages = answer.json["next"], pages + 1
                assert found == (list(range(60))[::-1] if "desc" in path else list(range(60)))
                assert pages > 5

    async def test_the_ends_of_a_range_stay_where_they_were(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            records = [{"body": {"n": n}} for n in range(10)]
            ids = (await post(app, "/topics/t/records", {"records": records})).json["ids"]
            options = f"start={ids[1]}&end={ids[8]}&exclusive=true&limit=3"
            first = await get(app, f"/topics/t/records?{options}")
            await post(app, "/topics/t/records", {"records": records})
            rest = await get(app, f"/topics/t/records?{options}&cursor={first.json['next']}")
            found = [one["body"]["n"] for one in first.json["records"] + rest.json["records"]]
            assert found == [2, 3, 4, 5, 6, 7]
            assert rest.json["next"] is None
            assert 'rel="next"' in first.headers["link"]
            link = first.headers["link"].partition(">")[0].removeprefix("<")
            assert (await ask(app, "GET", link)).json == rest.json

    async def test_lists_go_on_behind_the_last_entry(self, memory_url: str) -> None:
        """Not at a number: what is removed meanwhile moves nothing."""
        async with serving(memory_url) as app:
            for name in "abcd":
                await post(app, "/queues", {"name": name})
                await send(app, "PUT", f"/procs/{name}", b'{"topic": "t"}')
                await post(app, "/limits", {"name": name, "limit": 1, "group_by": {name: "*"}})
                await post(app, "/locks/acquire", {"key_values": {"name": name}})
                await post(app, "/counters/set", {"key_values": {"name": name}, "count": 1})
                body = {"payload": 1, "channel": {"name": name}}
                assert (await post(app, "/queues/q/items", body)).status == 201
                await post(app, "/commits", [{"topic": name, "body": {}}])
            for path, name in (("/queues", "queues"), ("/procs", "procs"), ("/topics", "topics")):
                first = await get(app, f"{path}?limit=2")
                rest = await get(app, f"{path}?limit=10&cursor={first.json['next']}")
                names = [one["name"] for one in first.json[name] + rest.json[name]]
                assert [one for one in names if len(one) == 1 and one < "e"] == list("abcd")
                assert rest.json["next"] is None
            for path, name in (
                ("/limits/query", "limits"),
                ("/locks/query", "locks"),
                ("/counters/query", "counters"),
                ("/queues/q/channels/query", "channels"),
            ):
                first = await post(app, path, {"limit": 2})
                rest = await post(app, path, {"limit": 10, "cursor": first.json["next"]})
                found = first.json[name] + rest.json[name]
                assert len(found) == 4
                assert msgspec.json.encode(found[1]) != msgspec.json.encode(found[2])


async def test_a_large_request_does_not_hold_up_others(memory_url: str) -> None:
    """The check for repeated keys of a long body runs beside other requests."""
    many = ",".join('{"payload": {"a": 1}}' for _ in range(9000))
    long = f'{{"items": [{many}, {{"payload": "{"x" * 300_000}"}}]}}'.encode()
    async with serving(memory_url) as app:
        pushing = asyncio.ensure_future(send(app, "POST", "/queues/q/items", long))
        answer = await get(app, "/topics")
        assert answer.status == 200
        assert (await pushing).status == 201
