"""The behaviour of a client that does not depend on its store."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import telemetry
from headrace.contract.values import Capabilities
from headrace.errors import ClaimLost, NotConnected, UnknownTopic
from headrace.testing.contract.base import Connect, Contract, fill
from headrace.testing.contract.queue_base import StoreOps
from headrace.testing.sync_facade import claim_of


class ClientContract(Contract):
    """Status, closing, telemetry."""

    def test_status_is_one_then_zero(self, hr: Any) -> None:
        assert hr.status == 1
        hr.close()
        assert hr.status == 0

    def test_a_refusal_does_not_make_the_store_failing(self, hr: Any) -> None:
        with pytest.raises(UnknownTopic):
            hr.topic("t").length()
        assert hr.status == 1

    def test_a_closed_client_refuses_operations(self, hr: Any) -> None:
        proc = hr.procs.create("p", "t")
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
        assert hr.status == 0

    def test_a_client_reports_the_capabilities_of_its_store(self, hr: Any) -> None:
        assert isinstance(hr.capabilities, Capabilities)

    def test_one_event_per_operation(self, hr: Any) -> None:
        events: list[telemetry.Event] = []
        unsubscribe = telemetry.subscribe(events.append)
        try:
            fill(hr, 3)
            proc = hr.procs.create("p", "t")
            claim = proc.claim()
            claim.ack()
            with pytest.raises(ClaimLost):
                claim_of(hr, "p", "stale").ack()
            hr.range("t")
        finally:
            unsubscribe()
        hr.topic("t").length()
        # A store of the same process, behind a node, emits its own.
        events = [event for event in events if event.store == StoreOps(hr).store.name]
        assert [(event.operation, event.outcome, event.code) for event in events] == [
            ("topics.commit", "ok", None),
            ("procs.create", "ok", None),
            ("procs.claim", "ok", None),
            ("procs.ack", "ok", None),
            ("procs.ack", "refused", "claim_lost"),
            ("topics.read", "ok", None),
        ]
        assert {event.attempts for event in events} == {1}
        assert all(event.seconds > 0 for event in events)
