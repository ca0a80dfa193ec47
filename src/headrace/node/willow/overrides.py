"""Overrides of a rule of Willow's limiter: other limits for some of what it applies to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.contract.limits import OverrideRow
from headrace.core.limits import new_name
from headrace.errors import InvalidInput, UnknownLimit
from headrace.model.error_messages import unknown_limit
from headrace.model.fields import refuse
from headrace.model.limits.rules import LimitOverride, LimitRule, check_override
from headrace.model.query.key_values import KeyValues
from headrace.model.query.patterns import MatchQuery
from headrace.model.query.queries import Query
from headrace.node.willow.objects import Object
from headrace.node.willow.patterns import pattern_of
from headrace.node.willow.route import Call, WillowRoute
from headrace.node.willow.rules import find_rule, read_limit, read_limited, shown_limited

_PATH = "Spec.DBDefinition.GroupByKeyValues"


async def create_override(call: Call) -> Any:
    pattern, limit = read_limited(call.body)
    rule = await find_rule(call)
    if (pattern.queue, pattern.on) != (rule.queue, rule.on):
        refuse(InvalidInput, _PATH, "an override has all the keys of its rule, with _willow_ too.")
    check_override(rule.pattern, pattern.key_values, _PATH)
    override = LimitOverride(id=new_name(), pattern=pattern.key_values, limit=limit)
    row = OverrideRow.of(override)
    await call.store.arun(call.store.limits.add_override(rule.id, row))
    return _shown(rule, override)


async def query_overrides(call: Call) -> list[Any]:
    selects = Query.from_json(call.body).compiled()
    rule = await find_rule(call)
    return [_shown(rule, one) for one in rule.overrides if selects(one.pattern, one.id)]


async def match_overrides(call: Call) -> list[Any]:
    fits: Callable[[KeyValues], bool] = MatchQuery.from_json(call.body).compiled()
    rule = await find_rule(call)
    return [_shown(rule, one) for one in rule.overrides if fits(one.pattern)]


async def get_override(call: Call) -> Any:
    rule = await find_rule(call)
    override = rule.override(call["override"])
    if override is None:
        raise unknown_limit(rule.id, call["override"])
    return _shown(rule, override)


async def update_override(call: Call) -> None:
    limit = read_limit(Object(call.body, {"Limit": ()}))
    rule = await find_rule(call)
    await call.hr.limits.update(rule.id, limit, override=call["override"])


async def delete_override(call: Call) -> None:
    rule = await find_rule(call)
    try:
        await call.hr.limits.delete(rule.id, override=call["override"])
    except UnknownLimit:
        # Willow says so of any override.
        return


def _shown(rule: LimitRule, override: LimitOverride) -> Any:
    return shown_limited(override.id, pattern_of(rule, override.pattern), override.limit)


_OVERRIDES = "/v1/limiter/rules/{rule}/overrides"
_OVERRIDE = f"{_OVERRIDES}/{{override}}"

ROUTES = [
    WillowRoute(ways=(("POST", _OVERRIDES),), handle=create_override, status=201),
    WillowRoute(
        ways=(("GET", f"{_OVERRIDES}/query"), ("POST", f"{_OVERRIDES}/query")),
        handle=query_overrides,
    ),
    WillowRoute(
        ways=(("GET", f"{_OVERRIDES}/match"), ("POST", f"{_OVERRIDES}/match")),
        handle=match_overrides,
    ),
    WillowRoute(ways=(("GET", _OVERRIDE),), handle=get_override, has_body=False),
    WillowRoute(ways=(("PUT", _OVERRIDE),), handle=update_override),
    WillowRoute(ways=(("DELETE", _OVERRIDE),), handle=delete_override, has_body=False, status=204),
]
