"""The WebSocket of a node: requests, topics, queues, and how a session ends."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from asgi import ask
from stream_clients import HOST, Socket, bearer, commit, issue, serving, with_tokens

from headrace._async.headrace import AsyncHeadrace
from headrace.client._async.queue import AsyncQueue
from headrace.contract.store import Store
from headrace.errors import StoreUnavailable
from headrace.node import capacity
from headrace.node.streams import keeper, slots
from headrace.node.web_socket import queue_subscription


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


async def states(store: Store, queue: str = "mail") -> list[tuple[int, str, int]]:
    """The id, state and attempts of each item."""
    hr = AsyncHeadrace(store, max_body=1000)
    found = []
    for state in ("pending", "active", "completed"):
        items = await hr.queue(queue).items(state)
        found += [(item.id, str(item.state), item.attempts) for item in items]
    return sorted(found)


async def push(socket: Socket, count: int, **options: Any) -> list[int]:
    items = [{"payload": {"n": n}, **options} for n in range(count)]
    socket.send(
        msgspec.json.encode({"id": "p", "type": "push", "queue": "mail", "items": items}).decode()
    )
    answer = await socket.next()
    assert answer["type"] == "pushed", answer
    return [item["id"] for item in answer["items"]]


class TestRequests:
    async def test_requests_are_answered_by_their_ids(self, url: str) -> None:
        async with serving(url) as app:
            socket = Socket(app)
            answer = await socket.ask(id="a", type="push", queue="mail", payload={"n": 1})
            assert answer == {
                "id": "a",
                "type": "pushed",
                "items": [{"id": 1, "outcome": "pushed", "reason": None}],
            }
            records = [{"topic": "orders", "body": {"n": 1}, "headers": {"a": "b"}}]
            answer = await socket.ask(id=7, type="commit", records=records)
            assert (answer["type"], len(answer["ids"])) == ("committed", 1)
            await socket.leave()

    async def test_a_key_makes_a_request_repeatable(self, url: str) -> None:
        async with serving(url) as app:
            socket = Socket(app)
            records = [{"topic": "orders", "body": {"n": 1}}]
            first = await socket.ask(id=1, type="commit", records=records, key="k")
            again = await socket.ask(id=1, type="commit", records=records, key="k")
            assert again == first
            other = [{"topic": "orders", "body": {"n": 2}}]
            refused = await socket.ask(id=2, type="commit", records=other, key="k")
            assert refused["problem"]["code"] == "key_reused"
            refused = await socket.ask(id=3, type="commit", records=other, key="")
            assert refused["problem"]["code"] == "invalid_option"
            await socket.leave()

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            ({"type": "dream"}, "invalid_input"),
            ({"type": "push", "queue": "mail", "payload": 1, "colour": "red"}, "invalid_input"),
            ({"type": "push", "queue": "mail", "payload": 1, "wait": 5}, "invalid_option"),
            ({"type": "push", "queue": "mail"}, "invalid_option"),
            ({"type": "push", "queue": "", "payload": 1}, "invalid_queue_format"),
            ({"type": "push", "queue": "_own", "payload": 1}, "reserved_name"),
            ({"type": "commit", "records": [{"topic": "orders"}]}, "invalid_input"),
            ({"type": "subscribe", "credit": 1}, "invalid_option"),
            ({"type": "subscribe", "topic": "t", "queue": "q", "credit": 1}, "invalid_option"),
            ({"type": "subscribe", "topic": "t", "credit": 0}, "invalid_option"),
            ({"type": "subscribe", "topic": "t", "credit": 10**6}, "invalid_option"),
            ({"type": "subscribe", "topic": "t", "credit": 1, "lease": 5}, "invalid_option"),
            ({"type": "subscribe", "topic": "", "credit": 1}, "invalid_topic_format"),
            ({"type": "subscribe", "queue": "q", "credit": 1, "start": "$"}, "invalid_option"),
            ({"type": "subscribe", "queue": "q", "credit": 1, "lease": 0}, "invalid_option"),
            (
                {"type": "subscribe", "topic": "t", "credit": 1, "start": "x"},
                "invalid_range_offset",
            ),
            ({"type": "credit", "subscription": 9, "credit": 1}, "unknown_subscription"),
            ({"type": "ack", "subscription": 9, "items": [1]}, "unknown_subscription"),
            ({"type": "unsubscribe", "subscription": 9}, "unknown_subscription"),
        ],
    )
    async def test_what_is_wrong_is_refused_and_the_socket_goes_on(
        self, memory_url: str, message: dict[str, Any], code: str
    ) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)
            answer = await socket.ask(id=1, **message)
            assert (answer["type"], answer["problem"]["code"]) == ("problem", code)
            assert answer["problem"]["detail"]
            answer = await socket.ask(id=1, type="push", queue="mail", payload=1)
            assert answer["type"] == "pushed"
            await socket.leave()

    @pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", b"\xff", '{"type":"ack"}'])
    async def test_a_message_without_an_id_is_refused_without_one(
        self, memory_url: str, text: str | bytes
    ) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)
            socket.send(text)
            answer = await socket.next()
            assert (answer["id"], answer["problem"]["status"]) == (None, 400)
            await socket.leave()

    async def test_a_node_that_is_full_still_settles(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)
            [item] = await push(socket, 1)
            await socket.ask(id=1, type="subscribe", queue="mail", credit=1)
            await socket.next()
            monkeypatch.setattr(capacity, "MAX_RUNNING", 1)
            monkeypatch.setattr(capacity, "KEPT_FREE", 1)
            refused = await socket.ask(id=2, type="push", queue="mail", payload=1)
            assert refused["problem"]["code"] == "store_unavailable"
            settled = await socket.ask(id=3, type="ack", subscription=1, items=[item])
            assert settled["settled"][0]["state"] == "completed"
            await socket.leave()

    async def test_an_unexpected_error_stays_in_the_log(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)
            await socket.ask(id=0, type="push", queue="mail", payload=1)

            async def fail(*_: Any) -> Any:
                raise RuntimeError("the password is 1234")

            monkeypatch.setattr(app.groups, "send", fail)
            answer = await socket.ask(id=1, type="push", queue="mail", payload=1)
            assert answer["problem"]["code"] == "internal_error"
            assert "1234" not in str(answer)
            assert "1234" in caplog.text
            await socket.leave()


class TestTopics:
    async def test_records_come_while_there_is_credit(self, url: str) -> None:
        async with serving(url) as app:
            ids = await commit(app, *({"n": n} for n in range(5)))
            socket = Socket(app)
            answer = await socket.ask(id="s", type="subscribe", topic="orders", credit=3)
            assert answer == {"id": "s", "type": "subscribed"}
            message = await socket.next()
            assert (message["type"], message["subscription"]) == ("records", "s")
            assert message["records"][2] == {"id": ids[2], "body": {"n": 2}, "headers": {}}
            assert len(message["records"]) == 3
            # The next message is the answer: nothing more was sent.
            answer = await socket.ask(id=1, type="credit", subscription="s", credit=4)
            assert answer == {"id": 1, "type": "credited", "credit": 4}
            assert [r["id"] for r in (await socket.next())["records"]] == ids[3:]
            ids = await commit(app, *({"n": n} for n in range(5, 9)))
            assert [r["id"] for r in (await socket.next())["records"]] == ids[:2]
            assert socket.received.empty()
            await socket.leave()

    async def test_a_subscription_begins_where_it_is_asked_to(self, url: str) -> None:
        async with serving(url) as app:
            ids = await commit(app, *({"n": n} for n in range(4)))
            socket = Socket(app)
            for place, expected in (
                ({"start": ":2"}, ids[2:]),
                ({"start": ids[1]}, ids[1:]),
                ({"last_event_id": ids[1]}, ids[2:]),
            ):
                request = {"type": "subscribe", "topic": "orders", "credit": 10, **place}
                await socket.ask(id=1, **request)
                assert [r["id"] for r in (await socket.next())["records"]] == expected
                answer = await socket.ask(id=2, type="unsubscribe", subscription=1)
                assert answer == {"id": 2, "type": "unsubscribed"}
            await socket.ask(id=3, type="subscribe", topic="orders", credit=1, start="$")
            [new] = await commit(app, {"n": 4})
            message = await socket.next()
            assert (message["subscription"], message["records"][0]["id"]) == (3, new)
            await socket.leave()

    async def test_a_name_in_use_is_refused(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)
            request = {"type": "subscribe", "topic": "orders", "credit": 10}
            await socket.ask(id=1, **request)
            assert (await socket.ask(id=1, **request))["problem"]["code"] == "invalid_option"
            answer = await socket.ask(id=2, type="ack", subscription=1, items=[1])
            assert "topic" in answer["problem"]["detail"]
            await socket.leave()

    async def test_a_socket_that_does_not_read_holds_nobody_up(self, url: str) -> None:
        async with serving(url) as app:
            slow, quick = Socket(app), Socket(app)
            for socket in (slow, quick):
                await socket.ask(id=1, type="subscribe", topic="orders", credit=1000)
            slow.reads.clear()
            ids = []
            for n in range(50):
                ids += await commit(app, {"n": n})
            received: list[str] = []
            while len(received) < 50:
                received += [record["id"] for record in (await quick.next())["records"]]
            assert received == ids
            slow.reads.set()
            received = []
            while len(received) < 50:
                received += [record["id"] for record in (await slow.next())["records"]]
            assert received == ids
            await slow.leave()
            await quick.leave()


class TestQueues:
    async def test_items_in_flight_are_limited_by_credit(self, url: str) -> None:
        async with serving(url) as app:
            socket = Socket(app)
            ids = await push(socket, 4)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=2)
            message = await socket.next()
            assert (message["type"], message["subscription"]) == ("items", "w")
            assert [item["id"] for item in message["items"]] == ids[:2]
            assert message["items"][0]["payload"] == {"n": 0}
            assert "token" not in message["items"][0]
            answer = await socket.ask(id=1, type="ack", subscription="w", items=[ids[0]])
            assert answer["settled"] == [{"item": ids[0], "state": "completed", "due_at": None}]
            assert [item["id"] for item in (await socket.next())["items"]] == [ids[2]]
            answer = await socket.ask(id=2, type="credit", subscription="w", credit=1)
            assert answer["credit"] == 3
            assert [item["id"] for item in (await socket.next())["items"]] == [ids[3]]
            assert socket.received.empty()
            await socket.leave()

    async def test_outcomes_are_written_with_their_steps(self, url: str) -> None:
        async with serving(url) as app:
            socket = Socket(app)
            ids = await push(socket, 3)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=3)
            await socket.next()
            outcomes = [
                {
                    "item": ids[0],
                    "kind": "complete",
                    "commit": [{"topic": "orders", "body": {"sent": 1}}],
                    "push": [{"queue": "next", "payload": {"n": 1}}],
                },
                {"item": ids[1], "kind": "reject", "delay": 60, "error": "busy"},
                {"item": 999, "kind": "complete"},
            ]
            answer = await socket.ask(id=1, type="settle", subscription="w", outcomes=outcomes)
            assert [one["state"] for one in answer["settled"]] == ["completed", "planned", "lost"]
            assert answer["settled"][1]["due_at"] is not None
            listed = await ask(app, "GET", "/api/v1/topics/orders/records", headers=HOST)
            assert listed.json["records"][0]["body"] == {"sent": 1}
            wrong = [{"item": ids[2], "kind": "complete", "delay": 5}]
            answer = await socket.ask(id=2, type="settle", subscription="w", outcomes=wrong)
            assert answer["problem"]["code"] == "invalid_option"
            answer = await socket.ask(id=3, type="ack", subscription="w", items=[ids[2]])
            assert answer["settled"][0]["state"] == "completed"
            await socket.leave()

    async def test_leases_are_extended_while_the_socket_lives(self, url: str) -> None:
        async with serving(url) as app:
            socket = Socket(app)
            [item] = await push(socket, 1)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=2, lease=0.3)
            await socket.next()
            await asyncio.sleep(1)
            answer = await socket.ask(id=1, type="ack", subscription="w", items=[item])
            assert answer["settled"][0]["state"] == "completed"
            await socket.leave()

    async def test_an_item_whose_claim_was_lost_is_told(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its place is free again."""
        async with serving(url) as app:
            socket = Socket(app)
            ids = await push(socket, 2)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=1, lease=0.3)
            await socket.next()

            async def extend(*_: Any) -> list[int]:
                monkeypatch.undo()
                return []

            monkeypatch.setattr(AsyncQueue, "extend", extend)
            message = await socket.next()
            assert message == {"type": "lost", "subscription": "w", "items": [ids[0]]}
            assert [item["id"] for item in (await socket.next())["items"]] == [ids[1]]
            await socket.leave()

    @pytest.mark.parametrize("way", ["leave", "stop", "unsubscribe"])
    async def test_items_come_back_uncounted(self, url: str, way: str) -> None:
        async with serving(url) as app:
            socket = Socket(app)
            ids = await push(socket, 3)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=2)
            await socket.next()
            assert [one[1:] for one in await states(app.store)] == [
                ("active", 1),
                ("active", 1),
                ("pending", 0),
            ]
            if way == "leave":
                await socket.leave()
            elif way == "stop":
                app.closing.begin()
                await socket.end()
                assert socket.closed == (1012, "the node is stopping")
            else:
                await socket.ask(id=1, type="unsubscribe", subscription="w")
            assert await states(app.store) == [(id, "pending", 0) for id in ids]
            if way == "unsubscribe":
                await socket.leave()

    async def test_a_claim_that_waits_gets_what_is_pushed(self, url: str) -> None:
        async with serving(url) as app:
            socket, other = Socket(app), Socket(app)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=1)
            await asyncio.sleep(0.05)
            started = time.monotonic()
            [item] = await push(other, 1)
            assert [one["id"] for one in (await socket.next())["items"]] == [item]
            assert time.monotonic() - started < 5
            await other.leave()
            await socket.leave()
            assert await states(app.store) == [(item, "pending", 0)]

    async def test_a_store_that_is_away_delays_claims(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(queue_subscription, "RETRY_SECONDS", 0.02)
        async with serving(url) as app:
            socket = Socket(app)
            await push(socket, 1)
            failures = iter([StoreUnavailable("away")] * 3)
            claim = app.store.queues.claim

            def fail(request: Any) -> Any:
                for error in failures:
                    raise error
                return claim(request)

            monkeypatch.setattr(app.store.queues, "claim", fail)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=1)
            assert (await socket.next())["type"] == "items"
            await socket.leave()

    async def test_a_subscription_that_cannot_go_on_says_why(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)

            def fail(request: Any) -> Any:
                raise RuntimeError("the password is 1234")

            monkeypatch.setattr(app.store.queues, "claim", fail)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=1)
            message = await socket.next()
            assert (message["type"], message["subscription"]) == ("ended", "w")
            assert message["problem"]["code"] == "internal_error"
            answer = await socket.ask(id=1, type="unsubscribe", subscription="w")
            assert answer["problem"]["code"] == "unknown_subscription"
            await socket.leave()


class TestAccess:
    async def test_a_socket_is_refused_like_any_request(self, memory_url: str) -> None:
        async with serving(memory_url, guard=with_tokens(local_token="x")) as app:
            good = bearer(issue(app.store, "admin"))
            for headers, status, code in (
                (HOST, 401, "not_authenticated"),
                ({**HOST, "authorization": "Bearer nonsense"}, 401, "not_authenticated"),
                ({**good, "origin": "http://elsewhere.example"}, 403, "foreign_origin"),
                ({**good, "host": "elsewhere.example"}, 421, "misdirected_request"),
                ({**good, "x": "y" * 40_000}, 431, "headers_too_large"),
            ):
                socket = Socket(app, headers=headers)
                await socket.end()
                assert socket.answer["status"] == status
                assert msgspec.json.decode(socket.refusal)["code"] == code
            socket = Socket(app, "/api/v1/sockets", headers=good)
            await socket.end()
            assert socket.answer["status"] == 404
            socket = Socket(app, headers={**good, "origin": "http://localhost:7070"})
            assert (await socket.ask(id=1, type="push", queue="mail", payload=1))["items"]
            await socket.leave()

    async def test_a_plain_request_is_told_that_this_is_a_socket(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            answer = await ask(app, "GET", "/api/v1/socket", headers=HOST)
            assert (answer.status, answer.json["code"]) == (426, "upgrade_required")
            assert answer.headers["upgrade"] == "websocket"

    async def test_every_request_needs_its_scope(self, memory_url: str) -> None:
        async with serving(memory_url, guard=with_tokens()) as app:
            socket = Socket(app, headers=bearer(issue(app.store, "read:sink/other")))
            for request, scope in (
                ({"type": "subscribe", "topic": "orders", "credit": 1}, "read:topic/orders"),
                (
                    {"type": "subscribe", "topic": "orders", "credit": 1, "start": "$"},
                    "read:topic/orders",
                ),
                ({"type": "subscribe", "queue": "mail", "credit": 1}, "work:queue/mail"),
                ({"type": "push", "queue": "mail", "payload": 1}, "push:queue/mail"),
                (
                    {"type": "commit", "records": [{"topic": "orders", "body": {}}]},
                    "commit:topic/orders",
                ),
            ):
                answer = await socket.ask(id=1, **request)
                assert answer["problem"]["status"] == 403, request
                assert answer["problem"]["details"]["scope"] == scope
            await socket.leave()

    async def test_a_revoked_token_ends_its_sockets(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "TICK_SECONDS", 0.02)
        async with serving(memory_url, guard=with_tokens()) as app:
            text = issue(app.store, "admin")
            socket = Socket(app, headers=bearer(text))
            [item] = await push(socket, 1)
            await socket.ask(id="w", type="subscribe", queue="mail", credit=1)
            await socket.next()
            await asyncio.to_thread(app.store.run, app.store.tokens.revoke(text.id, None))
            message = await socket.next()
            assert (message["id"], message["problem"]["code"]) == (None, "not_authenticated")
            await socket.end()
            assert socket.closed is not None
            assert socket.closed[0] == 1008
            assert await states(app.store) == [(item, "pending", 0)]

    async def test_subscriptions_count_as_streams(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slots, "MAX_STREAMS_PER_TOKEN", 3)
        async with serving(memory_url, guard=with_tokens()) as app:
            headers = bearer(issue(app.store, "admin"))
            socket = Socket(app, headers=headers)
            request = {"type": "subscribe", "topic": "orders", "credit": 1}
            for id in (1, 2):
                assert (await socket.ask(id=id, **request))["type"] == "subscribed"
            assert (await socket.ask(id=3, **request))["problem"]["code"] == "too_many_streams"
            other = Socket(app, headers=headers)
            await other.end()
            assert other.answer["status"] == 429
            await socket.ask(id=4, type="unsubscribe", subscription=1)
            assert (await socket.ask(id=3, **request))["type"] == "subscribed"
            await socket.leave()
            again = Socket(app, headers=headers)
            assert (await again.ask(id=3, **request))["type"] == "subscribed"
            await again.leave()


class TestEnds:
    async def test_what_is_under_way_is_answered_when_the_node_stops(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with serving(memory_url) as app:
            socket = Socket(app)
            await socket.ask(id=0, type="push", queue="mail", payload=1)
            has_begun, may_end = asyncio.Event(), asyncio.Event()
            send = app.groups.send  # type: ignore[union-attr]  # it groups

            async def wait(*args: Any) -> Any:
                has_begun.set()
                await may_end.wait()
                return await send(*args)

            monkeypatch.setattr(app.groups, "send", wait)
            message = {"id": 1, "type": "push", "queue": "mail", "payload": 2}
            socket.send(msgspec.json.encode(message).decode())
            await has_begun.wait()
            app.closing.begin()
            await asyncio.sleep(0.05)
            may_end.set()
            assert (await socket.next())["type"] == "pushed"
            await socket.end()
            assert socket.closed == (1012, "the node is stopping")

    async def test_a_socket_that_does_not_read_does_not_keep_the_node(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headrace.node.web_socket.session.SEND_SECONDS", 0.05)
        async with serving(memory_url) as app:
            socket, busy = Socket(app), Socket(app)
            for one in (socket, busy):
                await one.ask(id="s", type="subscribe", topic="orders", credit=100)
                one.reads.clear()
            message = {"id": 1, "type": "push", "queue": "mail", "payload": 2}
            busy.send(msgspec.json.encode(message).decode())
            await commit(app, {"n": 1})
            await asyncio.sleep(0.05)
            app.closing.begin()
            await socket.end()
            await busy.end()

    async def test_a_stopping_node_opens_no_socket(self, memory_url: str) -> None:
        async with serving(memory_url) as app:
            app.closing.begin()
            socket = Socket(app)
            await socket.end()
            assert socket.answer["status"] == 503
