"""Willow's limiter over HTTP: rules, overrides, counters; the tables of the reference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from willow_words import (
    COUNTERS,
    ITEMS,
    RULES,
    N,
    Willow,
    asked,
    counter,
    item,
    limited,
    serving,
    text,
    values,
    where,
)

from headrace._async.headrace import AsyncHeadrace
from headrace.model.query.typed_values import ANY
from headrace.stores import open_store

II, IS = (10, 10), (10, 13)
GROUP_BY = "GroupByKeyValues"
ROWS = [
    "1I",
    "2I",
    "3I",
    "1S",
    "2S",
    "3S",
    "1A",
    "2A",
    "3A",
    "1I2I",
    "1I2S",
    "1I2A",
    "1I3I",
    "1I3S",
    "1I3A",
    "1S2I",
    "1S2S",
    "1S2A",
    "1S3I",
    "1S3S",
    "1S3A",
    "1A2I",
    "1A2S",
    "1A2A",
    "1A3I",
    "1A3S",
    "1A3A",
    "2I3I",
    "2I3S",
    "2I3A",
    "2S3I",
    "2S3S",
    "2S3A",
    "2A3I",
    "2A3S",
    "2A3A",
    "1I2I3I",
    "1S2S3S",
    "1A2A3A",
]
"""Patterns: 1I is key "1" with int 1, 1S with the string "1", 1A with any."""


@pytest.fixture
def opened(store_url: str) -> Callable[[], Any]:
    return lambda: open_store(store_url)


@pytest.fixture
def memory() -> Callable[[], Any]:
    return lambda: open_store("memory://")


def pattern(row: str) -> dict[str, Any]:
    """The pattern of a row."""
    pairs = zip(row[::2], row[1::2], strict=True)
    return {key: {"I": int(key), "S": key, "A": None}[kind] for key, kind in pairs}


def keys(conditions: str, types: tuple[int, int] = N) -> dict[str, Any]:
    """``1 = int1, 2 < str2`` as comparisons by key."""
    found = {}
    for word in filter(None, conditions.split(", ")):
        key, comparison, value = word.split()
        kinds: dict[str, Callable[[str], Any]] = {"int": int, "str": str, "any": lambda _: None}
        found[key] = asked(kinds[value[:3]](value[3:]), comparison, types)
    return found


def select(conditions: str, types: tuple[int, int] = N, **more: Any) -> dict[str, Any]:
    """A query with one selection."""
    return {"Selection": {"KeyValues": keys(conditions, types), **more}}


def numbers(rows: str) -> list[int]:
    """``0 6 9-14`` as numbers of rows."""
    ends = [word.split("-") for word in rows.split()]
    return [n for first, *last in ends for n in range(int(first), int((last or [first])[0]) + 1)]


def all_but(rows: str) -> str:
    return " ".join(str(n) for n in range(len(ROWS)) if n not in numbers(rows))


ONE, TWO = select("1 = int1"), select("2 = int2")
EITHER = "0 1 6 7 9-15 17 21-29 33-36 38"
BOTH_KEYS = "9 10 11 15 16 17 21 22 23 36 37 38"
TABLE: list[tuple[Any, str]] = [
    ({}, "0-38"),
    (select("nokey = any"), ""),
    (ONE, "0 6 9-14 21-26 36 38"),
    (select("1 = int1, 2 = int2"), "9 11 21 23 36 38"),
    (select("1 = int1, 2 = int2", MinNumberOfKeyValues=3), "36 38"),
    (select("1 = int1, 2 = int2", MaxNumberOfKeyValues=2), "9 11 21 23"),
    (select("1 = int1, 2 = int2", II), "9 36"),
    (select("1 = any, 2 = any", II), "9 36"),
    (select("1 = any, 2 = any"), BOTH_KEYS),
    (select("1 != int1"), "1 2 3 4 5 7 8 15-20 27-35 37"),
    # Several != in one selection: each must hold here. Willow excludes only what has all of them.
    (select("1 != int1, 2 != int2"), all_but(EITHER)),
    (select("1 != int1, 2 != int2", II), all_but("0 1 9-15 21 27-29 36")),
    (select("1 != any, 2 != any"), "2 5 8"),
    (select("1 < str1"), "0 6 9-14 21-26 36 38"),
    (select("1 < str1, 2 < str2"), "9 11 21 23 36 38"),
    (select("1 < str1, 2 < str2", IS), "9 36"),
    (select("1 <= str1"), "0 3 6 9-26 36 37 38"),
    (select("1 <= str1, 2 <= str2"), BOTH_KEYS),
    (select("1 <= str1, 2 <= str2", IS), "9 10 15 16 36 37"),
    (select("1 > int1"), "3 6 15-26 37 38"),
    (select("1 > int1, 2 > int2"), "16 17 22 23 37 38"),
    (select("1 > int1, 2 > int2", IS), "16 37"),
    (select("1 >= int1"), "0 3 6 9-26 36 37 38"),
    (select("1 >= int1, 2 >= int2"), BOTH_KEYS),
    (select("1 >= int1, 2 >= int2", IS), "9 10 15 16 36 37"),
    ({**ONE, "And": [TWO]}, "9 11 21 23 36 38"),
    ({"And": [ONE, TWO]}, "9 11 21 23 36 38"),
    ({"And": [ONE, TWO, select("2 < int2", (1, 5))]}, ""),
    ({**ONE, "Or": [TWO]}, EITHER),
    ({"Or": [ONE, TWO]}, EITHER),
    ({"Or": [ONE, TWO, select("2 < int1")]}, EITHER),
    (select("1 = int1", IDs=["row 0"]), "0"),
    (select("1 = int1", (1024, 1024), IDs=["row 0"]), ""),
    (select("1 = int1", IDs=["row 0"], MinNumberOfKeyValues=2), ""),
    ({"Selection": {"IDs": ["unknown"]}}, ""),
]


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_what_a_query_selects(store: str, request: pytest.FixtureRequest) -> None:
    """The reference's table, of rules and of overrides."""
    url = request.getfixturevalue(f"{store}_url")
    async with serving(open_store(url)) as willow:
        above = await willow.rule(5, own="x")
        ids = [await willow.rule(1, **pattern(row)) for row in ROWS]
        inner = [await willow.rule(1, above, own="x", **pattern(row)) for row in ROWS]
        for query, rows in TABLE:
            for path, ours in ((RULES, ids), (f"{RULES}/{above}/overrides", inner)):
                asked_for = _with_ids(query, ours)
                if path != RULES and "NumberOfKeyValues" in str(query):
                    continue  # they have one key more
                found = await willow.ok("GET", f"{path}/query", asked_for)
                got = {one["State"]["ID"] for one in found} - {above}
                assert got == {ours[n] for n in numbers(rows)}, (path, query)


def _with_ids(query: Any, ids: list[str]) -> Any:
    selection = query.get("Selection", {})
    if selection.get("IDs") == ["row 0"]:
        return {"Selection": {**selection, "IDs": [ids[0]]}}
    return query


async def test_which_patterns_match(memory: Callable[[], Any]) -> None:
    patterns: dict[str, dict[str, Any]] = {
        "a": {"key1": None},
        "b": {"key1": ""},
        "c": {"key2": ""},
        "d": {"key1": "", "key2": ""},
        "e": {"key1": "one"},
        "f": {"key1": "one", "key2": "two"},
        "g": {"name": "rule6", "key1": ""},
        "h": {"name": "rule7", "key1": ""},
        "i": {"name": "rule8", "key1": "", "key2": ""},
        "j": {"name": "rule9", "key1": "", "key2": ""},
    }
    named = {"key1": "", "key2": "", "name": "rule6"}

    def match(pairs: dict[str, Any], types: tuple[int, int] = N, **more: int) -> dict[str, Any]:
        fields = {key: asked(value, "=", types) for key, value in pairs.items()}
        for field in fields.values():
            del field["Comparison"]
        counts = {f"{end}NumberOfPermutationKeyValues": n for end, n in more.items()}
        return {"KeyValues": fields, **counts}

    async with serving(memory()) as willow:
        above = await willow.rule(5, own="x")
        ids = {await willow.rule(1, **pairs): name for name, pairs in patterns.items()}
        inner = {
            await willow.rule(1, above, own="x", **pairs): name for name, pairs in patterns.items()
        }
        for query, wanted in [
            (match({"key1": ""}), "a b"),
            (match({"key1": "", "key2": ""}), "a b c d"),
            (match({"key1": "", "key2": "", "other": 1}), "a b c d"),
            (match(named), "a b c d g"),
            (match(named, (1, 13)), "b c d g"),
            (match(named, (1024, 1024)), "a"),
            (match(named, Min=2), "d g"),
            (match(named, Max=1), "a b c"),
        ]:
            for method in ("GET", "POST"):
                found = await willow.ok(method, f"{RULES}/match", query)
                assert sorted(ids[one["State"]["ID"]] for one in found) == wanted.split()
            if len(query) > 1:
                continue  # overrides have one key more
            query["KeyValues"]["own"] = {
                "Value": values(k="x")["k"],
                "TypeRestrictions": {"MinDataType": 1, "MaxDataType": 1024},
            }
            found = await willow.ok("GET", f"{RULES}/{above}/overrides/match", query)
            assert sorted(inner[one["State"]["ID"]] for one in found) == wanted.split()
        wrong = match(named, Min=3, Max=2)
        assert (await willow.refused("GET", f"{RULES}/match", wrong))[0] == 400


class TestRules:
    async def test_the_life_of_a_rule(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            made = await willow.ok("POST", RULES, limited(2, os=None, n=1), 201)
            id = made["State"]["ID"]
            spec = {
                "DBDefinition": {GROUP_BY: values(os=None, n=1)},
                "Properties": {"Limit": 2},
            }
            assert made == {"Spec": spec, "State": {"ID": id}}
            assert await willow.ok("GET", f"{RULES}/{id}") == made
            same = await willow.refused("POST", RULES, limited(3, os=None, n=1))
            assert same == (409, "limit_exists")
            assert await willow.ok("PUT", f"{RULES}/{id}", {"Limit": 7}) is None
            [one] = await willow.ok("POST", f"{RULES}/query", {})
            assert one["Spec"]["Properties"] == {"Limit": 7}
            await willow.rule(1, id, os="mac", n=1)
            await willow.ok("DELETE", f"{RULES}/{id}", status=204)
            for method, body in (("GET", None), ("PUT", {"Limit": 1}), ("DELETE", None)):
                assert await willow.refused(method, f"{RULES}/{id}", body) == (404, "unknown_limit")

    async def test_the_life_of_an_override(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            rule = await willow.rule(1, os=None)
            path = f"{RULES}/{rule}/overrides"
            made = await willow.ok("POST", path, limited(-1, os="mac"), 201)
            id = made["State"]["ID"]
            assert text(made, GROUP_BY) == {"os": "mac"}
            assert await willow.ok("GET", f"{path}/{id}") == made
            same = await willow.refused("POST", path, limited(3, os="mac"))
            assert same == (409, "limit_exists")
            assert await willow.ok("PUT", f"{path}/{id}", {"Limit": 3}) is None
            [one] = await willow.ok("GET", f"{path}/query", where(os="mac"))
            assert one["Spec"]["Properties"] == {"Limit": 3}
            for _ in range(2):
                await willow.ok("DELETE", f"{path}/{id}", status=204)
            for method, body in (("GET", None), ("PUT", {"Limit": 1})):
                assert await willow.refused(method, f"{path}/{id}", body) == (404, "unknown_limit")
            other = f"{RULES}/unknown/overrides"
            for method, tail, body in (
                ("POST", "", limited(1, os="mac")),
                ("GET", "/query", {}),
                ("GET", "/match", {"KeyValues": {"os": asked("mac")}}),
                ("GET", f"/{id}", None),
                ("DELETE", f"/{id}", None),
            ):
                if tail == "/match":
                    del body["KeyValues"]["os"]["Comparison"]
                answer = await willow.refused(method, other + tail, body)
                assert answer == (404, "unknown_limit"), (method, tail)

    @pytest.mark.parametrize("limit", [-2, 1.5, "1", None, 2**31])
    async def test_wrong_limits(self, memory: Callable[[], Any], limit: Any) -> None:
        async with serving(memory()) as willow:
            id = await willow.rule(1, os=None)
            path = f"{RULES}/{id}/overrides"
            for where_to, pairs in ((RULES, {"n": 1}), (path, {"os": "mac"})):
                assert (await willow.refused("POST", where_to, limited(limit, **pairs)))[0] == 400
            assert (await willow.refused("PUT", f"{RULES}/{id}", {"Limit": limit}))[0] == 400

    async def test_an_override_has_the_keys_of_its_rule(self, memory: Callable[[], Any]) -> None:
        async with serving(memory()) as willow:
            id = await willow.rule(1, os=None)
            answer = await willow("POST", f"{RULES}/{id}/overrides", limited(1, n=1))
            assert answer.status == 400
            assert answer.json["Message"].startswith(
                f"Spec.DBDefinition.{GROUP_BY}[os]: is missing"
            )

    async def test_limits_apply_to_items_and_counters_together(
        self, opened: Callable[[], Any]
    ) -> None:
        async with serving(opened()) as willow:
            await willow.rule(1, os=None)
            await willow.queue()
            await willow.push()
            assert await willow.count(os="linux") == 200
            waiting = willow.begin("GET", ITEMS, {})
            await asyncio.sleep(0.05)
            assert not waiting.task.done()
            assert await willow.count(-1, os="linux") == 200
            async with asyncio.timeout(30):
                await waiting.task
            assert waiting.answer.status == 200
            assert await willow.count(os="linux") == 409

    async def test_rates_are_not_shown(self, memory: Callable[[], Any]) -> None:
        """Willow has none, and would show them as limits of what runs."""
        async with serving(memory()) as willow:
            hr = AsyncHeadrace(willow.store, max_body=1000)
            rate = await hr.limits.create({"os": ANY}, 5, per="1m")
            plain = await hr.limits.create({"os": ANY}, 5)
            found = await willow.ok("GET", f"{RULES}/query", {})
            assert [one["State"]["ID"] for one in found] == [plain.id]
            answer = await willow("GET", f"{RULES}/{rate.id}")
            assert answer.status == 404
            assert "is a rate" in answer.json["Message"]


TRUE = "true"


class TestWillowsOwnKeys:
    @pytest.mark.parametrize(
        ("pairs", "queue", "on", "plain"),
        [
            ({"_willow_queue_name": "q", "_willow_running": TRUE}, "q", "running", {}),
            (
                {"_willow_queue_name": "q", "_willow_running": TRUE, "os": None},
                "q",
                "running",
                {"os": ANY},
            ),
            ({"_willow_queue_name": "q", "_willow_enqueued": TRUE}, "q", "enqueued", {}),
            (
                {"_willow_enqueued": TRUE, "_willow_os": "linux"},
                None,
                "enqueued",
                {"os": "linux"},
            ),
        ],
        ids=str,
    )
    async def test_they_say_what_a_rule_counts(
        self, memory: Callable[[], Any], pairs: Any, queue: Any, on: str, plain: Any
    ) -> None:
        """And are shown again as they were written."""
        async with serving(memory()) as willow:
            body = _own(3, **pairs)
            made = await willow.ok("POST", RULES, body, 201)
            assert made["Spec"] == body["Spec"]
            hr = AsyncHeadrace(willow.store, max_body=1000)
            [rule] = await hr.limits.list()
            assert (rule.queue, rule.on, rule.pattern.plain) == (queue, on, plain)
            path = f"{RULES}/{made['State']['ID']}/overrides"
            prefix = "_willow_" if on == "enqueued" else ""
            more = _own(1, **{**pairs, f"{prefix}branch": "main"})
            override = await willow.ok("POST", path, more, 201)
            assert override["Spec"] == more["Spec"]
            assert (await willow("POST", path, limited(1, branch="x"))).status == 400

    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ({"_willow_queue_name": None, "_willow_enqueued": TRUE}, "MaxItems"),
            ({"_willow_queue_name": "q"}, "_willow_running or _willow_enqueued"),
            ({"_willow_running": TRUE}, "_willow_queue_name"),
            ({"_willow_os": "linux"}, "_willow_enqueued"),
            ({"_willow_enqueued": TRUE, "os": "linux"}, "_willow_os"),
            ({"_willow_enqueued": "yes"}, '"true"'),
            ({"_willow_enqueued": TRUE, "_willow_running": TRUE}, "_willow_running"),
            ({"_willow_queue_name": 5, "_willow_running": TRUE}, "no name of a queue"),
        ],
        ids=str,
    )
    async def test_others_are_refused(
        self, memory: Callable[[], Any], pairs: Any, message: str
    ) -> None:
        async with serving(memory()) as willow:
            answer = await willow("POST", RULES, _own(1, **pairs))
            assert answer.status == 400
            assert message in answer.json["Message"]
            assert await willow.ok("GET", f"{RULES}/query", {}) == []

    async def test_a_limit_of_enqueued_items(self, memory: Callable[[], Any]) -> None:
        async with serving(memory()) as willow:
            await willow.queue()
            await willow.ok("POST", RULES, _own(1, _willow_enqueued=TRUE, _willow_os=None), 201)
            await willow.push()
            assert await willow.refused("POST", ITEMS, item()) == (409, "queue_full")
            await willow.push("x", {"os": "mac"})


def _own(limit: int, **pairs: Any) -> Any:
    """A rule with keys of Willow's own, which no key-values here may have."""
    known = {key: values(k=value)["k"] for key, value in pairs.items()}
    about = {GROUP_BY: dict(sorted(known.items()))}
    return {"Spec": {"DBDefinition": about, "Properties": {"Limit": limit}}}


class TestCounters:
    async def test_counters_add_and_subtract(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            await willow.rule(3, os=None)
            assert await willow.count(2, os="linux") == 200
            answer = await willow.refused("PUT", COUNTERS, counter(2, os="linux"))
            assert answer == (409, "limit_reached")
            assert await willow.count(1, os="linux") == 200
            assert await willow.count(0, os="linux") == 200
            assert await willow.count(1, os="mac") == 200
            assert await willow.count(-2, os="linux") == 200
            assert await self._counters(willow) == {"linux": 1, "mac": 1}
            assert await willow.count(-9, os="linux") == 200
            assert await willow.count(-1, os="bsd") == 200
            assert await self._counters(willow) == {"mac": 1}

    async def test_counters_are_set_whatever_the_limit(self, opened: Callable[[], Any]) -> None:
        async with serving(opened()) as willow:
            await willow.rule(1, os=None)
            path = f"{COUNTERS}/set"
            assert await willow.ok("PUT", path, counter(5, os="linux")) is None
            assert await self._counters(willow) == {"linux": 5}
            assert await willow.count(os="linux") == 409
            for number in (0, -3):
                await willow.ok("PUT", path, counter(number, os="linux"))
                assert await self._counters(willow) == {}

    async def test_counters_are_queried(self, memory: Callable[[], Any]) -> None:
        async with serving(memory()) as willow:
            for pairs in ({"os": "linux"}, {"os": "linux", "n": 1}, {"n": 1}):
                await willow.count(2, **pairs)
            [one] = await willow.ok(
                "GET", f"{COUNTERS}/query", {"And": [where(n=1), where(os="linux")]}
            )
            assert one == {**counter(2, os="linux", n=1), "State": {"Deleting": False}}

    @pytest.mark.parametrize(
        "body",
        [
            {},
            counter(2**31, os="linux"),
            {
                "Spec": {
                    "DBDefinition": {"KeyValues": values(os=None)},
                    "Properties": {"Counters": 1},
                }
            },
            {"Spec": {"DBDefinition": {"KeyValues": values(os="mac")}, "Properties": {}}},
            {"Spec": {"DBDefinition": {"KeyValues": values(os="mac")}}},
            {**counter(1, os="linux"), "State": {"Deleting": False}},
        ],
        ids=str,
    )
    async def test_wrong_counters(self, memory: Callable[[], Any], body: Any) -> None:
        async with serving(memory()) as willow:
            for path in (COUNTERS, f"{COUNTERS}/set"):
                assert (await willow.refused("PUT", path, body))[0] == 400

    async def _counters(self, willow: Willow) -> dict[str, int]:
        found = await willow.ok("POST", f"{COUNTERS}/query", {})
        return {text(one)["os"]: one["Spec"]["Properties"]["Counters"] for one in found}
