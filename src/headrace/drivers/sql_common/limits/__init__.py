"""Limits in SQL: rules, their counters, and what they admit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class SqlLimits:
    """The part ``store.limits``: each operation is defined in a module of this package."""

    def __init__(self, context: SqlContext) -> None:
        rules = context.limit_rules
        self.create = rules.create
        self.rule = rules.rule
        self.list = rules.list
        self.change = rules.change
        self.add_override = rules.add_override
        self.delete = rules.delete
        self.delete_override = rules.delete_override
        usage = context.limit_usage
        self.of_item = usage.of_item
        self.usage = usage.usage
