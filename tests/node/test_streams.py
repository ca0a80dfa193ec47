"""Streams of records: where they begin, what they send, and how they end."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from asgi import Answer, ask
from stream_clients import (
    HOST,
    STREAM,
    bearer,
    commit,
    commit_to,
    issue,
    listen,
    serving,
    with_tokens,
)

from headrace.contract.store import Store
from headrace.contract.values import StoredPage
from headrace.errors import MalformedRecord, StoreUnavailable
from headrace.model.topics.records import StoredBatch
from headrace.node import token_cache
from headrace.node.streams import events as event_streams
from headrace.node.streams import head, keeper, reader, slots
from headrace.node.streams.records import encoded_records
from headrace.stores import open_store


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


async def refused(
    app: Any, query: str = "", last_id: str | None = None, headers: Any = HOST
) -> Answer:
    more = {} if last_id is None else {"last-event-id": last_id}
    return await ask(app, "GET", STREAM + query, headers={**headers, **more})


class TestRecords:
    async def test_records_come_as_they_are_committed(self, url: str) -> None:
        async with serving(url) as app:
            first = await commit(app, {"n": 1}, ["a\nb", "ü\u2028"])
            events = await listen(app)
            await events.until(2)
            more = await commit(app, {"n": 3}, headers={"from": "shop"})
            await events.until(3)
            assert events.ids == first + more
            assert events.records[1] == {"id": first[1], "body": ["a\nb", "ü\u2028"], "headers": {}}
            assert events.records[2]["headers"] == {"from": "shop"}
            headers = events.call.answer.headers
            assert headers["content-type"] == "text/event-stream"
            assert headers["cache-control"] == "no-store"
            assert headers["x-accel-buffering"] == "no"
            await events.leave()

    async def test_another_process_that_commits_is_noticed(self, sqlite_url: str) -> None:
        """Or another client of the same database, which notifies nobody here."""
        async with serving(sqlite_url) as app:
            events = await listen(app)
            store = open_store(sqlite_url)
            await commit_to(store, {"n": 1})
            await events.until(1)
            await events.leave()
            await store.aclose()
            store.close()

    async def test_streams_of_a_topic_share_one_reader(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with serving(url) as app:
            streams = [await listen(app) for _ in range(50)]
            await commit(app, {"n": 0})
            for events in streams:
                await events.until(1)
            made: list[str] = []
            read_stored = app.store.topics.read_stored

            def count(*args: Any, **named: Any) -> Any:
                made.append("read")
                return read_stored(*args, **named)

            monkeypatch.setattr(app.store.topics, "read_stored", count)
            await commit(app, {"n": 1})
            for events in streams:
                await events.until(2)
                assert [record["body"]["n"] for record in events.records] == [0, 1]
            assert made == ["read"]
            for events in streams:
                await events.leave()

    async def test_a_long_topic_is_sent_in_order(self, url: str) -> None:
        """Pages of the store, then what was kept at the head, then what is new."""
        async with serving(url) as app:
            ids = []
            for n in range(5):
                ids += await commit(app, *({"n": n, "text": "x" * 1000} for _ in range(500)))
            streams = [await listen(app) for _ in range(3)]
            ids += await commit(app, *({"n": n} for n in range(100)))
            for events in streams:
                await events.until(len(ids))
                assert events.ids == ids
            late = await listen(app, f"?start={ids[-200]}")
            await late.until(200)
            assert late.ids == ids[-200:]
            for events in (*streams, late):
                await events.leave()


class TestPlaces:
    async def test_a_stream_begins_where_it_is_asked_to(self, url: str) -> None:
        async with serving(url) as app:
            ids = []
            for n in range(4):
                ids += await commit(app, {"n": n})
                await asyncio.sleep(0.002)
            ms = [id.partition("-")[0] for id in ids]
            added: list[str] = []
            for query, last_id, expected in (
                ("", None, ids),
                ("?start=", None, ids),
                ("?start=:2", None, ids[2:]),
                ("?start=:4", None, []),
                ("?start=$", None, []),
                (f"?start={ids[1]}", None, ids[1:]),
                (f"?start={ms[1]}", None, ids[1:]),
                (f"?start={int(ms[3]) + 1}", None, []),
                (f"?last_event_id={ids[1]}", None, ids[2:]),
                (f"?last_event_id={ids[3]}", None, []),
                ("?start=:0", ids[2], ids[3:]),
                (f"?last_event_id={ids[0]}", ids[2], ids[3:]),
                ("?start=$", "", []),
            ):
                # What was committed for the queries before this one, too.
                before = [] if query == "?start=$" else list(added)
                events = await listen(app, query, last_id)
                added += await commit(app, {"n": 4})
                wanted = [*expected, *before, added[-1]]
                await events.until(len(wanted))
                assert events.ids == wanted, (query, last_id)
                await events.leave()

    async def test_a_topic_without_records_can_be_waited_for(self, url: str) -> None:
        async with serving(url) as app:
            streams = [
                await listen(app, query)
                for query in ("", "?start=$", "?start=:0", "?start=1", "?last_event_id=1-7")
            ]
            ids = await commit(app, {"n": 1})
            for events in streams:
                await events.until(1)
                assert events.ids == ids
                await events.leave()

    async def test_a_time_in_the_future_is_waited_for(self, url: str) -> None:
        async with serving(url) as app:
            await commit(app, {"n": 0})
            soon = time.time_ns() // 1_000_000 + 300
            streams = [
                await listen(app, query) for query in (f"?start={soon}", f"?last_event_id={soon}-0")
            ]
            await commit(app, {"n": 1})
            while time.time_ns() // 1_000_000 <= soon:
                await asyncio.sleep(0.01)
            ids = await commit(app, {"n": 2})
            for events in streams:
                await events.until(1)
                assert events.ids == ids
                await events.leave()

    @pytest.mark.parametrize(
        ("query", "last_id", "status", "code"),
        [
            ("?start=yesterday", None, 400, "invalid_range_offset"),
            ("?start=:9", None, 404, "invalid_tone_id_search"),
            ("?last_event_id=:3", None, 400, "invalid_range_offset"),
            ("", "1518951480106", 400, "invalid_range_offset"),
            ("", "nonsense", 400, "invalid_range_offset"),
            ("?colour=red", None, 400, "invalid_input"),
        ],
    )
    async def test_a_place_that_is_none_is_refused(
        self, url: str, query: str, last_id: str | None, status: int, code: str
    ) -> None:
        async with serving(url) as app:
            await commit(app, {"n": 1})
            answer = await refused(app, query, last_id)
            assert (answer.status, answer.json["code"]) == (status, code)
            assert answer.headers["content-type"] == "application/problem+json"

    async def test_what_retention_removed_is_told(self, url: str) -> None:
        now = 1_700_000_000_000
        async with serving(url, clock=lambda: now) as app:
            ids = await commit(app, {"n": 0}, {"n": 1}, {"n": 2})
            now += 60_000
            ids += await commit(app, {"n": 3})
            await prune(app.store)
            for query, last_id, first in (
                ("?start=:1", None, 1),
                (f"?start={ids[0]}", None, 0),
                ("", ids[0], 1),
            ):
                events = await listen(app, query, last_id)
                await events.until(1)
                assert events.ids == ids[3:]
                problem = events.told("overtaken")
                assert (problem["code"], problem["status"]) == ("stream_overtaken", 410)
                assert problem["details"] == {"topic": "orders", "first": first, "last": 2}
                await events.leave()
            for query in ("", "?start=1600000000000"):
                events = await listen(app, query)
                await events.until(1)
                assert "overtaken" not in events.call.answer.body.decode()
                await events.leave()


async def prune(store: Store) -> None:
    """Remove what is older than half a minute."""
    from headrace._async.headrace import AsyncHeadrace

    hr = AsyncHeadrace(store, max_body=1000)
    await hr.topic("orders").set_retention(min_age=30)
    [done] = (await hr.admin.maintain(force=True)).collected
    assert done.first_seq == 3


class TestSlowClients:
    async def test_a_client_that_does_not_read_keeps_nobody_from_reading(self, url: str) -> None:
        """It costs one message, and gets everything when it reads again."""
        async with serving(url) as app:
            slow, quick = await listen(app), await listen(app)
            await commit(app, {"n": -1})
            for events in (slow, quick):
                await events.until(1)
            slow.reads.clear()
            ids = []
            for n in range(300):
                ids += await commit(app, {"n": n, "text": "x" * 5000})
            await quick.until(301)
            async with asyncio.timeout(30):
                await slow.is_blocked.wait()
            assert len(slow.ids) == 1
            slow.reads.set()
            more = await commit(app, {"n": "last"})
            for events in (slow, quick):
                await events.until(302)
                assert events.ids[1:] == ids + more
                await events.leave()

    async def test_a_slow_client_can_leave(self, url: str) -> None:
        async with serving(url) as app:
            events = await listen(app)
            events.reads.clear()
            await commit(app, {"n": 1})
            async with asyncio.timeout(30):
                await events.is_blocked.wait()
            events.call.left.set()
            events.reads.set()
            await events.leave()

    async def test_a_client_that_reads_nothing_is_cut_off(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "TICK_SECONDS", 0.02)
        monkeypatch.setattr(event_streams, "STALLED_SECONDS", 0.1)
        monkeypatch.setattr("headrace.node.http.FINISH_SECONDS", 0.05)
        async with serving(url) as app:
            stalled, other = await listen(app), await listen(app)
            stalled.reads.clear()
            await commit(app, {"n": 1})
            await other.until(1)
            async with asyncio.timeout(30):
                await stalled.call.task
            assert not stalled.call.answer.is_complete
            await commit(app, {"n": 2})
            await other.until(2)
            await other.leave()


class TestEnds:
    async def test_quiet_streams_have_comments(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "TICK_SECONDS", 0.01)
        monkeypatch.setattr(event_streams, "COMMENT_SECONDS", 0.02)
        async with serving(url) as app:
            events = await listen(app)
            await events.call.answer.until(b"\n\n:\n\n:\n\n")
            ids = await commit(app, {"n": 1})
            await events.until(1)
            assert events.ids == ids
            await events.leave()

    async def test_streams_end_with_the_node(self, url: str) -> None:
        async with serving(url) as app:
            await commit(app, {"n": 1})
            streams = [await listen(app, query) for query in ("", "?start=$") * 5]
            app.closing.begin()
            for events in streams:
                await events.end()
            answer = await refused(app)
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")

    async def test_a_store_that_is_away_delays_a_stream(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(head, "RETRY_SECONDS", 0.02)
        async with serving(url) as app:
            events = await listen(app)
            failures = iter([StoreUnavailable("away"), StoreUnavailable("away"), RuntimeError()])
            read_stored = app.store.topics.read_stored

            def fail(*args: Any, **named: Any) -> Any:
                # The stream may still read by itself, or wait at the head already.
                for error in failures:
                    raise error
                return read_stored(*args, **named)

            monkeypatch.setattr(app.store.topics, "read_stored", fail)
            ids = await commit(app, {"n": 1})
            await events.until(1)
            assert events.ids == ids
            assert next(failures, None) is None
            await events.leave()

    async def test_records_that_are_damaged_end_a_stream(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with serving(memory_url) as app:
            events = await listen(app)

            def damaged(page: StoredPage) -> Any:
                raise MalformedRecord("the file is damaged.")

            monkeypatch.setattr(head, "encoded_records", damaged)
            monkeypatch.setattr(reader, "encoded_records", damaged)
            await commit(app, {"n": 1})
            await events.end()
            assert events.told("problem")["code"] == "malformed_log"

    def test_lines_that_would_break_the_stream_are_damaged_records(self) -> None:
        for batch in (
            StoredBatch(0, 2, 1, b"{}"),
            StoredBatch(0, 1, 1, b"{}", b"null\nnull"),
            StoredBatch(0, 1, 1, b'{"a":\r1}'),
        ):
            with pytest.raises(Exception, match="not what was committed"):
                list(encoded_records(StoredPage("orders", 0, 1, (batch,))))


class TestAccess:
    async def test_a_stream_needs_the_scope_to_read_its_topic(self, memory_url: str) -> None:
        async with serving(memory_url, guard=with_tokens(local_token="x")) as app:
            assert (await refused(app)).status == 401
            for scope in ("commit:topic/orders", "read:topic/other", "read:queue/orders"):
                for query in ("", "?start=$", "?start=:0", "?last_event_id=1-1"):
                    answer = await refused(app, query, headers=bearer(issue(app.store, scope)))
                    assert (answer.status, answer.json["code"]) == (403, "not_allowed")
            events = await listen(app, headers=bearer(issue(app.store, "read:topic/ord*")))
            await events.leave()
            foreign = {**bearer(issue(app.store, "admin")), "origin": "http://elsewhere.example"}
            assert (await refused(app, headers=foreign)).status == 403

    async def test_a_revoked_token_ends_its_streams(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "TICK_SECONDS", 0.02)
        async with serving(memory_url, guard=with_tokens()) as app:
            text, other = issue(app.store, "admin"), issue(app.store, "admin")
            streams = [await listen(app, headers=bearer(text)) for _ in range(3)]
            stays = await listen(app, headers=bearer(other))
            await asyncio.to_thread(app.store.run, app.store.tokens.revoke(text.id, None))
            for events in streams:
                await events.end()
                assert events.told("problem")["code"] == "not_authenticated"
            await commit_to(app.store, {"n": 1})
            await stays.until(1)
            await stays.leave()

    async def test_a_lost_notification_of_a_revocation_delays_it_by_seconds(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "TICK_SECONDS", 0.02)
        monkeypatch.setattr(token_cache, "CACHE_SECONDS", 0.1)
        monkeypatch.setattr(token_cache.TokenCache, "_watch", lambda self: None)
        async with serving(memory_url, guard=with_tokens()) as app:
            text = issue(app.store, "admin")
            events = await listen(app, headers=bearer(text))
            await asyncio.to_thread(app.store.run, app.store.tokens.revoke(text.id, None))
            await events.end()

    async def test_an_expired_token_ends_its_streams(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "TICK_SECONDS", 0.02)
        async with serving(memory_url, guard=with_tokens()) as app:
            events = await listen(app, headers=bearer(issue(app.store, "admin", ttl_ms=300)))
            await events.end()
            assert "expired" in events.told("problem")["detail"]

    async def test_a_token_has_so_many_streams(
        self, memory_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are counted together with notifications."""
        monkeypatch.setattr(slots, "MAX_STREAMS_PER_TOKEN", 2)
        async with serving(memory_url, guard=with_tokens()) as app:
            headers = bearer(issue(app.store, "admin"))
            streams = [await listen(app, headers=headers) for _ in range(2)]
            for path in (STREAM, "/api/v1/notifications/orders"):
                answer = await ask(app, "GET", path, headers=headers)
                assert (answer.status, answer.json["code"]) == (429, "too_many_streams")
            other = await listen(app, headers=bearer(issue(app.store, "admin")))
            await streams.pop().leave()
            streams.append(await listen(app, headers=headers))
            for events in (*streams, other):
                await events.leave()
