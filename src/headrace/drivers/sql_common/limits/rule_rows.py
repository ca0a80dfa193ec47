"""Rows of the tables of rules as values, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from headrace.drivers.sql_common.statements import Many, Row, Statement, Statements
from headrace.model.limits.limit_set import named
from headrace.model.limits.rules import RATE, LimitOverride, LimitRule, Subject
from headrace.model.query.key_values import KeyValues

ALL_ROWS = 2**31 - 1

Rulebook = dict[str, LimitRule]
"""Rules by id."""


def rules_of(rows: Iterable[Row]) -> Rulebook:
    """Rules in the order of the rows; each row has a rule with one of its overrides."""
    first: dict[str, Row] = {}
    overrides: dict[str, list[LimitOverride]] = {}
    for row in rows:
        first.setdefault(row["id"], row)
        mine = overrides.setdefault(row["id"], [])
        if row["override"] is not None:
            pattern = _pattern(row["override_values"])
            mine.append(
                LimitOverride(id=row["override"], pattern=pattern, limit=row["override_max_used"])
            )
    return {id: _rule(row, overrides[id]) for id, row in first.items()}


@lru_cache(maxsize=2**14)
def _pattern(form: str) -> KeyValues:
    """A pattern from its form, cached, since most rules have not changed since the last read."""
    return KeyValues.read(form)


def _rule(row: Row, overrides: Sequence[LimitOverride]) -> LimitRule:
    measure: str = row["measure"]
    is_rate = measure.startswith(RATE)
    on: Subject = "enqueued" if measure == "enqueued" else "running"
    return LimitRule(
        id=row["id"],
        pattern=_pattern(row["key_values"]),
        limit=row["max_used"],
        overrides=tuple(overrides),
        queue=named(row["queue"]),
        on=on,
        period_ms=int(measure.removeprefix(RATE)) if is_rate else None,
    )


def written(sql: Statements, ids: Sequence[str], book: Rulebook) -> list[Statement | Many]:
    """The statements that store some rules as they are in ``book``, or delete them if absent."""
    statements: list[Statement | Many] = [
        sql.remove_limits(ids=list(ids)),
        sql.remove_overrides(rules=list(ids)),
    ]
    rules = [book[id] for id in ids if id in book]
    rows = [
        {
            "id": rule.id,
            "queue": rule.scope,
            "measure": rule.measure,
            "key_values": rule.pattern.form,
            "max_used": rule.limit,
        }
        for rule in rules
    ]
    overrides = [
        {
            "rule": rule.id,
            "id": override.id,
            "key_values": override.pattern.form,
            "max_used": override.limit,
        }
        for rule in rules
        for override in rule.overrides
    ]
    if rows:
        statements.append(Many.of(sql.add_limits, rows))
    if overrides:
        statements.append(Many.of(sql.add_overrides, overrides))
    return statements
