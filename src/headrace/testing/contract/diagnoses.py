"""A look at the database itself."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import telemetry
from headrace.contract.values import Finding
from headrace.errors import NotConnected
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract, fill

CHECKS = {"engine", "durability", "topics", "size"}


def found(hr: Any, check: str) -> Finding:
    """The finding of one check."""
    [finding] = [finding for finding in hr.diagnose() if finding.check == check]
    assert isinstance(finding, Finding)
    return finding


class DiagnosisContract(Contract):
    """Findings: one per check, and a next step for whatever is not well."""

    @pytest.mark.parametrize("deep", [False, True])
    def test_every_store_has_the_common_checks(self, hr: Any, deep: bool) -> None:
        fill(hr, 3)
        findings = hr.diagnose(deep=deep)
        checks = [finding.check for finding in findings]
        assert set(checks) >= CHECKS
        assert len(set(checks)) == len(checks)

    def test_what_is_not_well_has_a_next_step(self, hr: Any) -> None:
        for finding in hr.diagnose():
            assert finding.found
            assert (finding.verdict == "ok") == (finding.next_step == "")

    def test_it_works_before_the_first_record(self, hr: Any) -> None:
        assert found(hr, "topics").verdict == "ok"

    def test_a_topic_ahead_of_the_clock_is_named(self, hr: Any, clock: FakeClock) -> None:
        """By more than a minute: less is a clock that was set."""
        fill(hr, 1, "early")
        clock.advance(100)
        fill(hr, 1, "late")
        clock.advance(-60)
        assert found(hr, "topics").verdict == "ok"
        clock.advance(-60)
        finding = found(hr, "topics")
        assert finding.verdict == "warn"
        assert finding.facts == {"topic": "late", "ahead_ms": 120_000}
        assert "2 min ahead" in finding.found

    def test_it_changes_nothing(self, hr: Any) -> None:
        fill(hr, 3)
        hr.proc("p", topic="t").claim()
        before = (hr.topics(), hr.procs())
        hr.diagnose(deep=True)
        assert (hr.topics(), hr.procs()) == before

    def test_it_is_an_operation_like_any_other(self, hr: Any) -> None:
        events: list[telemetry.Event] = []
        unsubscribe = telemetry.subscribe(events.append)
        try:
            hr.diagnose()
        finally:
            unsubscribe()
        assert [(event.operation, event.outcome) for event in events] == [("diagnose", "ok")]
        hr.close()
        with pytest.raises(NotConnected):
            hr.diagnose()
