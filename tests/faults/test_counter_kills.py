"""Holders of slots, killed."""

import pytest

import headrace
from faults.crew import Crew
from faults.waiting import PATIENCE, until
from headrace import ANY
from headrace.errors import LimitReached

SLOT = {"api": "maps"}
LEASE = 1.0


def test_the_slot_of_a_killed_holder_is_given_back(durable_url: str, crew: Crew) -> None:
    """After its lease and not before, once, to code and to items of a queue alike."""
    with headrace.connect(durable_url) as hr:
        hr.create_limit({"api": ANY}, 1, name="one")
        queue = hr.queue("calls")
        for taker in ("code", "items"):
            holder = crew.start("slotter", url=durable_url, slot=SLOT, lease=LEASE)
            until(holder.is_at_work, "a holder")
            with pytest.raises(LimitReached) as caught:
                hr.acquire(SLOT, lease=60)
            assert caught.value.usage.used == 1
            holder.kill()
            assert [info.holders for info in hr.counters()] == [1]
            if taker == "code":
                with hr.acquire(SLOT, lease=60, wait=PATIENCE):
                    assert [usage.used for usage in hr.limit_usage("one")] == [1]
            else:
                queue.push(1, channel=SLOT)
                [item] = queue.claim(wait=PATIENCE)
                assert [usage.used for usage in hr.limit_usage("one")] == [1]
                item.complete()
            assert hr.limit_usage("one") == []
            assert hr.counters() == []
