"""Access to a node: every route and every operation, with all kinds of wrong tokens."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

import msgspec
import pytest
from asgi import Answer, Call, ask

from api_examples import Walk
from headrace.contract.operations import OPERATIONS, Operation
from headrace.contract.store import Store
from headrace.contract.tokens import NewToken
from headrace.contract.values import CommitCall, CommitPart, RangeQuery
from headrace.contract.wire import NODE_PATH, NOTIFICATIONS_PATH, OPERATIONS_PATH
from headrace.errors import StoreUnavailable
from headrace.model.access_tokens import TokenText, new_secret, new_token
from headrace.model.topics.positions import OPEN
from headrace.node import audit_log, token_cache
from headrace.node.app import NodeApp
from headrace.node.audit_log import AUDIT_TOPIC, KEPT_DAYS
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint
from headrace.node.resources.serve import BASE
from headrace.node.shutdown import Closing
from headrace.node.streams import slots
from headrace.node.token_guard import MAX_HEADER_BYTES, TokenGuard
from headrace.node.willow.serve import ROUTES
from headrace.stores import open_store
from operation_samples import arguments_of

ANY_OPERATION = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
HOST = {"host": "localhost:7070"}
DOCUMENT_PATHS = [f"{BASE}/{name}" for name in ("openapi.json", "asyncapi.json", "blueprint.apib")]


class Clock:
    """The node's time in milliseconds, and the store's."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Store]:
    with closing(open_store("memory://", clock=clock)) as store:
        yield store


@asynccontextmanager
async def served(store: Store, **options: Any) -> AsyncIterator[NodeApp]:
    """An application with a guard, until both have ended."""
    stopping = Closing()
    guard = TokenGuard(store, stopping, **options)
    try:
        yield NodeApp(store, guard=guard, closing=stopping)
    finally:
        stopping.begin()
        await guard.aclose()


def issue(store: Store, *scopes: str, ttl_ms: int | None = None) -> TokenText:
    text = new_token()
    new = NewToken(id=text.id, hash=text.hash, name="test", scopes=scopes, ttl_ms=ttl_ms)
    store.run(store.tokens.create(new))
    return text


def bearer(text: TokenText | str) -> dict[str, str]:
    return {**HOST, "authorization": f"Bearer {text if isinstance(text, str) else text.text}"}


async def run(
    app: NodeApp, name: str, headers: dict[str, str], arguments: msgspec.Struct | dict[str, Any]
) -> Answer:
    return await ask(
        app,
        "POST",
        f"{OPERATIONS_PATH}{name}",
        chunks=[msgspec.json.encode(arguments)],
        headers={"content-type": "application/json", **headers},
    )


async def request(app: NodeApp, endpoint: Endpoint, headers: dict[str, str]) -> Answer:
    """Send the example of an endpoint, without waiting for anything."""
    walk = Walk()
    body = walk.filled(endpoint.example)
    if isinstance(body, dict) and "wait" in body:
        body["wait"] = 0
    chunks = [] if endpoint.body is None else [msgspec.json.encode(body)]
    return await ask(
        app,
        endpoint.method,
        walk.path(endpoint),
        chunks=chunks,
        headers={"content-type": "application/json", **headers},
    )


def seen(store: Store) -> list[Any]:
    """What there is in a store."""
    return [
        store.run(op)
        for op in (
            store.topics.list("", "", 9),
            store.queues.list("", "", 9),
            store.procs.list(None),
            store.pipelines.list(),
            store.sinks.list(),
            store.limits.list("", 9),
            store.locks.list(None, "", 9),
            store.counters.list(None, "", 9),
            store.queues.clients(),
            store.tokens.list(),
        )
    ]


def written(store: Store) -> list[Any]:
    """What there is, but for tokens and the audit."""
    topics, *others, _ = seen(store)
    return [[topic for topic in topics if topic.name != AUDIT_TOPIC], *others]


def audit(store: Store) -> list[dict[str, Any]]:
    query = RangeQuery(topic=AUDIT_TOPIC, start=OPEN, end=OPEN, limit=100, max_bytes=10**6)
    page = store.run(store.topics.read(query))
    return [msgspec.json.decode(line) for batch in page.batches for line in batch.body.splitlines()]


class TestEveryOperation:
    """No operation runs without a token that is valid and has the scope for it."""

    @ANY_OPERATION
    async def test_without_a_valid_token(
        self, store: Store, clock: Clock, operation: Operation
    ) -> None:
        """None, none of ours, a wrong secret, an expired one, a revoked one, a revoked secret."""
        valid = issue(store, "admin")
        expired = issue(store, "admin", ttl_ms=1000)
        revoked = issue(store, "admin")
        store.run(store.tokens.revoke(revoked.id, None))
        rotated = issue(store, "admin")
        store.run(store.tokens.rotate(rotated.id, new_secret(rotated.id).hash))
        store.run(store.tokens.revoke(rotated.id, 1))
        clock.ms += 1000
        before = seen(store)
        async with served(store, now=clock) as app:
            for headers in (
                HOST,
                bearer("nonsense"),
                bearer(new_token()),
                bearer(new_secret(valid.id)),
                bearer(expired),
                bearer(revoked),
                bearer(rotated),
                {**HOST, "authorization": valid.text},
                {**HOST, "authorization": "Basic ????"},
            ):
                answer = await run(app, operation.name, headers, arguments_of(operation))
                assert answer.status == 401
                assert answer.json["code"] == "not_authenticated"
                assert "headrace token create" in answer.json["detail"]
                assert answer.headers["www-authenticate"].startswith("Bearer ")
                for text in (valid, expired, revoked, rotated):
                    assert text.secret.encode() not in answer.body
        assert seen(store) == before

    @ANY_OPERATION
    async def test_with_a_token_that_is_too_narrow(
        self, store: Store, operation: Operation
    ) -> None:
        """The answer names the scope that is missing."""
        narrow = issue(store, "read:sink/other")
        async with served(store) as app:
            for is_full in (False, True):
                arguments = arguments_of(operation, is_full=is_full)
                answer = await run(app, operation.name, bearer(narrow), arguments)
                assert answer.status == 403
                assert answer.json["code"] == "not_allowed"
                assert answer.json["details"]["scope"] in answer.json["detail"]

    @ANY_OPERATION
    async def test_with_the_scope_that_the_refusal_named(
        self, store: Store, operation: Operation
    ) -> None:
        """Step by step, the caller learns what it needs, and then passes."""
        arguments = arguments_of(operation)
        scopes = ["read:sink/other"]
        async with served(store) as app:
            for _ in range(10):
                answer = await run(app, operation.name, bearer(issue(store, *scopes)), arguments)
                if answer.status != 403:
                    break
                scopes.append(answer.json["details"]["scope"])
        assert answer.status not in (401, 403)


class TestEveryRoute:
    async def test_no_route_is_open_without_being_declared_so(self, store: Store) -> None:
        async with served(store) as app:
            assert {(route.path, route.is_open) for route in app._routes} == {
                (f"{OPERATIONS_PATH}{{operation}}", False),
                (f"{NOTIFICATIONS_PATH}{{word}}", False),
                (NODE_PATH, False),
                *((BASE + endpoint.path, False) for endpoint in ENDPOINTS),
                *((path, False) for path in DOCUMENT_PATHS),
                *((path, False) for route in ROUTES for _, path in route.ways),
            }
            for method, path in (
                ("POST", f"{OPERATIONS_PATH}topics.list"),
                ("GET", f"{NOTIFICATIONS_PATH}t"),
                ("GET", NODE_PATH),
                *(("GET", path) for path in DOCUMENT_PATHS),
            ):
                for headers in (HOST, bearer(new_token()), bearer("x")):
                    answer = await ask(app, method, path, headers=headers)
                    assert (path, answer.status) == (path, 401)

    async def test_no_endpoint_without_a_valid_token(self, store: Store, clock: Clock) -> None:
        """None, none of ours, a wrong secret, an expired one, a revoked one."""
        valid, revoked = issue(store, "admin"), issue(store, "admin")
        expired = issue(store, "admin", ttl_ms=1000)
        store.run(store.tokens.revoke(revoked.id, None))
        clock.ms += 1000
        before = seen(store)
        wrong = ("nonsense", new_token(), new_secret(valid.id), expired, revoked)
        async with served(store, now=clock) as app:
            for endpoint in ENDPOINTS:
                for headers in (HOST, *map(bearer, wrong)):
                    answer = await request(app, endpoint, headers)
                    assert (endpoint.name, answer.status) == (endpoint.name, 401)
                    assert answer.json["code"] == "not_authenticated"
                    assert "headrace token create" in answer.json["detail"]
        assert seen(store) == before

    async def test_no_endpoint_with_a_token_that_is_too_narrow(self, store: Store) -> None:
        """The answer names the scope that is missing; with that, step by step, the caller passes."""
        async with served(store) as app:
            # Streams and the socket do not end: test_streams and test_socket have theirs.
            for endpoint in (one for one in ENDPOINTS if one.event is None):
                scopes = ["read:sink/other"]
                while len(scopes) < 10:
                    before = written(store)
                    answer = await request(app, endpoint, bearer(issue(store, *scopes)))
                    if answer.status != 403:
                        break
                    assert answer.json["code"] == "not_allowed"
                    assert answer.json["details"]["scope"] in answer.json["detail"]
                    assert written(store) == before, endpoint.name
                    scopes.append(answer.json["details"]["scope"])
                assert len(scopes) > 1, endpoint.name
                assert answer.status not in (401, 403, 500), (endpoint.name, answer.body)

    async def test_every_token_may_ask_what_the_node_is(self, store: Store) -> None:
        async with served(store) as app:
            answer = await ask(app, "GET", NODE_PATH, headers=bearer(issue(store, "read:sink/x")))
            assert answer.status == 200

    async def test_notifications_need_a_scope(self, store: Store) -> None:
        async with served(store) as app:
            path = f"{NOTIFICATIONS_PATH}queue%2Fmail"
            answer = await ask(app, "GET", path, headers=bearer(issue(store, "push:queue/other")))
            assert answer.status == 403
            call = Call(app, "GET", path, headers=bearer(issue(store, "push:queue/mail")))
            await call.answer.until(b".")
            call.left.set()
            await call.task


class TestTokens:
    async def test_a_token_may_be_the_password_of_basic(self, store: Store) -> None:
        """Or the user, where there is no password: ``http://TOKEN@host``."""
        text = issue(store, "admin").text
        async with served(store) as app:
            for login in (f":{text}", f"me:{text}", text, f"{text}:"):
                encoded = base64.b64encode(login.encode()).decode()
                headers = {**HOST, "authorization": f"Basic {encoded}"}
                assert (await ask(app, "GET", NODE_PATH, headers=headers)).status == 200

    async def test_both_secrets_of_a_rotation_are_valid(self, store: Store) -> None:
        first = issue(store, "admin")
        second = new_secret(first.id)
        store.run(store.tokens.rotate(first.id, second.hash))
        async with served(store) as app:
            for text in (first, second):
                assert (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 200

    async def test_a_revocation_counts_immediately(self, store: Store) -> None:
        """The store notifies the node. No time passes for the cache."""
        text = issue(store, "admin")
        async with served(store) as app:
            assert (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 200
            await asyncio.to_thread(store.run, store.tokens.revoke(text.id, None))
            async with asyncio.timeout(20):
                while (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 200:
                    await asyncio.sleep(0.01)

    async def test_a_lost_notification_delays_a_revocation_by_seconds(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 0.0
        monkeypatch.setattr(token_cache.TokenCache, "_watch", lambda self: None)
        text = issue(store, "admin")
        async with served(store) as app:
            guard = app.guard
            assert isinstance(guard, TokenGuard)
            monkeypatch.setattr(guard.tokens, "_clock", lambda: now)
            assert (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 200
            store.run(store.tokens.revoke(text.id, None))
            now = token_cache.CACHE_SECONDS - 0.001
            assert (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 200
            now = token_cache.CACHE_SECONDS
            assert (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 401

    async def test_a_known_token_is_not_looked_up_again(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor by many requests at the same time."""
        looked_up: list[str] = []
        info = store.tokens.info
        monkeypatch.setattr(token_cache.TokenCache, "_watch", lambda self: None)
        monkeypatch.setattr(store.tokens, "info", lambda id: looked_up.append(id) or info(id))
        text = issue(store, "admin")
        async with served(store) as app:
            calls = [ask(app, "GET", NODE_PATH, headers=bearer(text)) for _ in range(20)]
            assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
            await ask(app, "GET", NODE_PATH, headers=bearer(text))
        assert looked_up == [text.id]

    async def test_a_lookup_that_a_revocation_overtook_is_repeated(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else the node would remember a token that it read just before its revocation."""
        text = issue(store, "admin")
        monkeypatch.setattr(token_cache.TokenCache, "_watch", lambda self: None)
        async with served(store) as app:
            guard = app.guard
            assert isinstance(guard, TokenGuard)
            arun, count = store.arun, 0

            async def overtaken(op: Any) -> Any:
                nonlocal count
                result = await arun(op)
                count += 1
                if count == 1:
                    store.run(store.tokens.revoke(text.id, None))
                    guard.tokens.forget()
                return result

            monkeypatch.setattr(store, "arun", overtaken)
            assert (await ask(app, "GET", NODE_PATH, headers=bearer(text))).status == 401
            assert count == 2

    async def test_the_last_use_is_noted(self, store: Store, clock: Clock) -> None:
        text = issue(store, "admin")
        async with served(store, now=clock) as app:
            await ask(app, "GET", NODE_PATH, headers=bearer(text))
        assert store.run(store.tokens.info(text.id)).last_used_at == clock.ms

    async def test_the_threads_end_with_the_node(self, store: Store) -> None:
        async with served(store) as app:
            await ask(app, "GET", NODE_PATH, headers=bearer(issue(store, "admin")))
        assert "headrace-tokens" not in {thread.name for thread in threading.enumerate()}


class TestLocal:
    async def test_the_token_of_the_nodes_file_allows_everything(self, store: Store) -> None:
        async with served(store, local_token="secret") as app:
            answer = await run(app, "tokens.list", bearer("secret"), {})
            assert answer.status == 200
            assert (await run(app, "tokens.list", bearer("secreT"), {})).status == 401

    async def test_an_open_node_needs_no_token(self, store: Store) -> None:
        """But it refuses pages of other sites."""
        async with served(store, is_open=True) as app:
            assert (await run(app, "tokens.list", HOST, {})).status == 200
            foreign = {**HOST, "origin": "http://evil.example"}
            assert (await run(app, "tokens.list", foreign, {})).status == 403
            assert (await run(app, "tokens.list", {"host": "evil.example"}, {})).status == 421

    async def test_a_unix_socket_is_local(self, store: Store) -> None:
        """Whatever its Host. A sender without an address is not enough."""
        async with served(store) as app:
            headers = {"host": "evil.example"}
            unix = Call(app, "GET", NODE_PATH, headers=headers, server=("/run/node.sock", None))
            await unix.task
            assert unix.answer.status == 200
            reset = Call(
                app, "GET", NODE_PATH, headers=HOST, server=("127.0.0.1", 7070), client=None
            )
            await reset.task
            assert reset.answer.status == 401


class TestPages:
    @pytest.mark.parametrize(
        ("host", "status"),
        [
            ("localhost", 200),
            ("LOCALHOST:7070", 200),
            ("127.0.0.1:7070", 200),
            ("10.1.2.3", 200),
            ("[::1]:7070", 200),
            ("[::1]", 200),
            ("node.example:7070", 200),
            ("evil.example", 421),
            ("evil.example:7070", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("", 421),
            ("[evil.example]", 421),
        ],
    )
    async def test_the_host_must_be_the_nodes(self, store: Store, host: str, status: int) -> None:
        """A name that a foreign site lets point to this machine is refused."""
        text = issue(store, "admin")
        async with served(store, hosts=["Node.example"]) as app:
            headers = {**bearer(text), "host": host}
            answer = await ask(app, "GET", NODE_PATH, headers=headers)
            assert answer.status == status
            assert "access-control-allow-origin" not in answer.headers

    @pytest.mark.parametrize(
        ("origin", "status"),
        [
            ("http://localhost:7070", 200),
            ("https://localhost:7070", 200),
            ("http://localhost", 403),
            ("http://localhost:7071", 403),
            ("http://evil.example", 403),
            ("null", 403),
            ("file://", 403),
            ("", 403),
        ],
    )
    async def test_the_origin_must_be_the_nodes(
        self, store: Store, origin: str, status: int
    ) -> None:
        text = issue(store, "admin")
        async with served(store) as app:
            headers = {**bearer(text), "origin": origin}
            answer = await ask(app, "GET", NODE_PATH, headers=headers)
            assert answer.status == status
            assert "access-control-allow-origin" not in answer.headers

    async def test_long_headers_are_refused(self, store: Store) -> None:
        text = issue(store, "admin")
        async with served(store) as app:
            headers = {**bearer(text), "x-long": "x" * MAX_HEADER_BYTES}
            assert (await ask(app, "GET", NODE_PATH, headers=headers)).status == 431


class TestAudit:
    async def test_calls_that_manage_are_recorded(self, store: Store) -> None:
        """Those that were refused, too. Arguments and secrets are not."""
        text = issue(store, "manage:queue/*", "push:queue/*")
        push = {"calls": [{"queue": "mail", "documents": [{"payload": "1"}]}]}
        async with served(store) as app:
            await run(app, "queues.push", bearer(text), push)
            await run(app, "queues.drop", bearer(text), {"name": "mail", "keep_data": False})
            await run(app, "tokens.revoke", bearer(text), {"id": text.id, "secret": None})
            await run(app, "queues.info", bearer(text), {"name": "mail"})
        records = audit(store)
        assert [
            (r["token"], r["name"], r["operation"], r["scopes"], r["is_allowed"]) for r in records
        ] == [
            (text.id, "test", "queues.drop", ["manage:queue/mail"], True),
            (text.id, "test", "tokens.revoke", ["admin"], False),
        ]
        assert all(record["time"].endswith("+00:00") for record in records)
        assert text.secret not in str(records)
        assert text.hash not in str(records)
        info = store.run(store.topics.info(AUDIT_TOPIC))
        assert info.max_age == KEPT_DAYS * 24 * 3600

    async def test_records_wait_for_a_store_that_is_away(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And a chosen retention stays."""
        part = CommitPart(AUDIT_TOPIC, 1, "{}")
        store.run(store.topics.commit([CommitCall(parts=(part,))]))
        store.run(store.admin.set_retention(AUDIT_TOPIC, None, 5000))
        monkeypatch.setattr(audit_log, "RETRY_SECONDS", 0.0)
        commit, failures = store.topics.commit, iter([True, True])

        def away(calls: Any) -> Any:
            if next(failures, False):
                raise StoreUnavailable("away")
            return commit(calls)

        text = issue(store, "admin")
        async with served(store) as app:
            monkeypatch.setattr(store.topics, "commit", away)
            await run(app, "queues.pause", bearer(text), {"name": "mail", "by": None})
            guard = app.guard
            assert isinstance(guard, TokenGuard)
            async with asyncio.timeout(20):
                await guard.audit.flush()
        assert [record.get("operation") for record in audit(store)] == [None, "queues.pause"]
        assert store.run(store.topics.info(AUDIT_TOPIC)).max_age == 5

    async def test_nobody_writes_the_audit_topic(self, store: Store) -> None:
        """Nor anything else of Headrace's own, with any scope; reading needs its own scope."""
        admin, reader = issue(store, "admin"), issue(store, "read:topic/*")
        call = {"parts": [{"topic": AUDIT_TOPIC, "count": 1, "body": "{}"}]}
        spec = {"name": "_p", "topic": "t", "offset": ">"}
        async with served(store) as app:
            for name, arguments in (
                ("topics.commit", {"calls": [call]}),
                ("admin.set_retention", {"topic": AUDIT_TOPIC, "min_age_ms": 1, "max_age_ms": 1}),
                ("queues.push", {"calls": [{"queue": "_q", "documents": []}]}),
                ("queues.create", {"name": "_q", "changes": {}, "must_be_new": False}),
                ("queues.drop", {"name": "_q", "keep_data": False}),
                ("procs.create", {"spec": spec, "changes": {}}),
                ("procs.delete", {"proc": "_p"}),
            ):
                answer = await run(app, name, bearer(admin), arguments)
                assert (name, answer.status, answer.json["code"]) == (name, 400, "reserved_name")
            for name, arguments in (
                ("queues.cancel_item", {"queue": "_q", "item": 1}),
                ("queues.claim", {"request": {"queue": "_q", "token": "t", "count": 1}}),
                ("topics.info", {"topic": AUDIT_TOPIC}),
            ):
                answer = await run(app, name, bearer(admin), arguments)
                assert answer.json.get("code") != "reserved_name"
            answer = await run(app, "topics.info", bearer(reader), {"topic": AUDIT_TOPIC})
            assert answer.status == 403


class TestLimits:
    async def test_a_call_that_asks_for_too_much_is_refused(self, store: Store) -> None:
        text = issue(store, "admin")
        async with served(store) as app:
            arguments = {"prefix": "", "after": "", "limit": 10**6}
            answer = await run(app, "topics.list", bearer(text), arguments)
            assert (answer.status, answer.json["code"]) == (400, "invalid_option")

    async def test_a_token_has_so_many_streams(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A stream that ends makes way for another one, and other tokens are not affected."""
        monkeypatch.setattr(slots, "MAX_STREAMS_PER_TOKEN", 2)
        text, other = issue(store, "admin"), issue(store, "admin")
        path = f"{NOTIFICATIONS_PATH}queue%2Fmail"
        async with served(store) as app:
            calls = [Call(app, "GET", path, headers=bearer(t)) for t in (text, text, other)]
            for call in calls:
                await call.answer.until(b".")
            answer = await ask(app, "GET", path, headers=bearer(text))
            assert (answer.status, answer.headers["retry-after"]) == (429, "1")
            calls[0].left.set()
            await calls[0].task
            calls[0] = Call(app, "GET", path, headers=bearer(text))
            await calls[0].answer.until(b".")
            for call in calls:
                call.left.set()
                await call.task
            await app.aclose()
