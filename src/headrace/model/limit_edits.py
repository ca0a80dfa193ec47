"""How rules are made and changed: from what there is to what there shall be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from headrace.model.limits import Override, Rule
from headrace.model.refusals import limit_exists, unknown_limit

Known = Mapping[str, Rule]


def with_rules(known: Known, new: Sequence[Rule]) -> dict[str, Rule]:
    """Some rules more; ``LimitExists`` if one is there already."""
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


def rule_in(known: Known, id: str) -> Rule:
    """A rule, or ``UnknownLimit``."""
    if id not in known:
        raise unknown_limit(id)
    return known[id]


def numbered(rule: Rule, override: str | None, limit: int) -> Rule:
    """The rule with another number, its own or that of an override."""
    if override is None:
        return replace(rule, limit=limit)
    _override_in(rule, override)
    changed = [
        replace(each, limit=limit) if each.id == override else each for each in rule.overrides
    ]
    return replace(rule, overrides=tuple(changed))


def overridden(rule: Rule, override: Override) -> Rule:
    """The rule with one more override."""
    for other in rule.overrides:
        if override.id == other.id or override.pattern == other.pattern:
            raise limit_exists(rule.id, other.id, override.id)
    overrides = sorted((*rule.overrides, override), key=lambda each: each.id)
    return replace(rule, overrides=tuple(overrides))


def without_override(rule: Rule, override: str) -> Rule:
    """The rule with one override less."""
    _override_in(rule, override)
    kept = tuple(each for each in rule.overrides if each.id != override)
    return replace(rule, overrides=kept)


def _override_in(rule: Rule, override: str) -> None:
    if rule.override(override) is None:
        raise unknown_limit(rule.id, override)
