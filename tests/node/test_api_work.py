"""Work through the API, over HTTP to a server, on every store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from api_client import ApiClient, segment

from headrace.node import capacity
from headrace.node.resources import claims, locks, procs
from headrace.node.resources.long_polls import LeftBehind
from headrace.testing.clocks import FakeClock
from served_node import ServedNode

NAMES = ["git commits", "a%2Fb", "50%", "ana+bob@x", "émile", "😀 mail", "a?b#c", "..a"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(served: ServedNode, store_url: str, clock: FakeClock) -> Iterator[ApiClient]:
    with served.serving(store_url, clock=clock), ApiClient(served.port) as client:
        yield client


@pytest.fixture
def memory_api(served: ServedNode, memory_url: str) -> Iterator[ApiClient]:
    with served.serving(memory_url), ApiClient(served.port) as client:
        yield client


class TestItems:
    def test_push_claim_and_settle(self, api: ApiClient) -> None:
        pushed = api.call("POST", "/queues/mail/items", {"payload": {"to": "ann"}}, wants=201)
        assert pushed == {"id": pushed["id"], "outcome": "pushed", "reason": None}
        [item] = api.call("POST", "/queues/mail/claim", {"lease": 30})["items"]
        assert item["payload"] == {"to": "ann"}
        assert (item["state"], item["attempts"]) == ("active", 1)
        outcome = {"item": item["id"], "token": item["token"], "kind": "complete"}
        outcome["commit"] = [{"topic": "sent", "body": {"to": "ann"}}]
        outcome["push"] = [{"queue": "log", "payload": "sent"}]
        settled = api.call("POST", "/queues/mail/settle", {"outcomes": [outcome]})
        assert settled["settled"][0]["state"] == "completed"
        assert len(api.call("GET", "/topics/sent/records")["records"]) == 1
        assert len(api.call("GET", "/queues/log/items")["items"]) == 1

    def test_a_late_settlement_is_answered_lost_and_writes_nothing(
        self, api: ApiClient, clock: FakeClock
    ) -> None:
        api.call("POST", "/queues/mail/items", {"payload": 1}, wants=201)
        [late] = api.call("POST", "/queues/mail/claim", {"lease": 10})["items"]
        clock.advance(11)
        [item] = api.call("POST", "/queues/mail/claim", {"lease": 10})["items"]
        assert item["id"] == late["id"]
        outcome = {"item": late["id"], "token": late["token"], "kind": "complete"}
        outcome["commit"] = [{"topic": "sent", "body": {}}]
        settled = api.call("POST", "/queues/mail/settle", {"outcomes": [outcome]})
        assert settled["settled"][0]["state"] == "lost"
        assert api.call("GET", "/topics/sent", wants=404)["code"] == "invalid_topic"

    def test_a_lease_that_is_extended_lasts(self, api: ApiClient, clock: FakeClock) -> None:
        api.call("POST", "/queues/mail/items", {"payload": 1}, wants=201)
        [item] = api.call("POST", "/queues/mail/claim", {"lease": 10})["items"]
        clock.advance(8)
        held = [{"id": item["id"], "token": item["token"]}, {"id": 10**9, "token": item["token"]}]
        extended = api.call("POST", "/queues/mail/extend", {"items": held, "lease": "1m"})
        assert extended == {"extended": [item["id"]]}
        clock.advance(50)
        assert api.call("POST", "/queues/mail/claim", {})["items"] == []

    def test_many_documents_are_pushed_or_none(self, api: ApiClient) -> None:
        documents = [{"payload": n, "subject": f"s{n % 3}"} for n in range(4)]
        pushed = api.call("POST", "/queues/mail/items", {"items": documents}, wants=201)
        assert (pushed["pushed"], pushed["skipped"]) == (3, 1)
        assert pushed["items"][3] == {
            "id": pushed["items"][0]["id"],
            "outcome": "skipped",
            "reason": "exists",
        }
        wrong = {"items": [{"payload": 9}, {"payload": 9, "subject": ""}]}
        api.call("POST", "/queues/mail/items", wrong, wants=400)
        assert api.call("GET", "/queues/mail/stats")["pending"] == 3

    def test_an_upsert_replaces_the_payload(self, api: ApiClient) -> None:
        for n in (1, 2):
            body = {"payload": n, "subject": "s", "mode": "upsert"}
            answer = api.call("POST", "/queues/mail/items", body, wants=201)
        assert answer["outcome"] == "updated"
        assert api.call("GET", f"/queues/mail/items/{answer['id']}")["payload"] == 2

    def test_claims_select_channels(self, api: ApiClient) -> None:
        for os in ("linux", "mac"):
            body = {"payload": os, "channel": {"os": os, "n": {"Type": 1, "Data": "7"}}}
            api.call("POST", "/queues/builds/items", body, wants=201)
        value = {"Value": {"Type": 13, "Data": "mac"}, "Comparison": "="}
        value["TypeRestrictions"] = {"MinDataType": 13, "MaxDataType": 13}
        select = {"Selection": {"KeyValues": {"os": value}}}
        items = api.call("POST", "/queues/builds/claim", {"count": 9, "select": select})["items"]
        assert [item["payload"] for item in items] == ["mac"]
        assert items[0]["channel"] == {"os": "mac", "n": {"Type": 1, "Data": "7"}}
        found = api.call("POST", "/queues/builds/channels/query", {"select": select})
        assert [channel["active"] for channel in found["channels"]] == [1]

    def test_a_full_queue(self, api: ApiClient) -> None:
        body = {"name": "small", "settings": {"max_items": 1}}
        reply = api.send("POST", "/queues", body)
        assert (reply.status, reply.headers["location"]) == (201, "/api/v1/queues/small")
        api.call("POST", "/queues/small/items", {"payload": 1}, wants=201)
        full = api.send("POST", "/queues/small/items", {"payload": 2})
        assert (full.status, full.json["code"], full.json["retryable"]) == (409, "queue_full", True)
        timed = api.send("POST", "/queues/small/items", {"payload": 2, "wait": 0.01})
        assert timed.json["code"] == "push_timeout"

    def test_patches(self, api: ApiClient) -> None:
        """RFC 7396: what is not given stays, null removes, objects are merged."""
        pushed = api.send(
            "POST", "/queues/mail/items", {"payload": {"a": 1, "b": {"c": 2, "d": 3}}}
        )
        item = pushed.headers["location"]
        kind = "application/merge-patch+json"
        change = {"payload": {"b": {"c": None, "e": 4}}}
        edited = api.call("PATCH", item, change, content_type=kind)
        assert edited["payload"] == {"a": 1, "b": {"d": 3, "e": 4}}
        assert api.call("PATCH", item, {"priority": 7})["payload"] == edited["payload"]
        change = {"settings": {"max_attempts": 9, "backoff": {"first": 5}, "keep_dead": 60}}
        before = api.call("GET", "/queues/mail")["settings"]
        after = api.call("PATCH", "/queues/mail", change)
        assert after["is_changed"]
        assert after["settings"] == {
            **before,
            "max_attempts": 9,
            "backoff": {**before["backoff"], "first": 5.0},
            "keep_dead": 60.0,
        }
        change = {"settings": {"max_attempts": None, "backoff": None, "keep_dead": None}}
        assert api.call("PATCH", "/queues/mail", change)["settings"] == before

    def test_a_payload_of_bytes_is_base64(
        self, api: ApiClient, served: ServedNode, store_url: str
    ) -> None:
        store = served._store
        served.call(_push_bytes(store))
        [item] = api.call("GET", "/queues/mail/items")["items"]
        assert item["payload_base64"] == "AAE="
        assert "payload" not in item

    def test_errors_and_dead_items(self, api: ApiClient) -> None:
        api.call("POST", "/queues", {"name": "mail", "settings": {"max_attempts": 1}}, wants=201)
        for n in range(3):
            api.call("POST", "/queues/mail/items", {"payload": n}, wants=201)
        claimed = api.call("POST", "/queues/mail/claim", {"count": 3})["items"]
        outcomes = [
            {"item": one["id"], "token": one["token"], "kind": "reject", "error": "no such address"}
            for one in claimed
        ]
        settled = api.call("POST", "/queues/mail/settle", {"outcomes": outcomes})["settled"]
        assert [one["state"] for one in settled] == ["dead"] * 3
        first = api.call("GET", "/queues/mail/errors?limit=2")
        rest = api.call("GET", f"/queues/mail/errors?limit=2&cursor={first['next']}")
        errors = first["errors"] + rest["errors"]
        assert sorted(one["item"] for one in errors) == [one["id"] for one in claimed]
        assert errors[0]["failure"]["message"] == "no such address"
        one = api.call("GET", f"/queues/mail/errors?item={claimed[0]['id']}")["errors"]
        assert [error["item"] for error in one] == [claimed[0]["id"]]
        [group] = api.call("GET", "/queues/mail/dead/groups")["groups"]
        assert group["count"] == 3
        body = {"fingerprint": group["fingerprint"], "limit": 2}
        assert api.call("POST", "/queues/mail/dead/redrive", {**body, "dry_run": True}) == {
            "count": 3
        }
        assert api.call("POST", "/queues/mail/dead/redrive", body) == {"count": 2}
        assert api.call("POST", "/queues/mail/dead/purge", {}) == {"count": 1}


async def _push_bytes(store: Any) -> None:
    from headrace import AsyncHeadrace

    hr = AsyncHeadrace(store, max_body=1000)
    await hr.push("mail", b"\0\1")


class TestRecords:
    def test_commit_and_read(self, api: ApiClient) -> None:
        one = api.send("POST", "/topics/orders/records", {"body": {"n": 0}, "headers": {"a": "b"}})
        assert one.status == 201
        [id] = one.json["ids"]
        record = api.call("GET", one.headers["location"])
        assert record == {"id": id, "body": {"n": 0}, "headers": {"a": "b"}}
        many = {"records": [{"body": {"n": n}} for n in range(1, 5)]}
        ids = api.call("POST", "/topics/orders/records", many, wants=201)["ids"]
        body = [{"topic": "orders", "body": {"n": 5}}, {"topic": "log", "body": ["x"]}]
        assert len(api.call("POST", "/commits", body, wants=201)["ids"]) == 2
        read = api.call("GET", f"/topics/orders/records?start={ids[0]}&exclusive=true&limit=2")
        assert [record["body"]["n"] for record in read["records"]] == [2, 3]
        read = api.call("GET", "/topics/orders/records?order=desc&limit=2")
        assert [record["body"]["n"] for record in read["records"]] == [5, 4]
        api.call("GET", "/topics/orders/records/:99", wants=404)

    def test_a_commit_to_several_topics_is_all_or_none(self, api: ApiClient) -> None:
        body = [{"topic": "a", "body": {}}, {"topic": "b", "body": "text"}]
        api.call("POST", "/commits", body, wants=400)
        assert api.call("GET", "/topics")["topics"] == []

    def test_retention_is_patched(self, api: ApiClient) -> None:
        api.call("POST", "/topics/t/records", {"body": {}}, wants=201)
        api.call("PATCH", "/topics/t", {"min_age": "1d", "max_age": "2d"})
        assert api.call("PATCH", "/topics/t", {"min_age": None})["max_age"] == 2 * 86400.0
        topic = api.call("PATCH", "/topics/t", {"max_age": None})
        assert (topic["min_age"], topic["max_age"]) == (None, None)

    def test_a_replay_goes_on_where_it_was(self, api: ApiClient) -> None:
        records = {"records": [{"body": {"n": n}} for n in range(7)]}
        ids = api.call("POST", "/topics/t/records", records, wants=201)["ids"]
        body = {"queue": "again", "start": ids[2], "name": "r", "wait": 0}
        begun = api.call("POST", "/topics/t/replay", body)
        assert (begun["done"], begun["total"]) == (0, 5)
        body["wait"] = 10
        for _ in range(2):
            done = api.call("POST", "/topics/t/replay", body)
            assert (done["done"], done["total"]) == (5, 5)
        items = api.call("GET", "/queues/again/items")["items"]
        assert [item["payload"]["n"] for item in items] == [2, 3, 4, 5, 6]


class TestProcs:
    def test_claim_and_ack_with_commits(self, api: ApiClient) -> None:
        records = {"records": [{"body": {"n": n}} for n in range(3)]}
        api.call("POST", "/topics/t/records", records, wants=201)
        api.call("PUT", "/procs/p", {"topic": "t"})
        claim = api.call("POST", "/procs/p/claim", {"count": 2})
        assert [record["body"]["n"] for record in claim["records"]] == [0, 1]
        assert api.call("POST", "/procs/p/claim", {})["records"] == []
        body = {"token": claim["token"], "commit": [{"topic": "u", "body": {"sum": 1}}]}
        acked = api.call("POST", "/procs/p/ack", body)
        assert api.call("POST", "/procs/p/ack", body) == acked  # a repeat
        [record] = api.call("GET", "/topics/u/records")["records"]
        assert acked["ids"] == [record["id"]]
        assert api.call("GET", "/procs/p/lag")["records"] == 1

    def test_ack_with_pushes(self, api: ApiClient) -> None:
        api.call("POST", "/topics/t/records", {"body": {"n": 1}}, wants=201)
        api.call("PUT", "/procs/p", {"topic": "t"})
        token = api.call("POST", "/procs/p/claim", {})["token"]
        push = [{"queue": "mail", "payload": n, "subject": str(n)} for n in range(2)]
        both = {"token": token, "push": push, "commit": [{"topic": "u", "body": {}}]}
        assert api.call("POST", "/procs/p/ack", both, wants=400)["details"]["path"] == "$.push"
        for _ in range(2):
            api.call("POST", "/procs/p/ack", {"token": token, "push": push})
        assert len(api.call("GET", "/queues/mail/items")["items"]) == 2
        late = api.call("POST", "/procs/p/ack", {"token": "other", "push": push}, wants=409)
        assert late["code"] in ("claim_lost", "nothing_claimed")
        assert len(api.call("GET", "/queues/mail/items")["items"]) == 2

    def test_a_nack_counts_an_attempt(self, api: ApiClient) -> None:
        api.call("POST", "/topics/t/records", {"body": {}}, wants=201)
        api.call("PUT", "/procs/p", {"topic": "t", "max_attempts": 2, "on_exhausted": "disable"})
        for _ in range(2):
            token = api.call("POST", "/procs/p/claim", {})["token"]
            api.call("POST", "/procs/p/nack", {"token": token, "error": "no"})
        assert api.call("GET", "/procs/p")["status"] == "disabled"
        assert api.call("POST", "/procs/p/claim", {}, wants=409)["code"] == "proc_is_disabled"
        api.call("POST", "/procs/p/resume")
        assert api.call("POST", "/procs/p/claim", {})["token"]
        assert api.call("POST", "/procs/p/reclaim", {})["released"] == ""
        assert api.call("PATCH", "/procs/p", {"lease": None})["lease"] is None
        assert api.call("PATCH", "/procs/p", {"max_attempts": 5})["lease"] is None


class TestLocksAndLimits:
    def test_a_lock_has_one_holder(self, api: ApiClient, clock: FakeClock) -> None:
        named = {"key_values": {"site": "shop"}}
        lock = api.call("POST", "/locks/acquire", {**named, "lease": 10})
        taken = api.call("POST", "/locks/acquire", named, wants=409)
        assert (taken["code"], taken["retryable"]) == ("lock_taken", True)
        held = {**named, "session": lock["session"]}
        api.call("POST", "/locks/extend", {**held, "lease": 100}, wants=204)
        clock.advance(50)
        api.call("POST", "/locks/acquire", named, wants=409)
        api.call("POST", "/locks/release", held, wants=204)
        assert api.call("POST", "/locks/release", held, wants=409)["code"] == "lock_lost"
        again = api.call("POST", "/locks/acquire", named)
        assert again["token"] > lock["token"]

    def test_slots_under_a_limit(self, api: ApiClient) -> None:
        rule = {"name": "maps", "group_by": {"api": "*"}, "limit": 2}
        reply = api.send("POST", "/limits", rule)
        assert (reply.status, reply.headers["location"]) == (201, "/api/v1/limits/maps")
        assert api.call("POST", "/limits", rule, wants=409)["code"] == "limit_exists"
        slots = {"key_values": {"api": "maps"}, "count": 2}
        session = api.call("POST", "/counters/acquire", slots)["session"]
        assert api.call("POST", "/counters/acquire", slots, wants=409)["code"] == "limit_reached"
        [usage] = api.call("GET", "/limits/maps/usage")["usage"]
        assert (usage["used"], usage["values"]) == (2, {"api": "maps"})
        api.call("POST", "/counters/release", {"session": session}, wants=204)
        api.call("POST", "/counters/acquire", slots)

    def test_a_limit_holds_items_back(self, api: ApiClient) -> None:
        for n in range(3):
            body = {"payload": n, "channel": {"customer": "ann"}}
            api.call("POST", "/queues/mail/items", body, wants=201)
        rule = {"group_by": {"customer": "*"}, "limit": 1}
        [trial] = api.call("POST", "/limits/simulate", rule)["trials"]
        assert (trial["waiting"], trial["let_through"], trial["held_back"]) == (3, 1, 2)
        assert api.call("POST", "/limits/query", {})["limits"] == []
        assert api.call("PUT", "/limits/one-each", rule)["limit"] == 1
        assert len(api.call("POST", "/queues/mail/claim", {"count": 9})["items"]) == 1
        assert api.call("PUT", "/limits/one-each", {**rule, "limit": 2})["limit"] == 2
        override = {"group_by": {"customer": "ann"}, "limit": 3}
        limit = api.call("POST", "/limits/one-each/overrides", override, wants=201)
        assert limit["overrides"][0]["group_by"] == {"customer": "ann"}
        assert len(api.call("POST", "/queues/mail/claim", {"count": 9})["items"]) == 2


class TestKeys:
    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/queues/mail/items", {"payload": {"to": "ann"}}),
            ("/queues/mail/items", {"items": [{"payload": 1}, {"payload": 2}]}),
            ("/topics/t/records", {"body": {"n": 1}}),
            ("/commits", [{"topic": "t", "body": {}}, {"topic": "u", "body": {}}]),
        ],
    )
    def test_a_repeat_counts_once(self, api: ApiClient, path: str, body: Any) -> None:
        first = api.send("POST", path, body, idempotency_key="k1")
        assert first.status == 201
        # Quoted, as the draft has it, it is the same key.
        for key in ("k1", '"k1"'):
            again = api.send("POST", path, body, idempotency_key=key)
            assert (again.status, again.json) == (first.status, first.json)
        other = [{"topic": "t", "body": {"x": 1}}] if path == "/commits" else {"payload": 7}
        if path.endswith("records"):
            other = {"body": {"n": 2}}
        reused = api.call("POST", path, other, wants=422, idempotency_key="k1")
        assert reused["code"] == "key_reused"
        assert api.send("POST", path, body, idempotency_key="k2").json != first.json

    def test_a_repeat_while_the_first_runs_gets_its_answer(
        self, served: ServedNode, api: ApiClient
    ) -> None:
        def push(_: int) -> Any:
            with ApiClient(served.port) as client:
                body = {"payload": {"to": "ann"}}
                return client.call(
                    "POST", "/queues/mail/items", body, wants=201, idempotency_key="k"
                )

        with ThreadPoolExecutor(8) as pool, served.frozen():
            # All of them are there before the first one begins.
            pushes = [pool.submit(push, n) for n in range(8)]
            time.sleep(0.05)
        assert len({push.result()["id"] for push in pushes}) == 1
        assert api.call("GET", "/queues/mail/stats")["pending"] == 1


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_queues(self, memory_api: ApiClient, name: str) -> None:
        api = memory_api
        made = api.send("POST", "/queues", {"name": name})
        assert made.status == 201
        assert made.json["name"] == name
        assert made.headers["location"] == f"/api/v1/queues/{segment(name)}"
        assert api.call("GET", made.headers["location"])["name"] == name
        pushed = api.send("POST", f"/queues/{segment(name)}/items", {"payload": 1})
        assert api.call("GET", pushed.headers["location"])["queue"] == name
        assert len(api.call("POST", f"/queues/{segment(name)}/claim", {})["items"]) == 1
        listed = api.call("GET", "/queues?limit=1")["queues"]
        assert [one["name"] for one in listed] == [name]

    def test_a_slash_in_a_name(self, memory_api: ApiClient) -> None:
        """Nothing has one, but the path is not split there: the answer is about that name."""
        api = memory_api
        assert api.call("GET", "/limits/a%2Fb", wants=404)["code"] == "unknown_limit"
        assert api.call("GET", "/limits/a/b", wants=404)["code"] == "no_such_path"
        reply = api.send("POST", "/queues/a%2Fb/items", {"payload": 1})
        assert (reply.status, reply.json["code"]) == (400, "invalid_queue_format")
        assert "'a/b'" in reply.json["detail"]


class TestWaits:
    def test_a_claim_waits_for_an_item(self, memory_api: ApiClient, served: ServedNode) -> None:
        found = self.waits(
            served,
            lambda client: client.call("POST", "/queues/mail/claim", {"wait": 30})["items"],
            lambda: memory_api.call("POST", "/queues/mail/items", {"payload": 1}, wants=201),
        )
        assert [item["payload"] for item in found] == [1]

    def test_a_claim_of_a_proc_waits_for_a_record(self, api: ApiClient, served: ServedNode) -> None:
        api.call("PUT", "/procs/p", {"topic": "t"})
        found = self.waits(
            served,
            lambda client: client.call("POST", "/procs/p/claim", {"wait": 30})["records"],
            lambda: api.call("POST", "/topics/t/records", {"body": {"n": 1}}, wants=201),
        )
        assert [record["body"] for record in found] == [{"n": 1}]

    def test_a_push_waits_for_capacity(self, memory_api: ApiClient, served: ServedNode) -> None:
        api = memory_api
        api.call("POST", "/queues", {"name": "q", "settings": {"max_items": 1}}, wants=201)
        first = api.call("POST", "/queues/q/items", {"payload": 1}, wants=201)
        body = {"payload": 2, "wait": 30}
        found = self.waits(
            served,
            lambda client: client.call("POST", "/queues/q/items", body, wants=201),
            lambda: api.call("DELETE", f"/queues/q/items/{first['id']}"),
        )
        assert found["outcome"] == "pushed"

    def test_a_lock_is_waited_for(self, memory_api: ApiClient, served: ServedNode) -> None:
        named = {"key_values": {"a": 1}}
        lock = memory_api.call("POST", "/locks/acquire", named)
        held = {**named, "session": lock["session"]}
        found = self.waits(
            served,
            lambda client: client.call("POST", "/locks/acquire", {**named, "wait": 30}),
            lambda: memory_api.call("POST", "/locks/release", held, wants=204),
        )
        assert found["token"] > lock["token"]

    def waits(
        self, served: ServedNode, wait: Callable[[ApiClient], Any], end: Callable[[], object]
    ) -> Any:
        """What a request gets that is still waiting when something happens."""
        with ApiClient(served.port) as client, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait, client)
            _until(lambda: served._node.capacity._waiting == 1)
            time.sleep(0.05)
            assert not waiting.done()
            end()
            return waiting.result(20)

    def test_those_that_wait_leave_the_others_capacity(
        self, memory_api: ApiClient, served: ServedNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(capacity, "MAX_RUNNING", 4)
        monkeypatch.setattr(capacity, "KEPT_FREE", 1)
        monkeypatch.setattr(capacity, "MAX_WAITING", 6)
        waiting = [memory_api.begin("/queues/mail/claim", {"wait": 30}) for _ in range(6)]
        _until(lambda: served._node.capacity._waiting == 6)
        refused = memory_api.send("POST", "/queues/mail/claim", {"wait": 1})
        assert (refused.status, refused.json["code"]) == (503, "store_unavailable")
        assert refused.headers["retry-after"]
        for n in range(6):
            memory_api.call("POST", "/queues/mail/items", {"payload": n}, wants=201)
        for connection in waiting:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            connection.close()

    def test_nothing_within_the_wait_is_an_empty_list(self, memory_api: ApiClient) -> None:
        memory_api.call("PUT", "/procs/p", {"topic": "t"})
        for path, name in (("/queues/mail/claim", "items"), ("/procs/p/claim", "records")):
            began = time.monotonic()
            assert memory_api.call("POST", path, {"wait": 0.2})[name] == []
            assert 0.2 <= time.monotonic() - began < 10


def _until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.002)


def _is_idle(served: ServedNode) -> bool:
    capacity = served._node.capacity
    return capacity._running == capacity._waiting == 0


class TestLeavingClients:
    """A client that leaves while its claim waits takes no item with it, and counts no attempt."""

    def test_a_hundred(self, memory_api: ApiClient, served: ServedNode) -> None:
        self.leave(memory_api, served, 100)

    @pytest.mark.thorough
    def test_a_thousand(self, api: ApiClient, served: ServedNode) -> None:
        self.leave(api, served, 1000)

    def leave(self, api: ApiClient, served: ServedNode, times: int) -> None:
        """Half of them leave before there is an item, half of them at that moment."""
        claim = {"wait": 30, "lease": 300}
        for n in range(times):
            connection = api.begin("/queues/mail/claim", claim)
            _until(lambda: served._node.capacity._waiting == 1)
            if n % 2:
                connection.close()
                _until(lambda: _is_idle(served))
                pushed = api.call("POST", "/queues/mail/items", {"payload": n}, wants=201)
            else:
                leaving = threading.Thread(target=_close, args=(connection,))
                leaving.start()
                pushed = api.call("POST", "/queues/mail/items", {"payload": n}, wants=201)
                leaving.join()
                _until(lambda: _is_idle(served))
            item = api.call("GET", f"/queues/mail/items/{pushed['id']}")
            if not n % 2 and item["state"] == "active":
                # The answer was on its way before the client left: its lease ends that.
                continue
            assert (item["state"], item["attempts"]) == ("pending", 0)
            api.call("DELETE", f"/queues/mail/items/{pushed['id']}")

    def test_a_lock_is_released(self, memory_api: ApiClient, served: ServedNode) -> None:
        named = {"key_values": {"a": 1}}
        lock = memory_api.call("POST", "/locks/acquire", named)
        for _ in range(20):
            connection = memory_api.begin("/locks/acquire", {**named, "wait": 30})
            _until(lambda: served._node.capacity._waiting == 1)
            connection.close()
            _until(lambda: _is_idle(served))
        held = {**named, "session": lock["session"]}
        memory_api.call("POST", "/locks/release", held, wants=204)
        assert memory_api.call("POST", "/locks/acquire", named)["session"]

    def test_records_are_given_back(self, memory_api: ApiClient, served: ServedNode) -> None:
        memory_api.call("PUT", "/procs/p", {"topic": "t"})
        for n in range(20):
            connection = memory_api.begin("/procs/p/claim", {"wait": 30})
            _until(lambda: served._node.capacity._waiting == 1)
            connection.close()
            _until(lambda: _is_idle(served))
            memory_api.call("POST", "/topics/t/records", {"body": {"n": n}}, wants=201)
            assert memory_api.call("GET", "/procs/p")["attempts"] == 0
            claim = memory_api.call("POST", "/procs/p/claim", {})
            assert [record["body"]["n"] for record in claim["records"]] == [n]
            memory_api.call("POST", "/procs/p/ack", {"token": claim["token"]})


class TestClientsThatLeaveAtTheEnd:
    """The client leaves in the moment in which the work is done: it is undone."""

    @pytest.fixture(autouse=True)
    def leaving(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def leave(call: Any, work: Any) -> Any:
            done = asyncio.ensure_future(work)
            await asyncio.wait([done])
            raise LeftBehind(done)

        for module in (claims, locks, procs):
            monkeypatch.setattr(module, "while_connected", leave)

    def leave(self, api: ApiClient, path: str, body: Any) -> None:
        """Send a request that is never answered."""
        connection = api.begin(path, body)
        # The server closes it when the application has ended without an answer.
        connection.recv(1000)
        connection.close()

    def test_an_item_is_released(self, api: ApiClient) -> None:
        pushed = api.call("POST", "/queues/mail/items", {"payload": 1}, wants=201)
        self.leave(api, "/queues/mail/claim", {"wait": 30})
        item = api.call("GET", f"/queues/mail/items/{pushed['id']}")
        assert (item["state"], item["attempts"]) == ("pending", 0)

    def test_a_lock_is_released(self, api: ApiClient) -> None:
        named = {"key_values": {"a": 1}}
        self.leave(api, "/locks/acquire", {**named, "wait": 30})
        assert api.call("POST", "/locks/acquire", named)["session"]

    def test_slots_are_released(self, api: ApiClient) -> None:
        rule = {"name": "maps", "group_by": {"api": "*"}, "limit": 1}
        api.call("POST", "/limits", rule, wants=201)
        named = {"key_values": {"api": "maps"}}
        self.leave(api, "/counters/acquire", {**named, "wait": 30})
        assert api.call("POST", "/counters/acquire", named)["session"]

    def test_records_are_given_back(self, api: ApiClient) -> None:
        api.call("POST", "/topics/t/records", {"body": {}}, wants=201)
        api.call("PUT", "/procs/p", {"topic": "t"})
        self.leave(api, "/procs/p/claim", {"wait": 30})
        assert api.call("POST", "/procs/p/claim", {})["token"]


def _close(connection: Any) -> None:
    with suppress(OSError):
        connection.close()
