"""``/limits``: rules on how much may run or wait."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from headrace.client._async.limits import DEFAULT_HOLDERS
from headrace.core.limits import LimitTrial, LimitUsage
from headrace.model.limits.rules import LimitOverride, LimitRule
from headrace.model.query.key_values import KeyValues
from headrace.node.resources.endpoint import ApiCall, Created, Endpoint
from headrace.node.resources.key_values import Named, Pairs, QueryBody, typed
from headrace.node.resources.pages import ListPage, part
from headrace.node.resources.values import Seconds


class RuleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule: ``*`` as a value of ``group_by`` stands for every value, each counted apart."""

    limit: int
    group_by: Pairs | None = None
    queue: str | None = None
    on: Literal["running", "enqueued"] = "running"
    per: Seconds | None = None

    @property
    def described(self) -> dict[str, Any]:
        """The rule without its name, as the client takes it."""
        return {
            "group_by": _pattern(self.group_by),
            "limit": self.limit,
            "queue": self.queue,
            "on": self.on,
            "per": self.per,
        }


class NewLimit(RuleBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to be created; it gets a name if it has none."""

    name: str | None = None


class LimitChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new number of a rule, or of one of its overrides."""

    limit: int
    override: str | None = None


class NewOverride(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another limit for some values of a rule."""

    group_by: Pairs
    limit: int
    name: str | None = None


class OverrideView(msgspec.Struct, frozen=True, kw_only=True):
    """Another limit for some values of a rule."""

    name: str
    group_by: KeyValues
    limit: int


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with its overrides; ``per`` is in seconds."""

    name: str
    group_by: KeyValues | None
    limit: int
    queue: str | None
    on: str
    per: float | None
    overrides: list[OverrideView]


class LimitPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some limits, by name."""

    limits: list[LimitView]
    next: str | None


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of the items that count are to be named."""

    holders: int = DEFAULT_HOLDERS


class TrialView(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would do now, for one set of values."""

    values: KeyValues
    limit: int
    running: int
    waiting: int
    let_through: int
    held_back: int


def view(rule: LimitRule) -> LimitView:
    """A limit as the API shows it."""
    return LimitView(
        name=rule.id,
        group_by=rule.pattern if rule.pattern.all else None,
        limit=rule.limit,
        queue=rule.queue,
        on=rule.on,
        per=None if rule.period_ms is None else rule.period_ms / 1000,
        overrides=[_override_view(override) for override in rule.overrides],
    )


def _override_view(override: LimitOverride) -> OverrideView:
    return OverrideView(name=override.id, group_by=override.pattern, limit=override.limit)


class LimitQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which override of a rule, if not the rule itself."""

    override: str | None = None


async def create_limit(call: ApiCall[NewLimit, None]) -> Created:
    rule = await call.hr.limits.create(**call.body.described, name=call.body.name)
    return Created(view(rule), call.below(rule.id))


async def put_limit(call: ApiCall[RuleBody, None]) -> LimitView:
    return view(await call.hr.limits.set(**call.body.described, name=call["limit"]))


async def simulate_limit(call: ApiCall[RuleBody, None]) -> dict[str, list[TrialView]]:
    trials = await call.hr.limits.simulate(**call.body.described)
    return {"trials": [_trial_view(trial) for trial in trials]}


async def get_limit(call: ApiCall[None, None]) -> LimitView:
    return view(await call.hr.limits.get(call["limit"]))


async def update_limit(call: ApiCall[LimitChange, None]) -> LimitView:
    body = call.body
    return view(await call.hr.limits.update(call["limit"], body.limit, override=body.override))


async def delete_limit(call: ApiCall[None, LimitQuery]) -> LimitView:
    return view(await call.hr.limits.delete(call["limit"], override=call.query.override))


async def create_override(call: ApiCall[NewOverride, None]) -> LimitView:
    body = call.body
    pattern = typed(body.group_by, "group_by", allow_any=True)
    return view(await call.hr.limits.override(call["limit"], pattern, body.limit, name=body.name))


async def query_limits(call: ApiCall[QueryBody, None]) -> ListPage:
    found = part("limits", await call.hr.limits.list(call.body.query), call.body, _name)
    return found._replace(entries=[view(rule) for rule in found.entries])


async def match_limits(call: ApiCall[Named, None]) -> dict[str, list[LimitView]]:
    key_values = typed(call.body.key_values, allow_any=True)
    return {"limits": [view(rule) for rule in await call.hr.limits.match(key_values)]}


async def get_limit_usage(call: ApiCall[None, UsageQuery]) -> dict[str, list[LimitUsage]]:
    holders = call.query.holders
    return {"usage": await call.hr.limits.usage(call["limit"], holders=holders)}


def _name(rule: LimitRule) -> str:
    return rule.id


def _pattern(pairs: Pairs | None) -> KeyValues | None:
    return None if pairs is None else typed(pairs, "group_by", allow_any=True)


def _trial_view(trial: LimitTrial) -> TrialView:
    return TrialView(
        values=trial.values,
        limit=trial.limit,
        running=trial.active,
        waiting=trial.waiting,
        let_through=trial.let_through,
        held_back=trial.held_back,
    )


_LIMIT = "/limits/{limit}"
_RULES = dict[str, list[LimitView]]

ENDPOINTS = [
    Endpoint(
        method="POST",
        path="/limits",
        summary="Create a limit",
        handle=create_limit,
        body=NewLimit,
        answer=LimitView,
        status=201,
        example={"name": "per-customer", "group_by": {"customer": "*"}, "limit": 2},
    ),
    Endpoint(
        method="POST",
        path="/limits/query",
        summary="List limits",
        handle=query_limits,
        body=QueryBody,
        answer=LimitPage,
        example={},
    ),
    Endpoint(
        method="POST",
        path="/limits/match",
        summary="List the limits that apply to key-values",
        handle=match_limits,
        body=Named,
        answer=_RULES,
        example={"key_values": {"customer": "ann"}},
    ),
    Endpoint(
        method="POST",
        path="/limits/simulate",
        summary="Try what a limit would mean now",
        handle=simulate_limit,
        body=RuleBody,
        answer=dict[str, list[TrialView]],
        example={"group_by": {"customer": "*"}, "limit": 1},
    ),
    Endpoint(
        method="PUT",
        path=_LIMIT,
        summary="Create a limit, or give it another number",
        handle=put_limit,
        body=RuleBody,
        answer=LimitView,
        example={"group_by": {"customer": "*"}, "limit": 4},
    ),
    Endpoint(method="GET", path=_LIMIT, summary="Read a limit", handle=get_limit, answer=LimitView),
    Endpoint(
        method="PATCH",
        path=_LIMIT,
        summary="Change the number of a limit",
        handle=update_limit,
        body=LimitChange,
        answer=LimitView,
        example={"limit": 3},
    ),
    Endpoint(
        method="DELETE",
        path=_LIMIT,
        summary="Delete a limit, or one of its overrides",
        handle=delete_limit,
        query=LimitQuery,
        answer=LimitView,
    ),
    Endpoint(
        method="POST",
        path=f"{_LIMIT}/overrides",
        summary="Add an override to a limit",
        handle=create_override,
        body=NewOverride,
        answer=LimitView,
        status=201,
        example={"group_by": {"customer": "ann"}, "limit": 5},
    ),
    Endpoint(
        method="GET",
        path=f"{_LIMIT}/usage",
        summary="How much of a limit is used, and by what",
        handle=get_limit_usage,
        query=UsageQuery,
        answer=dict[str, list[LimitUsage]],
    ),
]
