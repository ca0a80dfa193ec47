"""Rows of the tables of rules as values, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from headrace.drivers.relational.sql import Many, Row, Sql, Statement
from headrace.model.keyvalues import KeyValues
from headrace.model.limiting import named
from headrace.model.limits import RATE, Override, Rule, Subject

EVERY = 2**31 - 1

Rulebook = dict[str, Rule]
"""Rules by id."""


def rules_of(rows: Iterable[Row]) -> Rulebook:
    """Rules from rows of each with one of its overrides, in the order of the rows."""
    first: dict[str, Row] = {}
    overrides: dict[str, list[Override]] = {}
    for row in rows:
        first.setdefault(row["id"], row)
        mine = overrides.setdefault(row["id"], [])
        if row["override"] is not None:
            pattern = _pattern(row["override_values"])
            mine.append(Override(id=row["override"], pattern=pattern, limit=row["override_most"]))
    return {id: _rule(row, overrides[id]) for id, row in first.items()}


@lru_cache(maxsize=2**14)
def _pattern(form: str) -> KeyValues:
    """Most rules are as they were when they were read last."""
    return KeyValues.read(form)


def _rule(row: Row, overrides: Sequence[Override]) -> Rule:
    measure: str = row["measure"]
    is_rate = measure.startswith(RATE)
    on: Subject = "enqueued" if measure == "enqueued" else "running"
    return Rule(
        id=row["id"],
        pattern=_pattern(row["key_values"]),
        limit=row["most"],
        overrides=tuple(overrides),
        queue=named(row["queue"]),
        on=on,
        period_ms=int(measure.removeprefix(RATE)) if is_rate else None,
    )


def written(sql: Sql, ids: Sequence[str], book: Rulebook) -> list[Statement | Many]:
    """The statements that let some rules be as they are in a book, or not be."""
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
            "most": rule.limit,
        }
        for rule in rules
    ]
    overrides = [
        {
            "rule": rule.id,
            "id": override.id,
            "key_values": override.pattern.form,
            "most": override.limit,
        }
        for rule in rules
        for override in rule.overrides
    ]
    if rows:
        statements.append(Many.of(sql.add_limits, rows))
    if overrides:
        statements.append(Many.of(sql.add_overrides, overrides))
    return statements
