"""Plans about limits."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from headrace.client.workflows import Plan
from headrace.contract.items import ChannelRow
from headrace.contract.limits import OverrideRow, RuleRow, Usage
from headrace.contract.store import Session
from headrace.core.channels import form_of
from headrace.core.limits import (
    GroupBy,
    LimitTrial,
    LimitUsage,
    override_of,
    trials_of,
    usage_of,
)
from headrace.errors import LimitExists
from headrace.model.limits.rules import LimitRule
from headrace.model.query.evaluator import PatternMatcher
from headrace.model.query.patterns import MatchQuery, subjects_of
from headrace.model.query.queries import Query

PAGE = 1000

There = tuple[str, str | None, int, int]
"""A queue, a channel of it, how many of its items wait and how many are in flight."""


def set_rule(store: Session, rule: LimitRule, *, is_named: bool) -> Plan[LimitRule]:
    """Make a rule, or give the one that is about the same its number."""
    try:
        [made] = yield store.limits.create([RuleRow.of(rule)])
    except LimitExists as error:
        found: RuleRow = yield store.limits.rule(error.same)
        is_other = is_named and found.id != rule.id
        if is_other or found.read().identity != rule.identity:
            raise
        made = yield store.limits.change(found.id, None, rule.limit)
    return read(made)


def override_rule(
    store: Session, rule: str, group_by: GroupBy, limit: object, name: str | None
) -> Plan[LimitRule]:
    """Add an override, or give the one that has the pattern its number."""
    found: RuleRow = yield store.limits.rule(rule)
    override = override_of(found.read(), group_by, limit, name)
    try:
        made = yield store.limits.add_override(rule, OverrideRow.of(override))
    except LimitExists as error:
        other = read((yield store.limits.rule(rule))).override(error.same)
        is_other = name is not None and error.same != name
        if other is None or is_other or other.pattern != override.pattern:
            raise
        made = yield store.limits.change(rule, error.same, override.limit)
    return read(made)


def list_rules(store: Session, query: Query | None) -> Plan[list[LimitRule]]:
    """All rules, or those whose pattern a query selects."""
    if query is not None:
        form_of(query)
    rules = yield from _all(store)
    if query is None:
        return rules
    selects = query.compiled()
    return [rule for rule in rules if selects(rule.pattern, rule.id)]


def match_rules(store: Session, query: MatchQuery) -> Plan[list[LimitRule]]:
    """The rules whose pattern applies to key-values, each with the overrides that do."""
    rules = yield from _all(store)
    fits = query.compiled()
    return [_matched(rule, fits) for rule in rules if fits(rule.pattern)]


def simulate_rule(store: Session, rule: LimitRule) -> Plan[list[LimitTrial]]:
    """What a rule would mean for what is there now."""
    if rule.queue is None:
        names = [backlog.queue for backlog in (yield store.queues.counts(None, False))]
    else:
        names = [rule.queue]
    found: list[There] = []
    for name in names:
        found += yield from _there(store, name, rule)
    return trials_of(rule, found)


def _there(store: Session, queue: str, rule: LimitRule) -> Plan[list[There]]:
    if not rule.pattern:
        [backlog] = yield store.queues.counts([queue], True)
        counts = backlog.counts
        return [(queue, None, counts.planned + counts.pending, counts.active)]
    found: list[There] = []
    select, after = subjects_of(rule.pattern).form, ""
    while True:
        page: list[ChannelRow] = yield store.channels.list(queue, select, after, PAGE)
        found += [(queue, row.key_values, row.waiting, row.active) for row in page]
        if len(page) < PAGE:
            return found
        after = page[-1].key_values


def _all(store: Session) -> Plan[list[LimitRule]]:
    found: list[LimitRule] = []
    page: list[RuleRow] = yield store.limits.list("", PAGE)
    while page:
        found += [row.read() for row in page]
        page = yield store.limits.list(page[-1].id, PAGE)
    return found


def usages(found: list[Usage]) -> list[LimitUsage]:
    """What a store says of limits, as users get it."""
    return list(map(usage_of, found))


def read(row: Any) -> LimitRule:
    """A rule as users get it."""
    rule: LimitRule = row.read()
    return rule


def _matched(rule: LimitRule, fits: PatternMatcher) -> LimitRule:
    overrides = tuple(override for override in rule.overrides if fits(override.pattern))
    return replace(rule, overrides=overrides)
