"""Willow's limiter: rules, their overrides, and counters."""

from __future__ import annotations

from headrace.compat._async.willow_wire import AsyncWillowWire
from headrace.compat.willow_values import (
    Counter,
    Matching,
    Override,
    Pairs,
    Rule,
    Selecting,
    counter_of,
    each,
    match_json,
    override_of,
    pairs_json,
    query_json,
    rule_of,
    segment,
    spec,
)

RULES = "/v1/limiter/rules"
COUNTERS = "/v1/limiter/counters"


class AsyncLimiter:
    """Rules about how many items with the same key-values may be processed at a time."""

    def __init__(self, wire: AsyncWillowWire) -> None:
        self._wire = wire

    async def create_rule(self, group_by_key_values: Pairs, limit: int) -> Rule:
        """Make a rule: of what has the same values under these keys, so many and no more.

        ``ANY`` stands for all values, each counted apart. A ``limit`` of -1 is no limit, 0 allows
        nothing. ``LimitExists`` if there is one with these key-values.
        """
        return rule_of(await self._wire.ask("POST", RULES, _limited(group_by_key_values, limit)))

    async def get_rule(self, rule: str) -> Rule:
        """A rule by its id; ``UnknownLimit`` if there is none."""
        return rule_of(await self._wire.ask("GET", _rule(rule)))

    async def query_rules(self, query: Selecting = None) -> list[Rule]:
        """The rules whose key-values a query selects, or all."""
        return each(rule_of, await self._wire.ask_for(f"{RULES}/query", query_json(query)))

    async def match_rules(self, key_values: Matching) -> list[Rule]:
        """The rules that apply to such key-values."""
        return each(rule_of, await self._wire.ask_for(f"{RULES}/match", match_json(key_values)))

    async def update_rule(self, rule: str, limit: int) -> None:
        """Give a rule another number."""
        await self._wire.ask("PUT", _rule(rule), {"Limit": limit})

    async def delete_rule(self, rule: str) -> None:
        """Remove a rule with its overrides."""
        await self._wire.ask("DELETE", _rule(rule))

    async def create_override(self, rule: str, group_by_key_values: Pairs, limit: int) -> Override:
        """Make another limit for some of what a rule applies to; it has all keys of the rule."""
        body = _limited(group_by_key_values, limit)
        return override_of(await self._wire.ask("POST", _override(rule), body))

    async def get_override(self, rule: str, override: str) -> Override:
        """An override by its id; ``UnknownLimit`` if there is none."""
        return override_of(await self._wire.ask("GET", _override(rule, override)))

    async def query_overrides(self, rule: str, query: Selecting = None) -> list[Override]:
        """The overrides of a rule whose key-values a query selects, or all."""
        path = f"{_override(rule)}/query"
        return each(override_of, await self._wire.ask_for(path, query_json(query)))

    async def match_overrides(self, rule: str, key_values: Matching) -> list[Override]:
        """The overrides of a rule that apply to such key-values."""
        path = f"{_override(rule)}/match"
        return each(override_of, await self._wire.ask_for(path, match_json(key_values)))

    async def update_override(self, rule: str, override: str, limit: int) -> None:
        """Give an override another number."""
        await self._wire.ask("PUT", _override(rule, override), {"Limit": limit})

    async def delete_override(self, rule: str, override: str) -> None:
        """Remove an override. One that is not there is no error."""
        await self._wire.ask("DELETE", _override(rule, override))

    async def update_counter(self, key_values: Pairs, counters: int = 1) -> None:
        """Add to a counter, or subtract; ``LimitReached`` if a rule does not allow that many."""
        await self._wire.ask("PUT", COUNTERS, _counted(key_values, counters))

    async def set_counter(self, key_values: Pairs, counters: int) -> None:
        """Set a counter, whatever the rules say; 0 removes it."""
        await self._wire.ask("PUT", f"{COUNTERS}/set", _counted(key_values, counters))

    async def query_counters(self, query: Selecting = None) -> list[Counter]:
        """The counters whose key-values a query selects, or all."""
        found = await self._wire.ask_for(f"{COUNTERS}/query", query_json(query))
        return each(counter_of, found)


def _rule(rule: str) -> str:
    return f"{RULES}/{segment(rule)}"


def _override(rule: str, override: str | None = None) -> str:
    path = f"{_rule(rule)}/overrides"
    return path if override is None else f"{path}/{segment(override)}"


def _limited(pairs: Pairs, limit: int) -> dict[str, object]:
    about = {"GroupByKeyValues": pairs_json(pairs, "group_by_key_values", allow_any=True)}
    return spec(about, Limit=limit)


def _counted(pairs: Pairs, counters: int) -> dict[str, object]:
    return spec({"KeyValues": pairs_json(pairs, "key_values")}, Counters=counters)
