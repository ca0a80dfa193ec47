"""What a client is like whatever store it has."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import telemetry
from headrace.contract.values import Capabilities
from headrace.errors import ClaimLost, NotConnected, UnknownTopic
from headrace.testing.contract.base import Connect, Contract, fill


class ClientContract(Contract):
    """Status, closing, telemetry."""

    def test_status_is_one_then_zero(self, hr: Any) -> None:
        assert hr.status() == 1
        hr.close()
        assert hr.status() == 0

    def test_a_refusal_does_not_make_the_store_failing(self, hr: Any) -> None:
        with pytest.raises(UnknownTopic):
            hr.length("t")
        assert hr.status() == 1

    def test_a_closed_client_says_so(self, hr: Any) -> None:
        proc = hr.proc("p", topic="t")
        hr.close()
        for use in (
            lambda: hr.commit("t", {}),
            lambda: hr.range("t"),
            lambda: hr.iterate("t"),
            proc.claim,
        ):
            with pytest.raises(NotConnected) as caught:
                use()
            assert caught.value.code == "no_active_node"

    def test_closing_twice_is_fine(self, connect: Connect) -> None:
        with connect() as hr:
            hr.commit("t", {})
        assert hr.status() == 0

    def test_it_knows_what_its_store_can_do(self, hr: Any) -> None:
        assert isinstance(hr.capabilities, Capabilities)

    def test_one_event_per_operation(self, hr: Any) -> None:
        events: list[telemetry.Event] = []
        unsubscribe = telemetry.subscribe(events.append)
        try:
            fill(hr, 3)
            proc = hr.proc("p", topic="t")
            claim = proc.claim()
            claim.ack()
            with pytest.raises(ClaimLost):
                proc.ack("stale")
            hr.range("t")
        finally:
            unsubscribe()
        hr.length("t")
        assert [(event.operation, event.outcome, event.code) for event in events] == [
            ("commit", "ok", None),
            ("create_proc", "ok", None),
            ("claim", "ok", None),
            ("ack", "ok", None),
            ("ack", "refused", "claim_lost"),
            ("read", "ok", None),
        ]
        assert {event.attempts for event in events} == {1}
        assert all(event.seconds > 0 for event in events)
