"""The steps of the queue machine that concern limits."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from headrace.contract.counters import CounterCall
from headrace.contract.limits import OverrideRow, RuleRow
from headrace.testing import strategies as choose
from headrace.testing.faults import Point
from headrace.testing.step_runner import QueueStepRunner

LONG = 10**12


class LimitSteps(QueueStepRunner):
    """Rules that are created and deleted, and counters that user code acquires."""

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
        """Create, change and delete rules while items wait and run."""
        match what:
            case "make":
                self.ask(crash, "limits.create", [replace(row, limit=number)])
            case "change":
                some = override.id if number > 1 else None
                self.ask(crash, "limits.change", row.id, some, number)
            case "override":
                self.ask(crash, "limits.add_override", row.id, replace(override, limit=number))
            case "drop":
                self.ask(crash, "limits.delete_override", row.id, override.id)
            case _:
                self.ask(crash, "limits.delete", row.id)

    @rule(
        session=st.sampled_from(["x", "y"]),
        name=choose.channels,
        count=st.sampled_from([1, 1, 2]),
        what=st.sampled_from(["acquire", "acquire", "give back", "set", "add", "subtract"]),
        crash=choose.crashes,
    )
    def count(
        self, session: str, name: str | None, count: int, what: str, crash: Point | None
    ) -> None:
        """User code acquires slots under the same rules as items."""
        name = name or choose.A
        match what:
            case "acquire":
                # Drivers may notice an expired lease at different moments, so these never expire.
                call = CounterCall(key_values=name, session=session, count=count, lease_ms=LONG)
                self.ask(crash, "counters.acquire", call)
            case "give back":
                self.ask(crash, "counters.release", session)
            case "add" | "subtract":
                self.ask(crash, "counters.add", name, count if what == "add" else -count)
            case _:
                self.ask(crash, "counters.set", name, count - 1)

    def compare_limits(self) -> None:
        """Read rules, counters, their usage and their holders."""
        self.ask(None, "counters.list", None, "", 9)
        for row in self.ask(None, "limits.list", "", 9).value:
            self.ask(None, "limits.usage", row.id, 9)
