"""Willow's queues, channels and items over HTTP: outcomes, late acks, clients that leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import pytest
from willow_words import (
    CHANNELS,
    ITEMS,
    SECOND,
    Willow,
    decoded,
    delivery,
    encoded,
    item,
    serving,
    text,
    values,
    where,
)

from headrace._async.headrace import AsyncHeadrace
from headrace.contract.items import Outcome
from headrace.model.queues.items import State
from headrace.stores import open_store
from headrace.testing.clocks import FakeClock

UNKNOWN = "/v1/queues/unknown"
LINUX = {"os": "linux"}
MAC = {"os": "mac"}
LEAVES = 100


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(store_url: str, clock: FakeClock) -> Callable[[], Any]:
    return lambda: open_store(store_url, clock=clock)


@pytest.fixture
def memory(clock: FakeClock) -> Callable[[], Any]:
    return lambda: open_store("memory://", clock=clock)


async def items_of(willow: Willow, state: State = State.PENDING) -> list[Any]:
    found: list[Any] = await willow.store.arun(willow.store.queues.items("q", state, 0, 100))
    return found


async def settles(willow: Willow, waiting: Any) -> Any:
    """The answer of a dequeue that runs."""
    async with asyncio.timeout(30):
        await waiting.task
    return waiting.answer


async def waits(willow: Willow, word: str = "q") -> Any:
    """A dequeue that has found nothing and waits."""
    waiting = willow.begin("GET", ITEMS.replace("/q/", f"/{word}/"), {})
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert not waiting.task.done(), waiting.answer.body
    return waiting


class TestQueues:
    async def test_the_life_of_a_queue(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            assert await willow.ok("GET", "/v1/queues") == []
            await willow.queue("q", 2)
            await willow.queue("a b")
            body = {"Spec": {"DBDefinition": {"Name": "q"}, "Properties": {"MaxItems": 1}}}
            assert await willow.refused("POST", "/v1/queues", body) == (409, "queue_exists")
            q = await willow.ok("GET", "/v1/queues/q")
            assert q == {
                "Spec": {"DBDefinition": {"Name": "q"}, "Properties": {"MaxItems": 2}},
                "State": {"Deleting": False},
            }
            assert await willow.ok("PUT", "/v1/queues/q", {"MaxItems": 3}) is None
            names = [
                (one["Spec"]["DBDefinition"]["Name"], one["Spec"]["Properties"]["MaxItems"])
                for one in await willow.ok("GET", "/v1/queues")
            ]
            assert names == [("a b", -1), ("q", 3)]
            for _ in range(2):
                assert await willow.ok("DELETE", "/v1/queues/q", status=204) is None
            assert await willow.refused("GET", "/v1/queues/q") == (404, "unknown_queue")
            assert await willow.refused("PUT", "/v1/queues/q", {"MaxItems": 3}) == (
                404,
                "unknown_queue",
            )

    @pytest.mark.parametrize("name", ["git commits", "ä", "🎉", "a&b?c#d+e", "x" * 200])
    async def test_names_are_decoded(self, memory: Callable[[], Any], name: str) -> None:
        async with serving(memory()) as willow:
            await willow.queue(name)
            path = f"/v1/queues/{quote(name, safe='')}"
            assert (await willow.ok("GET", path))["Spec"]["DBDefinition"]["Name"] == name
            await willow.ok("POST", f"{path}/channels/items", item(name), 201)
            assert decoded(await willow.ok("GET", f"{path}/channels/items", {})) == name
            await willow.ok("DELETE", path, status=204)

    @pytest.mark.parametrize("name", ["a%2Fb", "%20a", "*", "_q"])
    async def test_other_names_are_refused(self, memory: Callable[[], Any], name: str) -> None:
        async with serving(memory()) as willow:
            spec = {"DBDefinition": {"Name": unquote(name)}, "Properties": {"MaxItems": 1}}
            assert (await willow.refused("POST", "/v1/queues", {"Spec": spec}))[0] == 400
            items = f"/v1/queues/{name}/channels/items"
            assert (await willow.refused("POST", items, item()))[0] == 400
            assert await willow.ok("GET", "/v1/queues") == []

    async def test_max_items(self, opened: Callable[[], Any]) -> None:
        """-1 is no limit and 0 allows nothing. Items in flight count, updates do not."""
        async with serving(opened()) as willow:
            await willow.queue("q", 0)
            assert await willow.refused("POST", ITEMS, item()) == (409, "queue_full")
            assert await willow.channels() == {}
            await willow.ok("PUT", "/v1/queues/q", {"MaxItems": 2})
            await willow.push("1")
            taken = await willow.pull()
            await willow.push("2", updateable=True)
            await willow.push("3", updateable=True)
            assert await willow.refused("POST", ITEMS, item("4", MAC)) == (409, "queue_full")
            assert await willow.channels() == {"linux": (1, 1)}
            assert (await willow.ack(taken)).status == 200
            await willow.push("4", MAC)
            await willow.ok("PUT", "/v1/queues/q", {"MaxItems": 1})
            assert await willow.channels() == {"linux": (1, 0), "mac": (1, 0)}
            await willow.ok("PUT", "/v1/queues/q", {"MaxItems": -1})
            await willow.push("5", MAC)


class TestChannels:
    async def test_channels_are_listed_and_deleted(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            assert await willow.ok("GET", CHANNELS, {}) == []
            assert await willow.refused("DELETE", CHANNELS, values(**MAC)) == (404, "unknown_queue")
            await willow.queue()
            await willow.push("1")
            await willow.push("2")
            await willow.push("3", MAC)
            await willow.push("4", {**MAC, "n": 1})
            taken = await willow.pull(where(**LINUX))
            assert await willow.channels() == {"linux": (1, 1), "mac": (1, 0), "1 mac": (1, 0)}
            found = await willow.ok("POST", f"{CHANNELS}/query", where(n=1))
            assert [one["Spec"] for one in found] == [
                {"DBDefinition": {"KeyValues": values(**MAC, n=1)}}
            ]
            for pairs in (LINUX, MAC, MAC):
                await willow.ok("DELETE", CHANNELS, values(**pairs), 204)
            assert await willow.channels() == {"1 mac": (1, 0)}
            assert (await willow.ack(taken)).json["code"] == "item_gone"
            assert (await willow.ack(taken)).status == 404
            beat = await willow("POST", f"{ITEMS}/heartbeat", delivery(taken))
            assert beat.status == 404

    async def test_a_channel_ends_with_its_last_item(self, memory: Callable[[], Any]) -> None:
        async with serving(memory()) as willow:
            await willow.queue()
            await willow.push()
            taken = await willow.pull()
            assert await willow.channels() == {"linux": (0, 1)}
            await willow.ack(taken)
            assert await willow.channels() == {}


class TestDeliveries:
    async def test_an_item_as_it_is_dequeued(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            await willow.queue()
            sent = item("a\0b", {"n": 1, "os": "linux"}, updateable=True, retries=2**64 - 1)
            await willow.ok("POST", ITEMS, sent, 201)
            taken = await willow.pull()
            assert taken["Spec"] == sent["Spec"]
            assert list(taken["State"]) == ["ID"]

    async def test_the_first_spelling_of_data_works_too(self, memory: Callable[[], Any]) -> None:
        """There is exactly one of the two spellings, and one of ``Passed`` and ``Success``."""
        async with serving(memory()) as willow:
            await willow.queue()
            both, old = item(), item()
            properties = old["Spec"]["Properties"]
            properties["Item"] = properties.pop("Data")
            both["Spec"]["Properties"]["Item"] = encoded("y")
            assert (await willow("POST", ITEMS, both)).status == 400
            await willow.ok("POST", ITEMS, old, 201)
            taken = await willow.pull()
            flags: list[dict[str, bool]] = [{}, {"Passed": True, "Success": True}]
            for flag in flags:
                assert (
                    await willow("POST", f"{ITEMS}/ack", {**delivery(taken), **flag})
                ).status == 400
            await willow.ok("POST", f"{ITEMS}/ack", {**delivery(taken), "Success": True})

    async def test_the_newest_content_is_delivered(self, memory: Callable[[], Any]) -> None:
        """The existing item's flag decides. Everything is replaced, the timeout included."""
        async with serving(memory()) as willow:
            await willow.queue()
            await willow.push("1", updateable=True, timeout=9 * SECOND)
            await willow.push("2", retries=7, timeout=5 * SECOND)
            await willow.push("3", updateable=True)
            taken = await willow.pull()
            assert decoded(taken) == "2"
            properties = taken["Spec"]["Properties"]
            assert (properties["RetryAttempts"], properties["TimeoutDuration"]) == (7, 5 * SECOND)
            await willow.push("4")
            assert [decoded(await willow.pull()) for _ in range(1)] == ["4"]

    @pytest.mark.parametrize("how", ["ack", "lease"])
    async def test_retries_are_counted(
        self, opened: Callable[[], Any], clock: FakeClock, how: str
    ) -> None:
        """RetryAttempts r is r + 1 deliveries, each under an id of its own."""
        async with serving(opened()) as willow:
            await willow.queue()
            await willow.push(retries=4)
            ids = set()
            states = []
            for _ in range(5):
                taken = await willow.pull()
                ids.add(taken["State"]["ID"])
                if how == "ack":
                    states.append((await willow.ack(taken, False)).headers["headrace-outcome"])
                else:
                    clock.advance(62)
            assert len(ids) == 5
            assert states in ([], ["pending"] * 4 + ["dead"])
            if how == "lease":
                await willow.store.arun(willow.store.queues.expire_leases("q", 9))
            assert await willow.channels() == {}
            assert len(await items_of(willow, State.DEAD)) == 1

    async def test_a_heartbeat_restarts_the_lease(
        self, opened: Callable[[], Any], clock: FakeClock
    ) -> None:
        async with serving(opened()) as willow:
            await willow.queue()
            await willow.push(timeout=10 * SECOND)
            taken = await willow.pull()
            for _ in range(3):
                clock.advance(9)
                assert await willow.ok("POST", f"{ITEMS}/heartbeat", delivery(taken)) is None
                op = willow.store.queues.expire_leases("q", 9)
                assert await willow.store.arun(op) == []
            clock.advance(13)
            again = await willow.pull()
            late = await willow("POST", f"{ITEMS}/heartbeat", delivery(taken))
            assert (late.status, late.json["code"]) == (404, "item_lost")
            await willow.ok("POST", f"{ITEMS}/heartbeat", delivery(again))

    async def test_late_acks_hit_nobody_else(
        self, opened: Callable[[], Any], clock: FakeClock
    ) -> None:
        """Neither of the two kinds, nor a heartbeat, concerns the delivery to another consumer."""
        async with serving(opened()) as willow:
            await willow.queue()
            await willow.push(timeout=SECOND)
            first = await willow.pull()
            clock.advance(4)
            second = await willow.pull()
            assert first["State"]["ID"] != second["State"]["ID"]
            for passed in (True, False):
                late = await willow.ack(first, passed)
                assert (late.status, late.json["code"]) == (404, "item_lost")
                assert late.json["Message"]
            assert await willow.channels() == {"linux": (0, 1)}
            assert (await willow.ack(second)).status == 200
            assert (await willow.ack(second)).status == 404
            assert await willow.channels() == {}

    async def test_an_ack_names_its_channel(self, memory: Callable[[], Any]) -> None:
        """With the key-values of another channel, or another id, nothing happens."""
        async with serving(memory()) as willow:
            await willow.queue()
            await willow.push()
            await willow.push("y", MAC)
            taken, id = await willow.pull(), ""
            id = taken["State"]["ID"]
            number, _, rest = id.partition(".")
            ids = [
                "x",
                id + ".1",
                "..",
                f"{number}.x{rest}",
                f"{9**99}.{rest}",
                f"0.{rest}",
                "1.2.3.4",
            ]
            wrong = [{"ItemID": one, "KeyValues": values(**LINUX)} for one in ids]
            wrong.append({"ItemID": id, "KeyValues": values(**MAC)})
            wrong.append({"ItemID": id, "KeyValues": values(**LINUX, n=1)})
            for body in wrong:
                for path, more in (("ack", {"Passed": True}), ("heartbeat", {})):
                    answer = await willow.refused("POST", f"{ITEMS}/{path}", {**body, **more})
                    assert answer == (404, "item_lost"), body
            for path in (ITEMS, f"{UNKNOWN}/channels/items"):
                answer = await willow("POST", f"{path}/ack", {**delivery(taken), "Passed": True})
                assert answer.status == (200 if path == ITEMS else 404)


FAIL_TABLE = [
    # position, the failed item's flag, what waits (data and flag), outcome, what is left
    ("front", True, [], "pending", ["old"]),
    ("front", True, [("new", False)], "dropped", ["new"]),
    ("front", True, [("new", True)], "dropped", ["new"]),
    ("front", False, [], "pending", ["old"]),
    ("front", False, [("new", True)], "pending", ["old", "new"]),
    ("back", True, [], "pending", ["old"]),
    ("back", False, [("new", True)], "dropped", ["new"]),
    ("back", True, [("new", True)], "dropped", ["new"]),
    ("back", True, [("new", False)], "pending", ["new", "old"]),
    ("back", False, [("a", False), ("b", True)], "dropped", ["a", "b"]),
    ("back", False, [("a", False), ("b", False)], "pending", ["a", "b", "old"]),
]


@pytest.mark.parametrize("how", ["ack", "lease"])
@pytest.mark.parametrize(("position", "flag", "others", "outcome", "left"), FAIL_TABLE)
async def test_where_a_failed_item_goes(
    memory: Callable[[], Any],
    clock: FakeClock,
    how: str,
    position: str,
    flag: bool,
    others: list[tuple[str, bool]],
    outcome: str,
    left: list[str],
) -> None:
    """A drop is told in a header, and frees a slot of MaxItems; newer content always wins."""
    async with serving(memory()) as willow:
        await willow.queue("q", 1 + len(others))
        await willow.push("old", updateable=flag, position=position)
        taken = await willow.pull()
        for data, updateable in others:
            await willow.push(data, updateable=updateable)
        if how == "ack":
            answer = await willow.ack(taken, False)
            assert answer.headers["headrace-outcome"] == outcome
        else:
            clock.advance(62)
            await willow.store.arun(willow.store.queues.expire_leases("q", 9))
        if outcome == "dropped":
            await willow.push("more", {"os": "bsd"})
        else:
            full = await willow("POST", ITEMS, item("more", {"os": "bsd"}))
            assert full.status == 409
        found = []
        for _ in left:
            found.append(decoded(await willow.pull(where(**LINUX))))
        assert found == left


class TestWaiting:
    async def test_a_dequeue_waits_for_a_match(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            await willow.queue()
            await willow.push("mac", MAC)
            waiting = willow.begin("POST", f"{ITEMS}/dequeue", where(**LINUX))
            await asyncio.sleep(0.05)
            assert not waiting.task.done()
            await willow.push("linux", {**LINUX, "n": 1})
            answer = await settles(willow, waiting)
            assert (answer.status, decoded(answer.json)) == (200, "linux")

    async def test_a_limited_channel_resumes_with_an_ack(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            await willow.rule(1, os=None)
            await willow.queue()
            await willow.push("1")
            await willow.push("2")
            taken = await willow.pull()
            waiting = await waits(willow)
            await willow.ack(taken)
            assert decoded((await settles(willow, waiting)).json) == "2"

    async def test_a_deleted_queue_ends_it(self, opened: Callable[[], Any]) -> None:
        """At once. It is not made again by those who waited for it."""
        async with serving(opened()) as willow:
            await willow.queue()
            waiting = [await waits(willow) for _ in range(3)]
            await willow.ok("DELETE", "/v1/queues/q", status=204)
            for one in waiting:
                answer = await settles(willow, one)
                assert (answer.status, answer.json["code"]) == (404, "unknown_queue")
            assert await willow.ok("GET", "/v1/queues") == []

    async def test_a_stopping_node_ends_it(self, memory: Callable[[], Any]) -> None:
        async with serving(memory()) as willow:
            await willow.queue()
            waiting = await waits(willow)
            willow.app.close()
            answer = await settles(willow, waiting)
            assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
            assert answer.headers["retry-after"]
            assert (await willow.refused("POST", ITEMS, item()))[0] == 503

    @pytest.mark.parametrize(
        "count", [LEAVES, pytest.param(10 * LEAVES, marks=pytest.mark.thorough)]
    )
    async def test_a_client_that_leaves_takes_nothing(
        self, opened: Callable[[], Any], count: int, pytestconfig: pytest.Config
    ) -> None:
        """Before, while and after an item comes: no attempt is counted, and nothing is lost."""
        chance = random.Random(pytestconfig.getoption("randomly_seed", 0))
        async with serving(opened()) as willow:
            await willow.queue()
            await willow.push(retries=1)
            [before] = await items_of(willow)
            for _ in range(count):
                holder = await willow.pull()
                waiting = willow.begin("GET", ITEMS, {})
                await asyncio.sleep(chance.uniform(0, 0.003))
                released = asyncio.ensure_future(_release(willow, holder))
                await asyncio.sleep(chance.uniform(0, 0.003))
                waiting.left.set()
                async with asyncio.timeout(30):
                    await waiting.task
                    await released
                if waiting.answer.status == 200:
                    # It was answered before the client left.
                    await _release(willow, waiting.answer.json)
            assert await willow.channels() == {"linux": (1, 0)}
            [after] = await items_of(willow)
            assert (after.id, after.attempts, after.crashes) == (before.id, 0, 0)


async def _release(willow: Willow, taken: Any) -> None:
    """Give an item back, as if it had not been dequeued."""
    number, token, *_ = taken["State"]["ID"].split(".")
    outcome = Outcome(item=int(number), token=token, kind="release")
    [settled] = await willow.store.arun(willow.store.queues.settle("q", [outcome]))
    assert settled.state == "pending"


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "path"),
        [
            ({"State": {"ID": "x"}}, "State"),
            ({"Spec": None}, "Spec"),
            ({"More": 1}, "More"),
            ({"Spec.DBDefinition": None}, "Spec.DBDefinition"),
            ({"Spec.DBDefinition.KeyValues": {}}, "Spec.DBDefinition.KeyValues"),
            ({"Spec.DBDefinition.Name": "x"}, "Spec.DBDefinition.Name"),
            (
                {"Spec.DBDefinition.KeyValues": {"os": {"Type": 1024}}},
                "Spec.DBDefinition.KeyValues[os]",
            ),
            (
                {"Spec.DBDefinition.KeyValues": {"n": {"Type": 10, "Data": 5}}},
                "Spec.DBDefinition.KeyValues[n].Data",
            ),
            (
                {"Spec.DBDefinition.KeyValues": {"_n": {"Type": 10, "Data": "5"}}},
                "Spec.DBDefinition.KeyValues[_n]",
            ),
            ({"Spec.Properties": None}, "Spec.Properties"),
            ({"Spec.Properties.Data": ""}, "Spec.Properties.Data"),
            ({"Spec.Properties.Data": "%"}, "Spec.Properties.Data"),
            ({"Spec.Properties.Data": None}, "Spec.Properties.Data or Item"),
            ({"Spec.Properties.Updateable": None}, "Spec.Properties.Updateable"),
            ({"Spec.Properties.Updateable": 1}, "Spec.Properties.Updateable"),
            ({"Spec.Properties.RetryAttempts": None}, "Spec.Properties.RetryAttempts"),
            ({"Spec.Properties.RetryAttempts": -1}, "Spec.Properties.RetryAttempts"),
            ({"Spec.Properties.RetryAttempts": 2**64}, "Spec.Properties.RetryAttempts"),
            ({"Spec.Properties.RetryPosition": None}, "Spec.Properties.RetryPosition"),
            ({"Spec.Properties.RetryPosition": "top"}, "Spec.Properties.RetryPosition"),
            ({"Spec.Properties.TimeoutDuration": None}, "Spec.Properties.TimeoutDuration"),
            ({"Spec.Properties.TimeoutDuration": 0}, "Spec.Properties.TimeoutDuration"),
            ({"Spec.Properties.TimeoutDuration": -1}, "Spec.Properties.TimeoutDuration"),
            ({"Spec.Properties.TimeoutDuration": 1.5}, "Spec.Properties.TimeoutDuration"),
            ({"Spec.Properties.RetryCount": 1}, "Spec.Properties.RetryCount"),
        ],
        ids=str,
    )
    async def test_a_wrong_item_is_refused_with_the_path(
        self, memory: Callable[[], Any], change: dict[str, Any], path: str
    ) -> None:
        async with serving(memory()) as willow:
            await willow.queue()
            body = item()
            [(place, value)] = change.items()
            *outer, name = place.split(".")
            target = body
            for step in outer:
                target = target[step]
            target[name] = value
            answer = await willow("POST", ITEMS, body)
            assert answer.status == 400, answer.body
            assert answer.json["Message"].startswith(f"{path}: "), answer.json
            assert await willow.channels() == {}

    @pytest.mark.parametrize(
        "body",
        [
            *(b"", b"{", b"[]", b"{} {}", b'"x"', b"\xff", b"[" * 5000),
            *(b'{"Selection": {}}', b'{"select": {}}', b'{"Or": [{}]}', b'{"And": [null]}'),
        ],
    )
    async def test_a_wrong_query_never_selects_all(
        self, memory: Callable[[], Any], body: bytes
    ) -> None:
        async with serving(memory()) as willow:
            await willow.queue()
            await willow.push()
            for path in (ITEMS, CHANNELS, "/v1/locks"):
                assert (await willow.refused("GET", path, body))[0] == 400, path
            assert await willow.channels() == {"linux": (1, 0)}

    async def test_a_queue_that_is_not_there(self, opened: Callable[[], Any]) -> None:
        """Nothing makes it."""
        async with serving(opened()) as willow:
            items = f"{UNKNOWN}/channels/items"
            for method, body in (("POST", item()), ("GET", {})):
                assert await willow.refused(method, items, body) == (404, "unknown_queue")
            assert await willow.ok("GET", "/v1/queues") == []

    @pytest.mark.parametrize("limit", [-2, 1.5, "1", None, 2**40])
    async def test_a_wrong_number_of_items(self, memory: Callable[[], Any], limit: Any) -> None:
        async with serving(memory()) as willow:
            await willow.queue("q", 4)
            spec = {"DBDefinition": {"Name": "new"}, "Properties": {"MaxItems": limit}}
            assert (await willow.refused("POST", "/v1/queues", {"Spec": spec}))[0] == 400
            assert (await willow.refused("PUT", "/v1/queues/q", {"MaxItems": limit}))[0] == 400
            [one] = await willow.ok("GET", "/v1/queues")
            assert one["Spec"]["Properties"]["MaxItems"] == 4

    async def test_items_of_other_clients_can_be_dequeued(self, memory: Callable[[], Any]) -> None:
        """Those in a channel; an item in none has no key-values."""
        async with serving(memory()) as willow:
            hr = AsyncHeadrace(willow.store, max_body=1000)
            await hr.queues.create("q", lease=7)
            await hr.push("q", {"a": 1}, channel=LINUX)
            await hr.push("q", {"a": 2})
            taken = await willow.pull()
            assert (decoded(taken), text(taken)) == ('{"a":1}', LINUX)
            assert taken["Spec"]["Properties"]["TimeoutDuration"] == 7 * SECOND
            assert (await willow.ack(taken)).headers["headrace-outcome"] == "completed"
