"""Rules of Willow's limiter: how many may run with the same values."""

from __future__ import annotations

from typing import Any

from headrace.contract.limits import RuleRow
from headrace.core.limits import new_name
from headrace.errors import UnknownLimit
from headrace.model.checks import MAX_COUNT
from headrace.model.limits.rules import UNLIMITED, LimitRule
from headrace.model.names import check_queue
from headrace.model.query.patterns import MatchQuery
from headrace.model.query.queries import Query
from headrace.node.willow.objects import Object, whole
from headrace.node.willow.patterns import Pattern, pattern_of, read_pattern
from headrace.node.willow.route import Call, WillowRoute

GROUP_BY = "GroupByKeyValues"


async def create_rule(call: Call) -> Any:
    pattern, limit = read_limited(call.body)
    rule = LimitRule(
        id=new_name(),
        pattern=pattern.key_values,
        limit=limit,
        queue=None if pattern.queue is None else check_queue(pattern.queue),
        on=pattern.on,
    )
    [row] = await call.store.arun(call.store.limits.create([RuleRow.of(rule)]))
    return shown_rule(row.read())


async def query_rules(call: Call) -> list[Any]:
    return _shown(await call.hr.limits.list(Query.from_json(call.body)))


async def match_rules(call: Call) -> list[Any]:
    return _shown(await call.hr.limits.match(MatchQuery.from_json(call.body)))


async def get_rule(call: Call) -> Any:
    return shown_rule(await find_rule(call))


async def update_rule(call: Call) -> None:
    limit = read_limit(Object(call.body, {"Limit": ()}))
    await find_rule(call)
    await call.hr.limits.update(call["rule"], limit)


async def delete_rule(call: Call) -> None:
    await find_rule(call)
    await call.hr.limits.delete(call["rule"])


async def find_rule(call: Call) -> LimitRule:
    """The rule that the path names. Willow has no rates, so there they are not."""
    rule = await call.hr.limits.get(call["rule"])
    if rule.period_ms is not None:
        raise UnknownLimit(f"the limit {rule.id!r} is a rate, and Willow has none: use /api/v1.")
    return rule


def read_limited(body: Any) -> tuple[Pattern, int]:
    """What a new rule or override is about, and its limit."""
    about, properties = whole(body, {GROUP_BY: ()}, {"Limit": ()})
    pattern = read_pattern(about.get(GROUP_BY), f"{about.path}.{GROUP_BY}")
    return pattern, read_limit(properties)


def read_limit(properties: Object) -> int:
    """The number of a limit."""
    return properties.number("Limit", UNLIMITED, MAX_COUNT)


def shown_rule(rule: LimitRule) -> Any:
    """A rule as Willow shows it."""
    return shown_limited(rule.id, pattern_of(rule), rule.limit)


def shown_limited(id: str, pattern: Pattern, limit: int) -> Any:
    """A rule or an override as Willow shows it."""
    spec = {"DBDefinition": {GROUP_BY: pattern.to_json()}, "Properties": {"Limit": limit}}
    return {"Spec": spec, "State": {"ID": id}}


def _shown(rules: list[LimitRule]) -> list[Any]:
    return [shown_rule(rule) for rule in rules if rule.period_ms is None]


_RULES = "/v1/limiter/rules"
_RULE = f"{_RULES}/{{rule}}"

ROUTES = [
    WillowRoute(ways=(("POST", _RULES),), handle=create_rule, status=201),
    WillowRoute(ways=(("GET", f"{_RULES}/query"), ("POST", f"{_RULES}/query")), handle=query_rules),
    WillowRoute(ways=(("GET", f"{_RULES}/match"), ("POST", f"{_RULES}/match")), handle=match_rules),
    WillowRoute(ways=(("GET", _RULE),), handle=get_rule, has_body=False),
    WillowRoute(ways=(("PUT", _RULE),), handle=update_rule),
    WillowRoute(ways=(("DELETE", _RULE),), handle=delete_rule, has_body=False, status=204),
]
