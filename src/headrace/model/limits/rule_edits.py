"""Changes of limit rules, as pure functions from rules to rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from headrace.model.error_messages import limit_exists, unknown_limit
from headrace.model.limits.rules import LimitOverride, LimitRule

Known = Mapping[str, LimitRule]


def with_rules(known: Known, new: Sequence[LimitRule]) -> dict[str, LimitRule]:
    """The rules with some more; ``LimitExists`` if one has the id or identity of another."""
    found = dict(known)
    same = {rule.identity: rule.id for rule in known.values()}
    for rule in new:
        other = rule.id if rule.id in found else same.get(rule.identity)
        if other is not None:
            raise limit_exists(rule.id, other)
        alone = replace(rule, overrides=())
        for override in rule.overrides:
            alone = overridden(alone, override)
        found[rule.id] = alone
        same[rule.identity] = rule.id
    return found


def rule_in(known: Known, id: str) -> LimitRule:
    """A rule, or ``UnknownLimit``."""
    if id not in known:
        raise unknown_limit(id)
    return known[id]


def numbered(rule: LimitRule, override: str | None, limit: int) -> LimitRule:
    """The rule with another limit, its own or that of an override."""
    if override is None:
        return replace(rule, limit=limit)
    _override_in(rule, override)
    changed = [
        replace(each, limit=limit) if each.id == override else each for each in rule.overrides
    ]
    return replace(rule, overrides=tuple(changed))


def overridden(rule: LimitRule, override: LimitOverride) -> LimitRule:
    """The rule with one more override."""
    for other in rule.overrides:
        if override.id == other.id or override.pattern == other.pattern:
            raise limit_exists(rule.id, other.id, override.id)
    overrides = sorted((*rule.overrides, override), key=lambda each: each.id)
    return replace(rule, overrides=tuple(overrides))


def without_override(rule: LimitRule, override: str) -> LimitRule:
    """The rule without one of its overrides."""
    _override_in(rule, override)
    kept = tuple(each for each in rule.overrides if each.id != override)
    return replace(rule, overrides=kept)


def _override_in(rule: LimitRule, override: str) -> None:
    if rule.override(override) is None:
        raise unknown_limit(rule.id, override)
