"""The steps of the queue machine that are about limits."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from headrace.contract.counters import CounterCall
from headrace.contract.limits import OverrideRow, RuleRow
from headrace.testing import queue_choices as choose
from headrace.testing.faults import Point
from headrace.testing.queue_play import QueuePlay

LONG = 10**12


class LimitSteps(QueuePlay):
    """Rules that come and go, and what counts by them beside items."""

    @rule(
        row=choose.rules,
        override=choose.overrides,
        number=choose.numbers,
        what=st.sampled_from(["make", "make", "change", "override", "unmake", "unmake", "drop"]),
        crash=choose.crashes,
    )
    def limit(
        self, row: RuleRow, override: OverrideRow, number: int, what: str, crash: Point | None
    ) -> None:
        """Rules come, change and go while things wait and run."""
        match what:
            case "make":
                self.ask(crash, "create_limits", [replace(row, limit=number)])
            case "change":
                some = override.id if number > 1 else None
                self.ask(crash, "change_limit", row.id, some, number)
            case "override":
                self.ask(crash, "add_override", row.id, replace(override, limit=number))
            case "drop":
                self.ask(crash, "delete_override", row.id, override.id)
            case _:
                self.ask(crash, "delete_limit", row.id)

    @rule(
        session=st.sampled_from(["x", "y"]),
        name=choose.channels,
        count=st.sampled_from([1, 1, 2]),
        what=st.sampled_from(["acquire", "acquire", "give back", "set"]),
        crash=choose.crashes,
    )
    def count(
        self, session: str, name: str | None, count: int, what: str, crash: Point | None
    ) -> None:
        """User code counts beside items, under the same rules."""
        name = name or choose.A
        match what:
            case "acquire":
                # Nothing says when a lease that is over is noticed, so these are never over.
                call = CounterCall(key_values=name, session=session, count=count, lease_ms=LONG)
                self.ask(crash, "acquire_counter", call)
            case "give back":
                self.ask(crash, "give_back", session)
            case _:
                self.ask(crash, "set_counter", name, count - 1)

    def look_at_limits(self) -> None:
        """What there is of rules and counters, how much is used, and by whom."""
        self.ask(None, "counters", None, "", 9)
        for row in self.ask(None, "limit_rules", "", 9).value:
            self.ask(None, "limit_usage", row.id, 9)
