"""Diagnosis of the database itself."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import telemetry
from headrace.contract.values import Finding
from headrace.errors import NotConnected
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract, fill
from headrace.testing.contract.queue_base import StoreOps

CHECKS = {"engine", "durability", "topics", "size"}


def found(hr: Any, check: str) -> Finding:
    """The finding of one check."""
    [finding] = [finding for finding in hr.admin.diagnose() if finding.check == check]
    assert isinstance(finding, Finding)
    return finding


class DiagnosisContract(Contract):
    """Each check has one finding. A finding that is not OK has a next step."""

    needed_parts = frozenset({"admin"})

    @pytest.mark.parametrize("deep", [False, True])
    def test_every_store_has_the_common_checks(self, hr: Any, deep: bool) -> None:
        fill(hr, 3)
        findings = hr.admin.diagnose(deep=deep)
        checks = [finding.check for finding in findings]
        assert set(checks) >= CHECKS
        assert len(set(checks)) == len(checks)

    def test_a_problem_has_a_next_step(self, hr: Any) -> None:
        for finding in hr.admin.diagnose():
            assert finding.found
            assert (finding.verdict == "ok") == (finding.next_step == "")

    def test_an_empty_store_can_be_diagnosed(self, hr: Any) -> None:
        assert found(hr, "topics").verdict == "ok"

    def test_a_topic_ahead_of_the_clock_is_named(self, hr: Any, clock: FakeClock) -> None:
        """A topic counts as ahead from one minute on. Less than that is a clock that was
        adjusted."""
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

    def test_a_diagnosis_changes_nothing(self, hr: Any) -> None:
        fill(hr, 3)
        hr.procs.create("p", "t").claim()
        before = (hr.topics.list(), hr.procs.list())
        hr.admin.diagnose(deep=True)
        assert (hr.topics.list(), hr.procs.list()) == before

    def test_a_diagnosis_emits_an_event(self, hr: Any) -> None:
        events: list[telemetry.Event] = []
        unsubscribe = telemetry.subscribe(events.append)
        try:
            hr.admin.diagnose()
        finally:
            unsubscribe()
        events = [event for event in events if event.store == StoreOps(hr).store.name]
        assert [(event.operation, event.outcome) for event in events] == [("admin.diagnose", "ok")]
        hr.close()
        with pytest.raises(NotConnected):
            hr.admin.diagnose()
